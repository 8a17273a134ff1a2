"""What a bound says about its candidate."""

import pytest

from codl.devices.reference import COMPUTE, MEMORY, READING
from codl.tuner.bound import Bound

MIB = float(1 << 20)


@pytest.mark.parametrize(
    ("compute_seconds", "read_bytes", "written_bytes", "reference"),
    [
        pytest.param(2.0, 99 * MIB, 0.0, COMPUTE, id="arithmetic"),
        pytest.param(1.0, 9 * MIB, 0.0, COMPUTE, id="cached"),
        pytest.param(1.0, 99 * MIB, MIB, READING, id="reads"),
        pytest.param(1.0, 50 * MIB, 50 * MIB, MEMORY, id="copies"),
        pytest.param(1.0, MIB, 99 * MIB, MEMORY, id="writes"),
    ],
)
def test_the_reference_moves_memory_as_the_candidate_does(
    compute_seconds: float, read_bytes: float, written_bytes: float, reference: str
) -> None:
    bound = Bound(
        seconds=2.0,
        compute_seconds=compute_seconds,
        memory_seconds=1.5,
        read_bytes=read_bytes,
        written_bytes=written_bytes,
    )

    assert bound.reference == reference

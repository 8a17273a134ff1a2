"""What a device hands to its driver."""

import pytest

from codl.devices.opencl import open_device
from codl.machine import DeviceKind
from tests.exactness import DEVICES


@pytest.mark.parametrize("name", DEVICES)
def test_compilers_for_cpus_need_not_look_for_vectors(name: str) -> None:
    device = open_device(name)

    text = device._read("elementwise/elementwise_binary__buffer.cl")

    assert ("vec_type_hint" in text.partition("\n")[0]) is (device.info.kind is DeviceKind.CPU)

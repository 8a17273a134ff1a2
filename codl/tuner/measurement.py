"""Measurements as lines of a log that only grows: a tuner that is killed loses one line at most."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from sys import float_info
from typing import Any

from codl.cache.journal import ExplainedJournal


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One candidate that was run, or failed."""

    shape: str
    """The shape's key in one line."""
    implementation: str
    digest: str
    """Of the kernel's source, with the driver's version."""
    parameters: Mapping[str, int]
    stage: str
    """`quick`: a few rounds; `final`: many, together with the best others."""
    reference: str = ""
    """The reference kernel that `ratio` counts."""
    ratio: float | None = None
    """Time in runs of the reference, of the same rounds; None when the candidate failed."""
    bound_ratio: float | None = None
    """Lower bound of the ratio."""
    error: str = ""

    @property
    def candidate(self) -> str:
        """The selection as text."""
        return " ".join(
            (self.implementation, *(f"{key}={value}" for key, value in sorted(self.parameters.items())))
        )


class MeasurementLog(ExplainedJournal):
    """A journal of measurements, written by one tuner at a time; a context manager.

    Args:
        path: The file; its folder is made.

    Raises:
        ProfileError: Another tuner has it open, or it cannot be written.
    """

    busy = "got a log that another `codl tune` writes, expected no other; wait until it is done, or end it"
    failed = (
        "got {problem}, expected a log that can be written; free or unlock its disk, or set CODL_CACHE_DIR; "
        "what was measured before is kept"
    )

    def note(self, what: str, values: Mapping[str, Any]) -> None:
        """Write one line and wait until it is on the disk.

        Raises:
            ProfileError: It cannot be written.
        """
        self.append({"what": what, **values})

    def add(self, measurement: Measurement) -> None:
        """Write a measurement."""
        self.note("measurement", asdict(measurement))

    def measurements(self) -> Iterator[Measurement]:
        """Yield every measurement so far, oldest first."""
        for values in self.lines():
            if values.get("what") == "measurement":
                found = read_measurement(values)
                if found is not None:
                    yield found


def read_measurement(values: Mapping[str, Any]) -> Measurement | None:
    """Return the measurement of a log line, or None when it is none."""
    texts = ("shape", "implementation", "digest", "stage", "reference", "error")
    if not all(isinstance(values.get(name), str) for name in texts):
        return None
    parameters, ratio, bound = (values.get(name) for name in ("parameters", "ratio", "bound_ratio"))
    if not isinstance(parameters, dict) or not all(type(value) is int for value in parameters.values()):
        return None
    if not all(number is None or _is_positive(number) for number in (ratio, bound)):
        return None
    return Measurement(
        **{name: values[name] for name in texts}, parameters=parameters, ratio=ratio, bound_ratio=bound
    )


def _is_positive(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value <= float_info.max

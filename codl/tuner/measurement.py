"""What was measured, as lines of a log that only grows: a tuner that is killed loses one line at most."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from types import TracebackType
from typing import Any

from codl.errors import ProfileError

try:
    import fcntl
except ImportError:  # no such locks on this system: two tuners at once are the user's to avoid
    fcntl = None  # type: ignore[assignment]


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
    """`quick`: a few rounds; `final`: many, beside the best others."""
    reference: str = ""
    """The reference kernel that `ratio` counts."""
    ratio: float | None = None
    """Time in runs of the reference, of the same rounds; None when the candidate failed."""
    bound_ratio: float | None = None
    """What was predicted to be out of reach, in the same unit."""
    error: str = ""

    @property
    def candidate(self) -> str:
        """The selection as text."""
        return " ".join(
            (self.implementation, *(f"{key}={value}" for key, value in sorted(self.parameters.items())))
        )


class MeasurementLog:
    """An append-only file of JSON lines, written by one process at a time; a context manager.

    Args:
        path: The file; its folder is made.

    Raises:
        ProfileError: Another tuner has it open, or it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise self._refuse(error) from error
        try:
            self._lock()
            self._end_torn_line()
        except BaseException:
            os.close(self._descriptor)
            raise

    def __enter__(self) -> "MeasurementLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def append(self, what: str, values: Mapping[str, Any]) -> None:
        """Write one line and wait until it is on the disk.

        Raises:
            ProfileError: It cannot be written.
        """
        line = json.dumps({"what": what, **values}).encode() + b"\n"
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
            os.fsync(self._descriptor)
        except OSError as error:
            raise self._refuse(error) from error

    def add(self, measurement: Measurement) -> None:
        """Write a measurement."""
        self.append("measurement", asdict(measurement))

    def lines(self) -> Iterator[Mapping[str, Any]]:
        """Yield what the lines say; a line that is none, or torn, is left out."""
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise self._refuse(error) from error
        for line in text.splitlines():
            try:
                values = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(values, dict):
                yield values

    def measurements(self) -> Iterator[Measurement]:
        """Yield every measurement so far, oldest first."""
        for values in self.lines():
            if values.get("what") == "measurement":
                found = read_measurement(values)
                if found is not None:
                    yield found

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ProfileError(
                f"{self.path}: got a log that another `codl tune` writes, expected to be alone; "
                "wait until it is done, or end it"
            ) from error

    def _end_torn_line(self) -> None:
        """Begin on a new line behind what a killed tuner left."""
        try:
            size = os.fstat(self._descriptor).st_size
            if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
                os.write(self._descriptor, b"\n")
        except OSError as error:
            raise self._refuse(error) from error

    def _refuse(self, error: OSError) -> ProfileError:
        return ProfileError(
            f"{self.path}: got {error.strerror or error}, expected a log that can be written; "
            "free or unlock its disk, or set CODL_CACHE_DIR; what was measured before is kept"
        )


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
    return type(value) in (int, float) and isfinite(value) and value > 0

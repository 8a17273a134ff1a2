"""What was measured, line by line: nothing is lost when the profiler is stopped, and a second start goes on.

One JSON object a line, appended and synchronised to the disk. A last line that was cut short is left out.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from codl.errors import ProfileError
from codl.latency.profile import DeviceKey

try:
    import fcntl
except ImportError:  # Windows: the file's own sharing mode has to do
    fcntl = None  # type: ignore[assignment]

_METHOD = 3
"""What samples mean: those that were taken in another way lie in another file."""
_SYNC_EVERY = 16
"""Lines between two synchronisations: a killed process loses none, a lost machine a second's worth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One case, measured."""

    key: str
    """Of the case."""
    row: str
    digest: str
    """Of the row as it was then."""
    layer: Mapping[str, Any]
    """As in a workload file."""
    parameters: Mapping[str, int]
    begin: tuple[int, ...]
    end: tuple[int, ...]
    ratios: Mapping[str, float]
    """Times in runs of each reference kernel, as long as a profile's references."""
    memory_share: float
    """How much of the time memory is the limit, roughly, in [0, 1]."""
    spread: float
    """Standard error of the time, relative."""
    rounds: int
    """Readings, each between two looks at the machine."""
    at: float
    """When, in seconds of the Unix epoch."""
    repeat_of: float | None = None
    """When the case was measured before, if this is to see how well that repeats."""
    is_chosen: bool = False
    """Whether the case was chosen because its like were predicted badly: it teaches, and examines nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What a log holds."""

    samples: list[Sample]
    references: list[Mapping[str, float]]
    """Quiet times in us of each complete campaign."""
    ended_at: float
    """When the last complete campaign ended, in seconds of the Unix epoch; 0 for none."""


class SampleLog:
    """The samples of one device, open for appending by one process at a time.

    Raises:
        ProfileError: Another process has it open, or it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._unsynced = 0
        with self._explained():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: TextIO = open(path, "a", encoding="utf-8")  # noqa: SIM115
        try:
            self._lock()
            with self._explained():
                self._end_cut_line()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "SampleLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Synchronise and close."""
        if not self._file.closed:
            with self._explained():
                try:
                    self._sync()
                finally:
                    self._file.close()

    def append(self, sample: Sample) -> None:
        """Add a sample.

        Raises:
            ProfileError: The disk is full or the file cannot be written.
        """
        self._write({"sample": asdict(sample)})

    def append_end(self, references: Mapping[str, float]) -> None:
        """Add that a campaign is complete, and what the reference kernels took when the machine was quiet."""
        self._write({"end": time.time(), "references": dict(references)})

    def _write(self, value: Mapping[str, Any]) -> None:
        with self._explained():
            self._file.write(json.dumps(value, separators=(",", ":")) + "\n")
            self._file.flush()
            self._unsynced += 1
            if self._unsynced >= _SYNC_EVERY:
                self._sync()

    def _sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._unsynced = 0

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ProfileError(
                f"{self.path}: got another profiler at work, expected to be alone; wait for it, or end it: "
                "what it has measured is kept"
            ) from error
        except OSError:  # a file system without locks
            return

    def _end_cut_line(self) -> None:
        """Put what was killed in the middle of a line on a line of its own."""
        with open(self.path, "rb") as file:
            if file.seek(0, os.SEEK_END) and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n":
                self._file.write("\n")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ProfileError(
                f"{self.path}: cannot write ({error.strerror or error}), expected room for samples; free "
                "space or set CODL_CACHE_DIR, then run `codl profile` again: what was measured so far is kept"
            ) from error


@contextmanager
def claim_machine(folder: Path) -> Iterator[None]:
    """Keep other profilers off the machine while the block runs: two at once measure each other.

    Args:
        folder: Where all profilers of a user look for each other.

    Raises:
        ProfileError: Another one is at work, or the folder cannot be written.
    """
    with SampleLog(folder / "profiling.lock"):
        yield


def name_log(folder: Path, key: DeviceKey) -> Path:
    """Return where the samples of a device with its driver are kept, apart from those of other drivers."""
    digest = hashlib.sha256(f"{_METHOD} {key!r}".encode()).hexdigest()
    return folder / f"samples-{digest[:12]}.jsonl"


def read_log(path: Path) -> History:
    """Return what a log holds, nothing when there is none; lines that are damaged are left out.

    Raises:
        ProfileError: It cannot be read.
    """
    samples: list[Sample] = []
    references: list[Mapping[str, float]] = []
    ended_at = 0.0
    lines: list[str] = []
    try:
        if path.is_file():  # a device or a pipe might never end
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise ProfileError(
            f"{path}: got {error}, expected samples; mend its permissions or remove it"
        ) from error
    for line in lines:
        try:
            told = json.loads(line)
            if "end" in told:
                references.append(_positive(told["references"]))
                ended_at = float(told["end"])
            else:
                samples.append(_read_sample(told["sample"]))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
    return History(samples=samples, references=references, ended_at=ended_at)


def _read_sample(told: Mapping[str, Any]) -> Sample:
    return Sample(
        key=str(told["key"]),
        row=str(told["row"]),
        digest=str(told["digest"]),
        layer=dict(told["layer"]),
        parameters={str(name): int(value) for name, value in told["parameters"].items()},
        begin=tuple(map(int, told["begin"])),
        end=tuple(map(int, told["end"])),
        ratios=_positive(told["ratios"]),
        memory_share=min(1.0, max(0.0, float(told["memory_share"]))),
        spread=float(told["spread"]),
        rounds=int(told["rounds"]),
        at=float(told["at"]),
        repeat_of=None if told["repeat_of"] is None else float(told["repeat_of"]),
        is_chosen=bool(told["is_chosen"]),
    )


def _positive(told: Mapping[str, Any]) -> dict[str, float]:
    values = {str(name): float(value) for name, value in told.items()}
    if not all(isfinite(value) and value > 0 for value in values.values()):
        raise ValueError("a time that is none")
    return values

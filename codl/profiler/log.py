"""The log of samples, one a line: a profiler that was stopped loses nothing and continues from it."""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from codl.cache.journal import ExplainedJournal, read_journal
from codl.errors import ProfileError
from codl.latency.profile import DeviceKey

_METHOD = 15
"""Version of the measurement; samples of another version lie in another file."""
_SYNC_EVERY = 16
"""Lines written between two calls of fsync: a crash of the machine loses about a second of samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One case, measured."""

    key: str
    """Of the case."""
    row: str
    digest: str
    """Of the preprocessed source of the kernel."""
    layer: Mapping[str, Any]
    """As in a workload file."""
    parameters: Mapping[str, int]
    begin: tuple[int, ...]
    end: tuple[int, ...]
    ratios: Mapping[str, float]
    """Time over that of each reference kernel in the same rounds."""
    memory_share: float
    """Rough share of the time that memory limits, in [0, 1]."""
    spread: float
    """Relative standard error of the time."""
    rounds: int
    """Number of readings."""
    at: float
    """When it was taken, in seconds of the Unix epoch."""
    repeat_of: float | None = None
    """When the case was first measured, if this is a repetition; in seconds of the Unix epoch."""
    are_constants_far: bool = False
    """Whether constants came from memory, and not from a cache that cores share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The contents of a log."""

    samples: list[Sample]
    ends: list[float]
    """When each complete campaign ended, in seconds of the Unix epoch."""


class SampleLog(ExplainedJournal):
    """The samples of one device, open for appending by one process at a time; a context manager.

    Raises:
        ProfileError: Another process has it open, or it cannot be written.
    """

    busy = "got another profiler at work, expected none; wait for it or end it: its samples are kept"
    failed = (
        "cannot write ({problem}), expected room for samples; free space or set CODL_CACHE_DIR, then run "
        "`codl profile` again: the samples so far are kept"
    )

    def __init__(self, path: Path) -> None:
        super().__init__(path, sync_every=_SYNC_EVERY)

    def add(self, sample: Sample) -> None:
        """Add a sample.

        Raises:
            ProfileError: The disk is full or the file cannot be written.
        """
        self.append({"sample": asdict(sample)})

    def add_end(self) -> None:
        """Note that a campaign is complete."""
        self.append({"end": time.time()})


def claim_machine(folder: Path) -> SampleLog:
    """Return a context manager that keeps other profilers out: two at once disturb each other.

    Raises:
        ProfileError: Another one is at work, or the folder cannot be written.
    """
    return SampleLog(folder / "profiling.lock")


def name_log(folder: Path, key: DeviceKey) -> Path:
    """Return the log of a device with its driver; each version of a driver has one of its own."""
    digest = hashlib.sha256(f"{_METHOD} {key!r}".encode()).hexdigest()
    return folder / f"samples-{digest[:12]}.jsonl"


def read_log(path: Path) -> History:
    """Return the contents of a log, none where it is missing; damaged lines are left out.

    Raises:
        ProfileError: The file cannot be read.
    """
    samples: list[Sample] = []
    ends: list[float] = []
    try:
        for told in read_journal(path):
            try:
                if "end" in told:
                    ends.append(_positive({"end": told["end"]})["end"])
                else:
                    samples.append(_read_sample(told["sample"]))
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
                continue
    except OSError as error:
        raise ProfileError(
            f"{path}: got {error}, expected samples; change its permissions or remove it"
        ) from error
    return History(samples=samples, ends=ends)


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
        are_constants_far=bool(told["are_constants_far"]),
    )


def _positive(told: Mapping[str, Any]) -> dict[str, float]:
    values = {str(name): float(value) for name, value in told.items()}
    if not all(isfinite(value) and value > 0 for value in values.values()):
        raise ValueError("not a positive time")
    return values

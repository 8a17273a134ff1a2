"""What was measured, line by line: nothing is lost when a profiler is stopped, and a second start goes on."""

import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from codl.cache.journal import ExplainedJournal, read_journal
from codl.errors import ProfileError
from codl.latency.profile import DeviceKey

_METHOD = 15
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
    """Of the preprocessed kernel as it was then."""
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
    """Readings."""
    at: float
    """When, in seconds of the Unix epoch."""
    repeat_of: float | None = None
    """When the case was measured before, if this is to see how well that repeats."""
    are_constants_far: bool = False
    """Whether they came from memory, and not from a cache that cores share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What a log holds."""

    samples: list[Sample]
    ends: list[float]
    """When each complete campaign ended, in seconds of the Unix epoch."""


class SampleLog(ExplainedJournal):
    """The samples of one device, open for appending by one process at a time; a context manager.

    Raises:
        ProfileError: Another process has it open, or it cannot be written.
    """

    busy = (
        "got another profiler at work, expected to be alone; wait for it, or end it: what it has measured is "
        "kept"
    )
    failed = (
        "cannot write ({problem}), expected room for samples; free space or set CODL_CACHE_DIR, then run "
        "`codl profile` again: what was measured so far is kept"
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
        """Add that a campaign is complete."""
        self.append({"end": time.time()})


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
            f"{path}: got {error}, expected samples; mend its permissions or remove it"
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
        raise ValueError("a time that is none")
    return values

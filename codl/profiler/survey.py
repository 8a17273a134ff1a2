"""Measures cases in rounds, interleaved with the reference kernels."""

import json
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from codl.devices.limits import pinned_caller
from codl.devices.loads import prepare_sweep
from codl.devices.opencl import Device
from codl.devices.reference import CACHED_BYTES, COMPUTE, MEMORY
from codl.devices.stopwatch import Stopwatch
from codl.errors import BuildError
from codl.latency.profile import digest_implementation
from codl.profiler.case import Case, ConstantPool, PreparedCase, count_bytes
from codl.profiler.guard import Guard, Reading, find_quiet
from codl.profiler.log import Sample

LEAST_ROUNDS, MOST_ROUNDS = 8, 40
"""Readings of every case until it is looked at, and those after which what there is must do."""
SETTLED = 0.03
"""Standard error, relative, at which a time is known well enough."""
PATIENCE_SECONDS = 0.2
"""For each case of a campaign of minutes."""
BATCH = 28
"""Cases measured together: the more there are, the more moments of the machine each is seen in."""
STREAM_BYTES = 1 << 26
"""What the memory-bound reference moves."""
_RECENT = 30
"""Readings of the memory-bound reference that tell what it takes at present."""
_KEPT = 1000
_US = 1e6

REFERENCE_WALKS = 1 << 10
"""Of the guard through its cache: what the compute-bound reference of a profile does, on whatever device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """What was found out about one case."""

    ratios: Mapping[str, float]
    """To each reference, in units of its work."""
    memory_share: float
    """How much of the time memory is the limit, roughly, in [0, 1]."""
    spread: float
    """Standard error of the time, relative."""
    rounds: int
    """Readings."""


class Survey:
    """Everything that measuring cases on one device needs, set up once.

    Args:
        device: What to measure.
        patience_seconds: For each case, how long to measure it at most.

    Raises:
        DeviceError: The driver refused a kernel or memory.
    """

    def __init__(self, device: Device, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self.device, self._patience_seconds = device, patience_seconds
        self.stopwatch = Stopwatch(device)
        self._sweep = prepare_sweep(self.stopwatch.device)
        self._pool = ConstantPool(self.stopwatch.device)
        self.guard = Guard(self.stopwatch)
        """Stands before and after all that is measured."""
        self._stream = prepare_sweep(self.stopwatch.device, footprint=STREAM_BYTES)
        self._streamed: deque[Reading] = deque(maxlen=_KEPT)
        """Of the memory-bound reference, the latest last."""
        for _ in range(_RECENT):
            self._read_stream()

    def measure(
        self, cases: Sequence[Case], *, repeats: Mapping[str, float] | None = None, is_chosen: bool = False
    ) -> list[Sample]:
        """Return a sample for each case that the driver could build.

        Args:
            cases: Few enough to lie in memory together.
            repeats: Case key -> when it was measured before, for those that are measured again.
            is_chosen: Whether they are measured because their like were predicted badly.

        Raises:
            DeviceError: The device failed.
        """
        rows: dict[str, PreparedCase] = {}
        for case in cases:
            with suppress(BuildError):  # a kernel that this driver cannot build is chosen nowhere
                rows[case.key] = self.prepare(case)
        if not rows:
            return []
        for row in rows.values():  # drivers compile at the first launch
            row.run()
        self.device.store_programs(only_quickly=True)
        with pinned_caller():  # once, not for every row
            times = self._take(rows)
        again = repeats or {}
        samples = [self._make_sample(rows[key].case, times[key], again.get(key)) for key in rows]
        return [replace(sample, is_chosen=is_chosen) for sample in samples]

    def prepare(self, case: Case) -> PreparedCase:
        """Return a case ready to run.

        Raises:
            BuildError: The driver refused a kernel.
            DeviceError: The driver refused memory.
        """
        return PreparedCase(case, self.stopwatch, self._sweep, self._pool)

    def count_references(self, seconds: float) -> float:
        """Return how many compute-bound references a quiet device runs in so many seconds."""
        return seconds * _US / self.quiet_us()[COMPUTE]

    def quiet_us(self) -> dict[str, float]:
        """Return what the references take when the machine is quiet, so far."""
        return {
            COMPUTE: self.guard.quiet_seconds * _US * REFERENCE_WALKS / self.guard.rounds,
            MEMORY: self._find_quiet(self._streamed)[0] * _US,
        }

    def _take(self, rows: Mapping[str, PreparedCase]) -> dict[str, Times]:
        """Measure all in turn until each is known well enough."""
        readings: dict[str, list[Reading]] = {key: [] for key in rows}
        waiting, end = list(rows), time.monotonic() + self._patience_seconds * len(rows)
        for turn in range(MOST_ROUNDS):
            if turn % LEAST_ROUNDS == 0 and turn > 0:
                waiting = [key for key in waiting if self._find_quiet(readings[key])[1] > SETTLED]
                if not waiting or time.monotonic() > end:
                    break
            self._read_stream()
            for key in waiting if turn % 2 == 0 else reversed(waiting):
                readings[key].append(self._read(rows[key]))
        return {key: self._summarise(row.case, readings[key]) for key, row in rows.items()}

    def _read(self, row: PreparedCase) -> Reading:
        """Return what a case takes now; what is short runs several times, and the middle counts."""
        before, taken, after = np.median(row.play(self.guard.call), axis=0).tolist()
        return self.guard.relate(before, taken, after)

    def _summarise(self, case: Case, readings: Sequence[Reading]) -> Times:
        seconds, spread = self._find_quiet(readings)
        stream_seconds, _ = self._find_quiet(tuple(self._streamed)[-_RECENT:])
        beyond_bytes = max(0.0, count_bytes(case, self.device.info) - CACHED_BYTES)
        return Times(
            ratios={COMPUTE: self.count_references(seconds), MEMORY: seconds / stream_seconds},
            memory_share=min(1.0, beyond_bytes / STREAM_BYTES * stream_seconds / seconds),
            spread=spread,
            rounds=len(readings),
        )

    def _find_quiet(self, readings: Sequence[Reading]) -> tuple[float, float]:
        return find_quiet(readings, self.guard.quiet_seconds)

    def _read_stream(self) -> None:
        groups = [[self.guard.call], [self._stream], [self.guard.call]]
        self._streamed.append(self.guard.relate(*self.stopwatch.time_groups(groups)[0].tolist()))

    def _make_sample(self, case: Case, times: Times, repeat_of: float | None) -> Sample:
        row = case.selection.implementation
        return Sample(
            key=case.key,
            row=row.name,
            digest=digest_implementation(row),
            layer=json.loads(case.layer.key),
            parameters=dict(case.selection.parameters),
            begin=case.region.begin,
            end=case.region.end,
            ratios={name: max(value, 1e-9) for name, value in times.ratios.items()},
            memory_share=times.memory_share,
            spread=round(times.spread, 4),
            rounds=times.rounds,
            at=time.time(),
            repeat_of=repeat_of,
        )


def find_time_us(sample: Sample, references: Mapping[str, float]) -> float:
    """Return a sample's time in a quiet minute: by the reference that is limited by what limits it.

    Where memory limits a part of it, the ratios to both references count, by their logarithms.
    """
    times = {name: sample.ratios[name] * references[name] for name in (COMPUTE, MEMORY)}
    return float(times[COMPUTE] ** (1 - sample.memory_share) * times[MEMORY] ** sample.memory_share)

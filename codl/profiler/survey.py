"""Measures cases in rounds, interleaved with the reference kernels."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from codl.devices.limits import pinned_caller
from codl.devices.loads import prepare_sweep
from codl.devices.opencl import Device
from codl.devices.reference import CACHED_BYTES, COMPUTE, MEMORY
from codl.devices.stopwatch import Stopwatch
from codl.errors import BuildError
from codl.latency.profile import digest_implementation
from codl.profiler.case import Case, ConstantPool, PreparedCase, count_bytes
from codl.profiler.guard import Guard
from codl.profiler.log import Sample

LEAST_ROUNDS = 3
NEEDED, MOST_ROUNDS = 5, 24
"""Quiet readings of every case, and rounds after which what there is must do."""
PATIENCE_SECONDS = 0.15
"""For each case of a campaign of minutes."""
DISTURBED = 1.0
"""Spread of a case of which there is no quiet reading."""
BATCH = 14
"""Cases measured together, between two runs of the references."""
STREAM_BYTES = 1 << 26
"""What the memory-bound reference moves."""
_WAIT_SECONDS = 0.3
"""For a quiet moment, at most, in one round."""
_RECENT, _LEAST_KNOWN = 30, 6
"""Readings of the memory-bound reference that tell what it takes at present."""
_QUIET_PERCENT = 10
_US = 1e6

REFERENCE_WALKS = 1 << 10
"""Of the guard through its cache: what the compute-bound reference of a profile does, on whatever device."""


Play = Callable[[], npt.NDArray[np.float64]]
"""Returns in seconds what a guard before, the work and a guard after took, [plays, 3]."""
Reading = tuple[float, float]
"""Seconds, and how many times longer than the guards beside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """What was found out about one case."""

    ratios: Mapping[str, float]
    """To each reference, in units of its work."""
    spread: float
    """How far its quiet readings lie apart."""
    rounds: int
    """Quiet readings."""


class Survey:
    """Everything that measuring cases on one device needs, set up once.

    Args:
        device: What to measure.
        patience_seconds: For each case, how long to wait where the machine is not quiet.

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
        self._streamed: list[float] = []
        """What the memory-bound reference took in quiet moments, in seconds, the latest last."""
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
            times = self._take(
                {key: partial(row.play, self.guard.call) for key, row in rows.items()},
                patience_seconds=self._patience_seconds,
            )
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

    def read_guard(self) -> float:
        """Return what the guard takes now, in seconds."""
        return self.stopwatch.time([self.guard.call])

    def count_references(self, guards: float) -> float:
        """Return how many compute-bound references take as long as so many guards."""
        return guards * self.guard.rounds / REFERENCE_WALKS

    def quiet_us(self) -> dict[str, float]:
        """Return what the references take when the machine is quiet, so far."""
        return {
            COMPUTE: self.guard.quiet_seconds * _US * REFERENCE_WALKS / self.guard.rounds,
            MEMORY: float(np.percentile(self._streamed, _QUIET_PERCENT)) * _US,
        }

    def _take(self, rows: Mapping[str, Play], *, patience_seconds: float) -> dict[str, Times]:
        """Measure until there are enough quiet readings of each, between quiet readings of the references."""
        quiet: dict[str, list[Reading]] = {key: [] for key in rows}
        others: dict[str, list[Reading]] = {key: [] for key in rows}
        waiting, end = list(rows), time.monotonic() + patience_seconds * len(rows)
        for turn in range(MOST_ROUNDS):
            self.guard.wait(max(0.0, min(_WAIT_SECONDS, end - time.monotonic())))
            self._read_stream()
            for key in waiting if turn % 2 == 0 else reversed(waiting):
                for before, taken, after in rows[key]().tolist():
                    is_quiet = self.guard.are_quiet(before, after)
                    (quiet if is_quiet else others)[key].append((taken, 2 * taken / (before + after)))
            waiting = [key for key in waiting if len(quiet[key]) < NEEDED]
            if not waiting or (turn >= LEAST_ROUNDS and time.monotonic() > end):
                break
        return {key: self._summarise(quiet[key], others[key]) for key in rows}

    def _summarise(self, quiet: Sequence[Reading], others: Sequence[Reading]) -> Times:
        seconds, guards = sort_out(quiet, others)
        relative = [reading[1] for reading in quiet]
        return Times(
            ratios={
                COMPUTE: self.count_references(guards),
                MEMORY: seconds / _average_faster(self._streamed[-_RECENT:]),
            },
            spread=float(np.median(relative)) / max(min(relative), 1e-12) - 1 if quiet else DISTURBED,
            rounds=len(quiet),
        )

    def _read_stream(self) -> None:
        """Run the memory-bound reference; what it takes in a quiet moment is remembered."""
        groups = [[self.guard.call], [self._stream], [self.guard.call]]
        ((before, taken, after),) = self.stopwatch.time_groups(groups).tolist()
        is_quiet = self.guard.are_quiet(before, after)
        if is_quiet or len(self._streamed) < _LEAST_KNOWN:
            self._streamed.append(taken)

    def _make_sample(self, case: Case, times: Times, repeat_of: float | None) -> Sample:
        row = case.selection.implementation
        beyond_bytes = max(0.0, count_bytes(case, self.device.info) - CACHED_BYTES)
        memory_us = beyond_bytes * self.quiet_us()[MEMORY] / STREAM_BYTES
        return Sample(
            key=case.key,
            row=row.name,
            digest=digest_implementation(row),
            layer=json.loads(case.layer.key),
            parameters=dict(case.selection.parameters),
            begin=case.region.begin,
            end=case.region.end,
            ratios={name: max(value, 1e-9) for name, value in times.ratios.items()},
            memory_share=min(1.0, memory_us / max(times.ratios[COMPUTE] * self.quiet_us()[COMPUTE], 1e-6)),
            spread=round(times.spread, 4),
            rounds=times.rounds,
            at=time.time(),
            repeat_of=repeat_of,
        )


def sort_out(quiet: Sequence[Reading], others: Sequence[Reading]) -> Reading:
    """Return what something takes in quiet moments: what was read in such, or the least of the rest."""
    seconds, relative = np.array(quiet or others).T
    if not quiet:
        seconds, relative = (np.sort(one)[:LEAST_ROUNDS] for one in (seconds, relative))
    return _average_faster(seconds), _average_faster(relative)


def _average_faster(readings: Sequence[float] | npt.NDArray[np.float64]) -> float:
    """Return the mean of the faster third: an interruption between two looks at the machine goes unseen."""
    kept = max(2, -(-len(readings) // 3))
    return float(np.sort(np.asarray(readings))[:kept].mean())


def find_time_us(sample: Sample, references: Mapping[str, float]) -> float:
    """Return a sample's time in a quiet minute: by the reference that is limited by what limits it.

    Where memory limits a part of it, the ratios to both references count, by their logarithms.
    """
    times = {name: sample.ratios[name] * references[name] for name in (COMPUTE, MEMORY)}
    return float(times[COMPUTE] ** (1 - sample.memory_share) * times[MEMORY] ** sample.memory_share)

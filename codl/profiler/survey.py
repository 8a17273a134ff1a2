"""Measures cases in rounds, interleaved with the reference kernels."""

import json
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from codl.catalog.spec import can_steal
from codl.devices.awake import attentive_host
from codl.devices.loads import prepare_crossing, prepare_sweep
from codl.devices.opencl import Device
from codl.devices.pools import ActivationPool, ConstantPool
from codl.devices.stopwatch import Stopwatch
from codl.errors import BuildError
from codl.latency.profile import COMPUTE, MEMORY, digest_kernel
from codl.profiler.case import Case, PreparedCase, count_memory_bytes
from codl.profiler.guard import Guard, Play
from codl.profiler.log import Sample
from codl.profiler.quiet import FEW, Calm, Distance, Looks, Reading, find_quiet

LEAST_ROUNDS, MOST_ROUNDS = 8, 36
"""Calm readings of every case until it is looked at, and those after which what there is must do."""
_PATIENCE, _LONG_PATIENCE = 48, 384
"""Readings, calm or not, after which what there is must do; more where only calm ones are wanted.

With a full pool those of 17 s, and of two minutes.
"""
SETTLED = 0.02
"""Standard error, relative, at which a time is known well enough.

Source:
    The cases of `codl.profiler.quiet`, Intel's driver and PoCL. With eight rounds at least 13 and 16 are read
    on average, and 91 and 91 % of what was measured twice agree within 10 %; with twelve it is 15 and 18
    rounds, 92 and 92 %. One core for each driver: 12 and 11 rounds, 90 and 94 %, as with twelve.
"""
POOL = 160
"""Cases that take turns: the more there are, the more moments of the machine each is seen in."""
POOL_BYTES = 1 << 30
"""Of operators in turn, about."""
_PLACES = 4
"""For the operands of each case.

Source:
    One core of a Zen 3 for each driver, 50 slices prepared four times each: readings in turns differ between
    places for activations by 5 % (up to 12 %) in depthwise convolutions, by 2 % in poolings and streamed
    minimal filtering, by 0 (Intel's driver) and 6 % (PoCL) in concatenations; between places for filters that
    the shared cache keeps by 8 % (up to 18 %) in minimal filtering in three launches (Intel's driver), by 0
    to 2 % elsewhere; by no more than 1 % in products of matrices.
"""
_ADMITTED = 8
"""Cases that join between two rounds."""
STREAM_BYTES = 1 << 26
"""What the memory-bound reference moves."""
_RECENT = 40
"""Readings of the memory-bound reference that tell what it takes at present."""
_KEPT, _STREAM_EVERY, _LOOK_EVERY = 1000, 32, 8
_NO_WALK = 8
"""Half of the bits of the bytes that are no walk through memory."""
_LOOK_SECONDS = 0.5
"""Between two looks at how near cores are, before anything is measured."""
_US = 1e6

CROSSING = "crossing"
"""Name of what copies between cores take, beside those of the references."""
REFERENCE_WALKS = 1 << 10
"""Of the guard through its cache: what the compute-bound reference of a profile does, on whatever device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A case to measure, and why."""

    case: Case
    is_chosen: bool = False
    """Because its like were predicted badly."""
    repeat_of: float | None = None
    """When it was measured before, in seconds of the Unix epoch."""


@dataclass(slots=True, eq=False)
class _Entry:
    task: Task
    row: PreparedCase
    memory_bytes: float
    """As `count_memory_bytes` says."""
    readings: list[Reading] = field(default_factory=list)


class Survey:
    """Everything that measuring cases on one device needs, set up once.

    Args:
        device: What to measure.

    Raises:
        DeviceError: The driver refused a kernel or memory.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.stopwatch = Stopwatch(device)
        self._pool = ConstantPool(self.stopwatch.device)
        self._activations = ActivationPool(self.stopwatch.device)
        self.guard = Guard(self.stopwatch)
        """Stands before and after all that is measured."""
        self._stream = prepare_sweep(self.stopwatch.device, footprint=STREAM_BYTES)
        self.distance = Distance()
        """Of the device's cores from each other."""
        self._calm = Calm(self.distance)
        self._crossing = prepare_crossing(self.stopwatch.device) if can_steal(device.info) else None
        self._streamed: deque[Reading] = deque(maxlen=_KEPT)
        """Of the memory-bound reference, the latest last."""
        self._streamed.extend(self._read_stream() for _ in range(_RECENT))

    def watch(self, seconds: float) -> None:
        """Look for so long how quiet the machine can be, and how near its cores."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.guard.watch(_LOOK_SECONDS)
            self.distance.add(self.look(1).crossings)

    def measure(self, tasks: Iterator[Task], *, only_calm: bool = False) -> Iterator[Sample]:
        """Yield a sample for each case that the driver can build, as soon as its readings agree.

        Many cases take turns, new ones taking the places of those that are done: so the readings of each are
        seconds apart, and the moods of a machine last no longer. The order is another one in each round: what
        a kernel takes depends on what the core did just before. But the further something walks through
        memory the later it comes: it leaves nothing in the caches for those behind it, neither code nor what
        a driver keeps, and in networks many small launches follow each other.

        Source:
            37 cases prepared four times each, Emerald Rapids, Intel's driver and PoCL: of one case medians
            over 30 s agree within 10 % in 98 and 94 %; in 88 and 87 % where each always has the same one
            before it.
            24 depthwise slices of 4 to 28 us, Zen 4, Intel's driver: 1 us longer with constants from memory,
            6 us right behind a walk over 64 MiB.

        Args:
            tasks: Asked for the next one whenever there is room.
            only_calm: Whether to wait for calm moments longer, and to leave out what none was found for.

        Raises:
            DeviceError: The device failed.
        """
        entries: list[_Entry] = []
        rng = np.random.default_rng(0)
        patience = _LONG_PATIENCE if only_calm else _PATIENCE
        left, is_over = LEAST_ROUNDS, False
        while True:
            size = sum(entry.task.case.size_bytes for entry in entries)
            for _ in range(_ADMITTED):
                if len(entries) >= POOL or size > POOL_BYTES:
                    break
                if (task := next(tasks, None)) is None:
                    is_over = True
                    break
                with suppress(BuildError):  # a kernel that this driver cannot build is chosen nowhere
                    memory_bytes = count_memory_bytes(task.case, self.device.info)
                    entries.append(_Entry(task, self.prepare(task.case), memory_bytes))
                    entries[-1].row.run()  # drivers compile at the first launch
                    size += task.case.size_bytes
            if not entries:
                return
            self.device.store_programs(only_quickly=True)
            turns = [entries[place] for place in rng.permutation(len(entries))]
            self._take_turns(sorted(turns, key=lambda entry: count_walk(entry.memory_bytes)))
            left -= only_calm and is_over  # rounds for what is in turn when there is nothing more to come
            done = [entry for entry in entries if left == 0 or self._is_done(entry, patience)]
            entries = [entry for entry in entries if entry not in done]
            for entry in done:
                calm = self._keep_calm(entry.readings)
                if len(calm) >= FEW:
                    yield self._make_sample(entry, calm)
                elif not only_calm:
                    yield self._make_sample(entry, entry.readings)

    def prepare(self, case: Case) -> PreparedCase:
        """Return a case ready to run.

        Raises:
            BuildError: The driver refused a kernel.
            DeviceError: The driver refused memory.
        """
        return PreparedCase(
            case,
            self.stopwatch,
            self.guard.sweep,
            self._pool,
            activations=self._activations,
            places=_PLACES,
        )

    def count_references(self, seconds: float) -> float:
        """Return how many compute-bound references a quiet device runs in so many seconds."""
        return seconds / self._find_reference_seconds()

    def quiet_us(self) -> dict[str, float]:
        """Return what the references take when the machine is quiet, so far."""
        return {
            COMPUTE: self._find_reference_seconds() * _US,
            MEMORY: self._find_quiet(self._streamed)[0] * _US,
        }

    def near_us(self) -> dict[str, float]:
        """Return what copies between near cores take, so far; nothing where there is one."""
        return {CROSSING: self.distance.near_seconds * _US} if self.distance.near_seconds else {}

    def expect(self, known: Sequence[Mapping[str, float]]) -> None:
        """Take cores for near only where they are as near as in earlier sessions.

        Args:
            known: What `quiet_us` and `near_us` said at the end of each.
        """
        nearest = min(filter(None, map(find_distance, known)), default=None)
        if nearest is not None and self._crossing is not None:
            self.distance.expected_seconds = nearest * self._find_reference_seconds()

    def look(self, count: int) -> Looks:
        """Return what the probes of memory take now.

        The second of two sweeps counts: threads wake up during the first.

        Source:
            175 cases in turn on a Zen 4, both cores, Intel's driver: medians of as many first sweeps scatter
            by 6 %, of second ones by 2 %.
        """
        sweep = [self.guard.sweep]
        write, copy = ([self._crossing[0]], [self._crossing[1]]) if self._crossing else ([], [])
        looks = [self.stopwatch.time_groups([sweep, sweep, write, copy])[0] for _ in range(count)]
        _, swept, _, copied = np.array(looks).T.tolist()
        return Looks(copied if copy else [], swept)

    def _find_reference_seconds(self) -> float:
        """Return what the compute-bound reference takes when the machine is quiet, so far."""
        return self.guard.quiet_seconds * REFERENCE_WALKS / self.guard.rounds

    def _take_turns(self, entries: Sequence[_Entry]) -> None:
        """Read each case once, and the memory-bound reference now and then."""
        streamed, readings = [], []
        looks = Looks()
        with attentive_host():  # once, not for every case
            for place, entry in enumerate(entries):
                if place % _STREAM_EVERY == 0:
                    streamed.append(self._read_stream())
                if place % _LOOK_EVERY == 0:
                    looks += self.look(1)
                readings.append(entry.row.read(self.guard))
        mood = self._calm.add(readings, looks)
        for entry, reading in zip(entries, readings, strict=True):
            entry.readings.append(replace(reading, mood=mood))
        if self._calm.is_calm(mood):
            self._streamed.extend(replace(reading, mood=mood) for reading in streamed)

    def _is_done(self, entry: _Entry, patience: int) -> bool:
        if len(entry.readings) >= patience:
            return True
        if not self._keep_calm(entry.readings[-1:]):
            return False  # nothing new
        calm = self._keep_calm(entry.readings)
        if len(calm) >= MOST_ROUNDS:
            return True
        return len(calm) >= LEAST_ROUNDS and self._find_quiet(calm)[1] <= SETTLED

    def _keep_calm(self, readings: Sequence[Reading]) -> list[Reading]:
        """Return the readings of rounds in which the machine was left alone."""
        return [one for one in readings if one.mood and self._calm.is_calm(one.mood)]

    def _find_quiet(self, readings: Sequence[Reading]) -> tuple[float, float]:
        return find_quiet(readings, self.guard.quiet_seconds, near_seconds=self.distance.near_seconds)

    def _read_stream(self) -> Reading:
        return self.guard.surround([Play([self._stream])])

    def _make_sample(self, entry: _Entry, readings: Sequence[Reading]) -> Sample:
        """Return what a case takes by those of its readings that count."""
        case = entry.task.case
        row = case.selection.implementation
        seconds, spread = self._find_quiet(readings)
        stream_seconds, _ = self._find_quiet(tuple(self._streamed)[-_RECENT:])
        ratios = {COMPUTE: self.count_references(seconds), MEMORY: seconds / stream_seconds}
        return Sample(
            key=case.key,
            row=row.name,
            digest=digest_kernel(row),
            layer=json.loads(case.layer.key),
            parameters=dict(case.selection.parameters),
            begin=case.region.begin,
            end=case.region.end,
            ratios={name: max(value, 1e-9) for name, value in ratios.items()},
            memory_share=min(1.0, max(0.0, entry.memory_bytes) / STREAM_BYTES * stream_seconds / seconds),
            spread=round(spread, 4),
            rounds=len(entry.readings),
            at=time.time(),
            repeat_of=entry.task.repeat_of,
            are_constants_far=case.are_constants_far,
            is_chosen=entry.task.is_chosen,
        )


def find_distance(known: Mapping[str, float]) -> float:
    """Return what copies between near cores took in a session, in compute-bound references; 0 of one core."""
    return known[CROSSING] / known[COMPUTE] if CROSSING in known else 0.0


def count_walk(memory_bytes: float) -> int:
    """Return how far so much is to walk: 0 up to some 100 KB, 1 more for each four times as many bytes."""
    return max(0, round(memory_bytes).bit_length() // 2 - _NO_WALK)

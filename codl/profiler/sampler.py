"""Times cases in interleaved rounds, the two reference kernels among them; medians count."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from codl.catalog.source import digest_row
from codl.catalog.spec import can_steal
from codl.devices.awake import attentive_host
from codl.devices.loads import Call, prepare_sweep
from codl.devices.opencl import Device
from codl.devices.pools import ActivationPool, ConstantPool
from codl.devices.stopwatch import Stopwatch
from codl.errors import BuildError
from codl.latency.profile import COMPUTE, MEMORY
from codl.machine import DeviceKind
from codl.profiler.case import Case, PreparedCase
from codl.profiler.log import Sample

LEAST_ROUNDS, MOST_ROUNDS = 8, 24
"""Readings of a case before its spread is looked at, and those after which its median counts in any case."""
SETTLED = 0.02
"""Relative standard error of a median that is known well enough."""
STREAM_BYTES = 1 << 26
"""What the memory-bound reference moves."""
_POOL, _POOL_BYTES = 160, 1 << 30
"""Most cases that take turns, and about how many bytes of operands they have."""
_ADMITTED = 8
"""Cases that join between two rounds."""
_PLACES = 4
"""For the operands of each case: where they lie changes times by up to 10 %."""
_NO_WALK = 8
"""Half of the bits of the bytes that are no walk through memory."""
_REFERENCE_EVERY = 16
"""Cases between two readings of the references."""
_CORE_BYTES, _WALKS, _LEAD = 1 << 14, 1 << 10, 2
"""Of the compute-bound reference: bytes that each core walks through in its own cache, how often, and walks
before those that count."""
_PARTS, _LEAST_PARTS = 64, 8
"""Of what all cores walk through, taken by whichever is free: in all, and for each core at least."""
_FIRST_SECONDS = 2.0
"""For how long the references are read where nothing else is measured."""
_TO_DEVIATION, _MEDIAN_ERROR = 1.4826, 1.2533
"""A median absolute deviation as a standard deviation; standard error of a median in that of a mean."""
_US = 1e6


class References:
    """The two reference kernels of a device.

    One walks through the caches of all cores, which other work on the same cores slows down as it slows down
    arithmetic; the other moves memory.
    """

    def __init__(self, stopwatch: Stopwatch) -> None:
        self._stopwatch, device = stopwatch, stopwatch.device
        self.sweep = prepare_sweep(device)
        """Enqueues what fills the caches with other data."""
        self.calls = {COMPUTE: _prepare_walk(device), MEMORY: prepare_sweep(device, footprint=STREAM_BYTES)}
        """What enqueues each."""
        self.read()  # drivers compile at the first launch

    def read(self) -> dict[str, float]:
        """Return what each takes now, in seconds."""
        groups = [[self.sweep], *([call] for call in self.calls.values())]
        return dict(zip(self.calls, self._stopwatch.time_groups(groups)[0, 1:].tolist(), strict=True))


def _prepare_walk(device: Device) -> Call:
    info = device.info
    cores = info.units if info.kind is DeviceKind.CPU else 4 * info.units
    parts = max(_LEAST_PARTS, _PARTS // info.units) if can_steal(info) else 1
    return prepare_sweep(
        device, footprint=2 * _CORE_BYTES * cores, rounds=_WALKS, lead=_LEAD, copies=False, parts=parts
    )


def measure_references(devices: Sequence[Device]) -> list[dict[str, float]]:
    """Return what the reference kernels take on each device, in us; takes some seconds.

    Devices take turns and means count: what lasts longer than a kernel slows a network down as well.

    Raises:
        DeviceError: A device failed.
    """
    references = [References(Stopwatch(device)) for device in devices]
    rounds: list[list[list[float]]] = []
    end = time.monotonic() + _FIRST_SECONDS
    with attentive_host():
        while not rounds or time.monotonic() < end:
            rounds.append([list(one.read().values()) for one in references])
    means_us = np.mean(rounds, axis=0) * _US
    return [
        dict(zip(one.calls, us.tolist(), strict=True)) for one, us in zip(references, means_us, strict=True)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A case to measure."""

    case: Case
    repeat_of: float | None = None
    """When it was measured before, in seconds of the Unix epoch."""


@dataclass(slots=True, eq=False)
class _Entry:
    task: Task
    prepared: PreparedCase
    memory_bytes: float
    """As the case counts them."""
    ratios: list[dict[str, float]] = field(default_factory=list)
    """By round, its time over that of each reference in the same round."""


class Sampler:
    """Measures cases on one device.

    Args:
        device: What to measure.

    Raises:
        DeviceError: The driver refused a kernel or memory.
    """

    def __init__(self, device: Device) -> None:
        self._device, self._stopwatch = device, Stopwatch(device)
        self._references = References(self._stopwatch)
        self._constants = ConstantPool(self._stopwatch.device)
        self._activations = ActivationPool(self._stopwatch.device)
        self._read: list[dict[str, float]] = []
        """Medians of the references in each round."""

    def measure(self, tasks: Iterator[Task]) -> Iterator[Sample]:
        """Yield a sample for each case that the driver can build, as soon as its readings agree.

        Many cases take turns, new ones taking the places of those that are done, so the readings of each are
        seconds apart. A case that moves much memory comes late in its round: it leaves nothing in the caches.

        Args:
            tasks: Asked for the next one whenever there is room.

        Raises:
            DeviceError: The device failed.
        """
        entries: list[_Entry] = []
        rng = np.random.default_rng(0)
        while True:
            self._admit(tasks, entries)
            if not entries:
                return
            self._device.store_programs(only_quickly=True)
            turns = [entries[place] for place in rng.permutation(len(entries))]
            self._play_round(sorted(turns, key=lambda entry: count_walk(entry.memory_bytes)))
            done = [entry for entry in entries if _is_done(entry)]
            entries = [entry for entry in entries if entry not in done]
            yield from map(self._make_sample, done)

    def find_references_us(self) -> dict[str, float]:
        """Return the medians over all rounds of what the references take, in us."""
        medians = _find_medians(self._read or [self._references.read()])
        return {name: seconds * _US for name, seconds in medians.items()}

    def _admit(self, tasks: Iterator[Task], entries: list[_Entry]) -> None:
        size = sum(entry.task.case.size_bytes for entry in entries)
        for _ in range(_ADMITTED):
            if len(entries) >= _POOL or size > _POOL_BYTES or (task := next(tasks, None)) is None:
                return
            with suppress(BuildError):  # a kernel that this driver cannot build is chosen nowhere
                prepared = PreparedCase(
                    task.case,
                    self._stopwatch,
                    self._references.sweep,
                    self._constants,
                    activations=self._activations,
                    places=_PLACES,
                )
                prepared.run()  # drivers compile at the first launch
                entries.append(_Entry(task, prepared, task.case.count_memory_bytes(self._device.info)))
                size += task.case.size_bytes

    def _play_round(self, entries: Sequence[_Entry]) -> None:
        """Read each case once, and the references now and then."""
        references, seconds = [], []
        with attentive_host():
            for place, entry in enumerate(entries):
                if place % _REFERENCE_EVERY == 0:
                    references.append(self._references.read())
                seconds.append(entry.prepared.read())
            references.append(self._references.read())
        medians = _find_medians(references)
        self._read.append(medians)
        for entry, own in zip(entries, seconds, strict=True):
            entry.ratios.append({name: own / taken for name, taken in medians.items()})

    def _make_sample(self, entry: _Entry) -> Sample:
        case = entry.task.case
        ratios = _find_medians(entry.ratios)
        streamed = entry.memory_bytes / STREAM_BYTES / max(ratios[MEMORY], 1e-9)
        return Sample(
            key=case.key,
            row=case.selection.implementation.name,
            digest=digest_row(case.selection.implementation),
            layer=json.loads(case.layer.key),
            parameters=dict(case.selection.parameters),
            begin=case.region.begin,
            end=case.region.end,
            ratios={name: max(value, 1e-9) for name, value in ratios.items()},
            memory_share=float(np.clip(streamed, 0.0, 1.0)),
            spread=round(_find_spread(entry), 4),
            rounds=len(entry.ratios),
            at=time.time(),
            repeat_of=entry.task.repeat_of,
            are_constants_far=case.are_constants_far,
        )


def _find_medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of each of some values over all rounds."""
    return {name: float(np.median([one[name] for one in rounds])) for name in rounds[0]}


def count_walk(memory_bytes: float) -> int:
    """Return how far so much is to walk: 0 up to some 100 KB, 1 more for each four times as many bytes."""
    return max(0, round(memory_bytes).bit_length() // 2 - _NO_WALK)


def _find_spread(entry: _Entry) -> float:
    """Return the relative standard error of the median of a case's readings."""
    values = np.log([one[COMPUTE] for one in entry.ratios])
    deviation = _TO_DEVIATION * float(np.median(np.abs(values - np.median(values))))
    return float(_MEDIAN_ERROR * deviation / len(values) ** 0.5)


def _is_done(entry: _Entry) -> bool:
    rounds = len(entry.ratios)
    return rounds >= MOST_ROUNDS or (rounds >= LEAST_ROUNDS and _find_spread(entry) <= SETTLED)

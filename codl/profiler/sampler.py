"""Times cases in interleaved rounds, together with the two reference kernels; medians count."""

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
from codl.machine import DeviceInfo, DeviceKind
from codl.profiler.case import Case, PreparedCase
from codl.profiler.log import Sample

LEAST_ROUNDS, MOST_ROUNDS = 8, 24
"""Readings of a case at least, and at most."""
SETTLED = 0.02
"""Relative standard error of its median at which a case needs no more readings."""
STREAM_BYTES = 1 << 26
"""Bytes that the memory-bound reference moves."""
_POOL, _POOL_BYTES = 160, 1 << 30
"""Most cases that take turns, and about the most bytes of their operands."""
_ADMITTED = 8
"""Most cases that join between two rounds."""
_NO_WALK = 8
"""Half of the bits of a number of bytes up to which cases count as moving no memory."""
_REFERENCE_EVERY = 16
"""Cases between two readings of the references."""
_CORE_BYTES, _WALKS, _LEAD = 1 << 14, 1 << 10, 2
"""Of the compute-bound reference: bytes that each core reads in its own cache, how often, and how often it
reads them before, uncounted."""
_PARTS, _LEAST_PARTS = 64, 8
"""Parts of that work, each taken by the next free core: in all, and for each core at least."""
_FIRST_SECONDS = 2.0
"""How long the references are read where nothing else is measured."""
_TWICE, _LEAST_WORK, _LEAST_START = "twice", 0.25, 0.15
"""The compute-bound reference with twice the work; of the time of the simple one at least this share is work,
and a start of less than that share is not told from other programs."""
_TO_DEVIATION, _MEDIAN_ERROR = 1.4826, 1.2533
"""A median absolute deviation as a standard deviation; standard error of a median in that of a mean."""
_US = 1e6


class References:
    """The two reference kernels of a device.

    One reads the caches of all cores: other programs slow it down as much as arithmetic. The other moves
    memory.

    Args:
        stopwatch: Of the device.
        is_twice: Whether the first one is there once more, with twice the work.
    """

    def __init__(self, stopwatch: Stopwatch, *, is_twice: bool = False) -> None:
        self._stopwatch, device = stopwatch, stopwatch.device
        self.sweep = prepare_sweep(device)
        """Enqueues what fills the caches with other data."""
        self.calls = {COMPUTE: _prepare_walk(device), MEMORY: prepare_sweep(device, footprint=STREAM_BYTES)}
        """What enqueues each."""
        if is_twice:
            self.calls[_TWICE] = _prepare_walk(device, walks=2 * _WALKS)
        self.read()  # drivers compile at the first launch

    def read(self) -> dict[str, float]:
        """Return the time of each, in seconds."""
        groups = [[self.sweep], *([call] for call in self.calls.values())]
        return dict(zip(self.calls, self._stopwatch.time_groups(groups)[0, 1:].tolist(), strict=True))


def _prepare_walk(device: Device, *, walks: int = _WALKS) -> Call:
    info = device.info
    cores = info.units if info.kind is DeviceKind.CPU else 4 * info.units
    parts = max(_LEAST_PARTS, _PARTS // info.units) if can_steal(info) else 1
    return prepare_sweep(
        device, footprint=2 * _CORE_BYTES * cores, rounds=walks, lead=_LEAD, copies=False, parts=parts
    )


@dataclass(frozen=True, slots=True)
class Readings:
    """What is measured of a device at its first use."""

    reference_us: Mapping[str, float]
    """Of the two reference kernels; that of arithmetic without the start of a launch."""
    start_us: float
    """Of a kernel's time, what does not depend on its work: a driver wakes one thread after the other."""


def measure_references(devices: Sequence[Device]) -> list[Readings]:
    """Return what the reference kernels take on each device; this takes some seconds.

    Devices take turns. Means count, as a disturbance that outlasts a kernel slows networks down as well.

    Raises:
        DeviceError: A device failed.

    Source:
        PoCL on 16 cores of a Sapphire Rapids takes 40 to 70 us a launch beyond what the profile of one core,
        scaled by its references, predicts: SqueezeNet 2.3 ms, not 0.43; DenseNet-121 14.0, not 4.5.
    """
    references = [References(Stopwatch(device), is_twice=True) for device in devices]
    rounds: list[list[list[float]]] = []
    end = time.monotonic() + _FIRST_SECONDS
    with attentive_host():
        while not rounds or time.monotonic() < end:
            rounds.append([list(one.read().values()) for one in references])
    return [
        _summarise([dict(zip(one.calls, read[number], strict=True)) for read in rounds], device.info)
        for number, (one, device) in enumerate(zip(references, devices, strict=True))
    ]


def _summarise(rounds: Sequence[Mapping[str, float]], info: DeviceInfo) -> Readings:
    """Return what readings in seconds say.

    Where a CPU's threads start, a kernel of twice the work tells start from work. The shortest times count:
    other programs only ever add to them.
    """
    mean_us = {name: float(np.mean([one[name] for one in rounds])) * _US for name in (COMPUTE, MEMORY)}
    once, twice = (min(one[name] for one in rounds) * _US for name in (COMPUTE, _TWICE))
    starts_threads = info.kind is DeviceKind.CPU and info.units > 1
    start_us = 2 * once - twice if starts_threads else 0.0
    start_us = start_us if start_us >= _LEAST_START * once else 0.0
    work_us = max(mean_us[COMPUTE] - start_us, _LEAST_WORK * mean_us[COMPUTE])
    return Readings({**mean_us, COMPUTE: work_us}, start_us)


@dataclass(slots=True, eq=False)
class _Entry:
    prepared: PreparedCase
    memory_bytes: float
    """As the case counts them."""
    ratios: list[dict[str, float]] = field(default_factory=list)
    """By round, its time over that of each reference in the same round."""


class Sampler:
    """Measures cases on one device.

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

    def measure(self, cases: Iterator[Case]) -> Iterator[Sample]:
        """Yield a sample for each case that the driver can build, as soon as its readings agree.

        Many cases take turns, and new ones replace those that are done, so the readings of each are seconds
        apart. Cases that move much memory come late in a round, as they leave nothing in the caches.

        Args:
            cases: The next one is drawn whenever there is room.

        Raises:
            DeviceError: The device failed.
        """
        entries: list[_Entry] = []
        rng = np.random.default_rng(0)
        while True:
            self._admit(cases, entries)
            if not entries:
                return
            self._device.store_programs()
            turns = [entries[place] for place in rng.permutation(len(entries))]
            self._play_round(sorted(turns, key=lambda entry: count_walk(entry.memory_bytes)))
            done = [entry for entry in entries if _is_done(entry)]
            entries = [entry for entry in entries if entry not in done]
            yield from map(self._make_sample, done)

    def find_references_us(self) -> dict[str, float]:
        """Return the median times of the references over all rounds, in us."""
        medians = _find_medians(self._read or [self._references.read()])
        return {name: seconds * _US for name, seconds in medians.items()}

    def _admit(self, cases: Iterator[Case], entries: list[_Entry]) -> None:
        size = sum(entry.prepared.case.size_bytes for entry in entries)
        for _ in range(_ADMITTED):
            if len(entries) >= _POOL or size > _POOL_BYTES or (case := next(cases, None)) is None:
                return
            with suppress(BuildError):  # a kernel that this driver cannot build is chosen nowhere
                sweep, pools = self._references.sweep, (self._constants, self._activations)
                prepared = PreparedCase(case, self._stopwatch, sweep, *pools)
                entries.append(_Entry(prepared, case.count_memory_bytes(self._device.info)))
                size += case.size_bytes

    def _play_round(self, entries: Sequence[_Entry]) -> None:
        """Read each case once, and the references every few cases."""
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
        case = entry.prepared.case
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
            repeat_of=case.repeat_of,
            are_constants_far=case.are_constants_far,
        )


def _find_medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return by name the median over all rounds."""
    return {name: float(np.median([one[name] for one in rounds])) for name in rounds[0]}


def count_walk(memory_bytes: float) -> int:
    """Return the rank of an amount of memory: 0 up to some 100 KB, 1 more for each factor of four."""
    return max(0, round(memory_bytes).bit_length() // 2 - _NO_WALK)


def _find_spread(entry: _Entry) -> float:
    """Return the relative standard error of the median of a case's readings."""
    values = np.log([one[COMPUTE] for one in entry.ratios])
    deviation = _TO_DEVIATION * float(np.median(np.abs(values - np.median(values))))
    return float(_MEDIAN_ERROR * deviation / len(values) ** 0.5)


def _is_done(entry: _Entry) -> bool:
    rounds = len(entry.ratios)
    return rounds >= MOST_ROUNDS or (rounds >= LEAST_ROUNDS and _find_spread(entry) <= SETTLED)

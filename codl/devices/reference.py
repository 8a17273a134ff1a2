"""Reference kernels: fixed work that says how fast a device is at this moment, and how fast it can be at all.

One computes and hardly touches memory, two move memory and hardly compute. Interleaved with what is
measured they tell a slow kernel from a busy machine; at their fastest they are peaks that no kernel passes.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from math import inf
from typing import Any

import numpy as np
import pyopencl as cl

from codl.devices.boundary import at_work
from codl.devices.opencl import Device
from codl.devices.pages import allocate_host
from codl.devices.timing import Row, Sampler, repeat_row, time_call
from codl.ir.graph import FLOAT_BYTES
from codl.machine import DeviceKind, Peaks

COMPUTE, MEMORY, READING = "fma", "copy", "streams"
"""What a reference does: multiply-adds, a copy, or reading alone. Other programs slow each down otherwise.

Measurements that are kept count runs of these: one whose work changes gets another name.
"""
LANES = (4, 8, 16)
_FMA, _STREAM = (f"reference/reference_{name}__buffer.cl" for name in ("fma", "stream"))
_CHAINS = 12
_LINE = 8 * max(LANES)
"""Floats that a work-item of the stream moves in one step."""
_MOVES = ("read", "streams", "copy")
"""How a peak of bandwidth is looked for: one stream a work-item, several, or a copy."""
_LEAST_SECONDS = 1e-3
"""A launch of multiply-adds takes about this long: many times an empty one, a small part of a round."""
_FMA_ROUNDS = 1 << 18
"""Rounds of the compute-bound reference in what counts as one run, whatever a launch has."""
_LEAST_TRIALS, _MOST_TRIALS, _PEAK_SECONDS = 10, 60, 6.0
_PEAK_SAMPLE_SECONDS = 0.01
"""Of the references in measurements of peaks: about as long as a walk over a large footprint."""
_FOOTPRINTS = tuple(1 << power for power in (14, 16, 18, 20, 22, 24, 25, 26, 27, 28, 29))
"""Bytes over which the stream runs to find the bandwidth of each cache and of memory."""
_LEAST_FOOTPRINT, _SHARE_OF_MEMORY = 1 << 27, 8
"""Larger footprints than the first take no more than this share of the device's memory."""
CACHED_BYTES = 1 << 24
"""Footprints up to which a kernel keeps time with the core and its caches, not with memory."""
_WALKED_BYTES, _WALKED_BYTES_CACHED = 1 << 29, 1 << 25
"""What a launch of the stream moves: so much of a footprint that a shared cache holds comes from there."""
_STEP_BYTES = 1 << 26
"""What a run of a memory-bound reference moves: other memory each time, as weights of a network are.

Source:
    64 MiB that are read again and again come at 50 GB/s on two cores of a Sapphire Rapids and anything
    larger at 33: its last cache has them, as that of servers may have more.
"""
_ITEMS_PER_UNIT = 16
"""Work-items of a stream for each compute unit of a CPU, as kernels have, where each walks once."""


@dataclass(frozen=True, slots=True)
class Ground:
    """Memory that streams walk over."""

    src: Any
    """Buffer of `size` bytes, of the same sort as constants lie in."""
    dst: Any
    """Buffer of half as many."""
    size: int
    host: Any = None
    """The array that `src` stands on, where the device computes in the host's memory."""

    @classmethod
    def of(cls, device: Device) -> "Ground":
        """Return new memory, as much as the largest footprint of this device."""
        most = max(_LEAST_FOOTPRINT, device.info.global_memory_bytes // _SHARE_OF_MEMORY)
        size = max(footprint for footprint in _FOOTPRINTS if footprint <= most)
        floats = size // FLOAT_BYTES
        host = allocate_host(floats) if device.info.is_unified else None
        src = device.allocate(floats) if host is None else device.wrap(host)
        device.fill(src, 1.0)
        return cls(src, device.allocate(floats // 2), size, host)

    def part(self, begin: int, size: int, *, copies: bool) -> "Ground":
        """Return what a stream reads from byte `begin` on, and where it copies that to."""
        src = self.src.get_sub_region(begin, size)
        return Ground(src, self.dst.get_sub_region(begin, size) if copies else self.dst, size, self.host)


class Walk:
    """A memory-bound reference: each launch reads on behind the last one, from the beginning after the end.

    Launches are as long as what is measured with them, or longer, up to the whole ground: threads that wake
    up on one core may stay there for some milliseconds.

    Source:
        Two of 16 cores of an Emerald Rapids, PoCL, launches in turns: 64 MiB of one come at 19.5 GB/s, 128 at
        21, 256 at 25, 512 at 31. A vector by 411 MB seemed 1.5 times as fast as launches of 64 MiB.
    """

    def __init__(self, device: Device, ground: Ground, *, lanes: int, copies: bool) -> None:
        size = _STEP_BYTES // 2 if copies else _STEP_BYTES
        most = ground.size // (2 if copies else 1) // size
        self._launches: dict[int, Iterator[Callable[[], None]]] = {}
        """By steps of a launch, those that follow each other."""
        for steps in (1 << power for power in range(most.bit_length())):
            launches = [
                prepare_stream(
                    device,
                    ground.part(begin, steps * size, copies=copies),
                    lanes=lanes,
                    footprint=steps * _STEP_BYTES,
                    rounds=1,
                    copies=copies,
                    are_streams=not copies,
                )
                for begin in range(0, most // steps * steps * size, steps * size)
            ]
            self._launches[steps] = cycle(launches)
        self._least_seconds = inf
        """Of a step, so far."""

    def __call__(self, seconds: float) -> float:
        """Return what a step takes, the mean of launches that take so many seconds together."""
        long_enough = [count for count in self._launches if count * self._least_seconds >= seconds]
        steps = min(long_enough, default=max(self._launches))
        start, launches = time.perf_counter(), 0
        while not launches or time.perf_counter() - start < seconds:
            next(self._launches[steps])()
            launches += 1
        once = (time.perf_counter() - start) / launches / steps
        self._least_seconds = min(self._least_seconds, once)
        return once


class References:
    """The reference kernels of a device and a sampler that interleaves them with what is measured.

    The compute-bound one runs on one core of a CPU and on the whole of any other device, those that move
    memory always on all there is.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.lanes = max(lanes for lanes in LANES if lanes <= max(LANES[0], device.info.vector_width))
        """The widest vectors that fill a register."""
        rounds = 1024
        while (seconds := _best(prepare_fma(device, lanes=self.lanes, rounds=rounds))) < _LEAST_SECONDS:
            rounds *= max(2, min(16, round(_LEAST_SECONDS / max(seconds, 1e-6))))
        self._launch_rounds = rounds
        ground = Ground.of(device)
        self.sampler = Sampler(
            {
                COMPUTE: repeat_row(self._time_fma(self.lanes, count_part(device))),
                MEMORY: Walk(device, ground, lanes=self.lanes, copies=True),
                READING: Walk(device, ground, lanes=self.lanes, copies=False),
            }
        )

    def measure_peaks(self) -> Peaks:
        """Return the highest rates of the device: multiply-adds by vector width, bytes by footprint.

        The rate of multiply-adds is that of the whole device in the widest vectors that fill a register; of
        other vectors it is estimated by their rates on one core. Vectors wider than that count as fast as
        these: here they need more registers than there are, in another kernel they may not.

        Source:
            The device itself: ratios to the references in its better runs, times their quiet times.
        """
        rows = {f"fma {lanes}": self._time_fma(lanes, count_part(self.device)) for lanes in LANES}
        rows["whole"] = self._time_fma(self.lanes, count_items(self.device))
        ground = Ground.of(self.device)  # not that of the references: they would find it in a cache
        sizes = [size for size in _FOOTPRINTS if size <= ground.size]
        walks = {size: max(1, _count_walked(size) // size) for size in sizes}
        for size, rounds in walks.items():
            for kind in _MOVES:
                stream = prepare_stream(
                    self.device,
                    ground,
                    lanes=self.lanes,
                    footprint=size,
                    rounds=rounds,
                    copies=kind == "copy",
                    are_streams=kind == "streams",
                )
                rows[f"{kind} {size}"] = time_call(stream)
        taken = self.sampler.take(
            rows,
            warmup=1,
            least_rounds=_LEAST_TRIALS,
            most_rounds=_MOST_TRIALS,
            most_seconds=_PEAK_SECONDS,
            pause_seconds=0.0,
            until_settled=True,
            seconds=_PEAK_SAMPLE_SECONDS,
        )
        quiet = {name: float(taken.seconds[name].min()) for name in self.sampler.references}

        def seconds(name: str, reference: str) -> float:
            return taken.settled_ratio(name, reference) * quiet[reference]

        def walk_seconds(size: int) -> float:
            return min(seconds(f"{kind} {size}", _find_reference(kind, size)) for kind in _MOVES)

        flops = self.count_flops(count_items(self.device), self.lanes) / seconds("whole", COMPUTE)
        rates = [
            flops * lanes / self.lanes * taken.settled_ratio(f"fma {self.lanes}", f"fma {lanes}")
            for lanes in LANES
        ]
        return Peaks(
            flops=dict(zip(LANES, np.maximum.accumulate(rates).tolist(), strict=True)),
            bandwidth=tuple((size, size * rounds / walk_seconds(size)) for size, rounds in walks.items()),
            reference_seconds=quiet,
        )

    def count_flops(self, items: int, lanes: int) -> float:
        """Return how many floating-point operations so many work-items of the compute-bound reference do."""
        return 2.0 * items * _CHAINS * lanes * _FMA_ROUNDS

    def _time_fma(self, lanes: int, items: int) -> Row:
        """Return a row that tells how long a run takes: launches have as many rounds as take a while."""
        rounds = self._launch_rounds
        launch = time_call(prepare_fma(self.device, lanes=lanes, rounds=rounds, items=items))
        return lambda: launch() / rounds * _FMA_ROUNDS


def _count_walked(footprint: int) -> int:
    return _WALKED_BYTES_CACHED if footprint <= CACHED_BYTES else _WALKED_BYTES


def _find_reference(kind: str, footprint: int) -> str:
    """Return the reference that other programs slow down as they do a stream of this kind."""
    if footprint <= CACHED_BYTES:
        return COMPUTE
    return MEMORY if kind == "copy" else READING


def count_items(device: Device) -> int:
    """Return how many work-items keep every unit of a device busy; of its part, one group to a unit."""
    if device.info.kind is DeviceKind.CPU:
        return device.info.units
    return device.info.units * _count_group(device) * (1 if device.info.is_part else 8)


def count_part(device: Device) -> int:
    """Return how many work-items keep one core of a CPU busy, or any other device."""
    return 1 if device.info.kind is DeviceKind.CPU else count_items(device)


def prepare_fma(device: Device, *, lanes: int, rounds: int, items: int | None = None) -> Callable[[], None]:
    """Return a call that runs the compute-bound reference and waits for it, on every unit by default."""
    items, group = items or count_items(device), _count_group(device)
    kernel = device.kernel(_FMA, "reference_fma__buffer", {"VECTOR": lanes, "GROUP": group})
    dst = device.allocate(items)
    device.bind(kernel, dst, np.float32(0.999), np.int32(rounds))
    return prepare_run(device, kernel, items, group, keep=[dst])


def prepare_stream(
    device: Device,
    ground: Ground,
    *,
    lanes: int,
    footprint: int,
    rounds: int,
    copies: bool,
    are_streams: bool = False,
) -> Callable[[], None]:
    """Return a call that runs the memory-bound reference over ``footprint`` bytes and waits for it.

    Args:
        device: What moves them.
        ground: Where they are.
        lanes: Lanes of the vectors that it moves.
        footprint: Bytes, read and written ones together.
        rounds: How often.
        copies: Whether it writes what it reads.
        are_streams: Whether each work-item reads eight parts of its share at a time.
    """
    floats = footprint // FLOAT_BYTES // (2 if copies else 1)
    items = count_items(device)
    if rounds == 1 and device.info.kind is DeviceKind.CPU:
        items *= _ITEMS_PER_UNIT
    items = min(items, floats // _LINE)
    group = min(_count_group(device), items)
    items -= items % group
    share = floats // items // _LINE * _LINE
    kernel = device.kernel(
        _STREAM,
        "reference_stream__buffer",
        {"VECTOR": lanes, "GROUP": group, "COPIES": int(copies), "STREAMS": int(are_streams)},
    )
    device.bind(kernel, ground.dst, ground.src, np.int32(share), np.int32(rounds))
    return prepare_run(device, kernel, items, group, keep=[ground])


def _count_group(device: Device) -> int:
    if device.info.kind is DeviceKind.CPU:
        return 1
    few = 256 if device.info.is_part else 4 * device.info.work_group_multiple
    return min(256, device.info.max_work_group_size, few)


def prepare_run(
    device: Device, kernel: Any, items: int, group: int, *, keep: list[Any]
) -> Callable[[], None]:
    """Return a call that runs a kernel whose arguments are set, and waits for it."""
    enqueue = partial(cl.enqueue_nd_range_kernel, device.queue, kernel, (items, 1, 1), (group, 1, 1))

    def run(_keep: Any = (kernel, keep)) -> None:
        with at_work([device], f"references on {device.info.name}"):
            enqueue()
            device.finish()

    return run


def _best(run: Callable[[], None]) -> float:
    """Return the shortest of a few runs, in seconds."""
    row = time_call(run)
    row()
    return min(row() for _ in range(_LEAST_TRIALS))

"""Reference kernels: fixed work that says how fast a device is at this moment, and how fast it can be at all.

One computes and hardly touches memory, two move memory and hardly compute. Interleaved with what is
measured they tell a slow kernel from a slow minute; at their fastest they are peaks that no kernel passes.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyopencl as cl

from codl.devices.awake import attentive_host
from codl.devices.opencl import Device
from codl.devices.timing import Sampler, time_call
from codl.machine import DeviceKind, Peaks

COMPUTE, MEMORY, READING = "compute", "memory", "reading"
"""What a reference does: multiply-adds, a copy, or reading alone. Other programs slow each down otherwise."""
LANES = (4, 8, 16)
_FMA, _STREAM = (f"reference/reference_{name}__buffer.cl" for name in ("fma", "stream"))
_CHAINS = 12
_LINE = 8 * max(LANES)
"""Floats that a work-item of the stream moves in one step."""
_MOVES = ("read", "streams", "copy")
"""How a peak of bandwidth is looked for: one stream a work-item, several, or a copy."""
_LEAST_SECONDS = 1e-3
"""A reference takes about this long: many times a launch, short beside a round."""
_LEAST_TRIALS, _MOST_TRIALS, _PEAK_SECONDS = 10, 60, 3.0
_FOOTPRINTS = tuple(1 << power for power in (14, 16, 18, 20, 22, 24, 25, 26, 27))
"""Bytes over which the stream runs to find the bandwidth of each cache and of memory."""
CACHED_BYTES = 1 << 24
"""Footprints up to which a kernel keeps time with the core and its caches, not with memory."""


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
        self._fma_rounds = rounds
        streams = {
            name: prepare_stream(
                device, lanes=self.lanes, footprint=_FOOTPRINTS[-2], rounds=1, copies=name == MEMORY
            )
            for name in (MEMORY, READING)
        }
        calls = {COMPUTE: self._prepare_part(self.lanes), **streams}
        self.sampler = Sampler({name: time_call(call) for name, call in calls.items()})

    def measure_peaks(self) -> Peaks:
        """Return the highest rates of the device: multiply-adds by vector width, bytes by footprint.

        Multiply-adds count for all of the device in the widest vectors that fill a register, for others by
        how one core does. Wider ones are as fast as narrower ones: here they need more registers than there
        are, in another kernel they may not.

        Source:
            The device itself: ratios to the references in its better runs, times their quiet times.
        """
        rows = {f"fma {lanes}": time_call(self._prepare_part(lanes)) for lanes in LANES}
        whole = prepare_fma(self.device, lanes=self.lanes, rounds=self._fma_rounds)
        rows["whole"] = time_call(whole)
        walks = {size: max(1, (32 << 20) // size) for size in _FOOTPRINTS}
        for size, rounds in walks.items():
            for kind in _MOVES:
                stream = prepare_stream(
                    self.device,
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
        )
        quiet = {name: float(taken.seconds[name].min()) for name in self.sampler.references}

        def seconds(name: str, reference: str) -> float:
            return taken.settled_ratio(name, reference) * quiet[reference]

        flops = self.count_flops(count_items(self.device), self.lanes) / seconds("whole", COMPUTE)
        rates = [
            flops * lanes / self.lanes * taken.settled_ratio(f"fma {self.lanes}", f"fma {lanes}")
            for lanes in LANES
        ]
        return Peaks(
            flops=dict(zip(LANES, np.maximum.accumulate(rates).tolist(), strict=True)),
            bandwidth=tuple(
                (size, size * rounds / min(seconds(f"{kind} {size}", reference) for kind in _MOVES))
                for size, rounds in walks.items()
                for reference in [COMPUTE if size <= CACHED_BYTES else MEMORY]
            ),
            reference_seconds=quiet,
        )

    def _prepare_part(self, lanes: int) -> Callable[[], None]:
        items = count_part(self.device)
        return prepare_fma(self.device, lanes=lanes, rounds=self._fma_rounds, items=items)

    def count_flops(self, items: int, lanes: int) -> float:
        """Return how many floating-point operations so many work-items of the compute-bound reference do."""
        return 2.0 * items * _CHAINS * lanes * self._fma_rounds


def count_items(device: Device) -> int:
    """Return how many work-items keep every unit of a device busy."""
    if device.info.kind is DeviceKind.CPU:
        return device.info.units
    return device.info.units * _count_group(device) * 8


def count_part(device: Device) -> int:
    """Return how many work-items keep one core of a CPU busy, or any other device."""
    return 1 if device.info.kind is DeviceKind.CPU else count_items(device)


def prepare_fma(device: Device, *, lanes: int, rounds: int, items: int | None = None) -> Callable[[], None]:
    """Return a call that runs the compute-bound reference and waits for it, on every unit by default."""
    items, group = items or count_items(device), _count_group(device)
    kernel = device.kernel(_FMA, "reference_fma__buffer", {"VECTOR": lanes, "GROUP": group})
    dst = device.allocate(items)
    kernel.set_args(dst, np.float32(0.999), np.int32(rounds))
    return prepare_run(device, kernel, items, group, keep=[dst])


def prepare_stream(
    device: Device, *, lanes: int, footprint: int, rounds: int, copies: bool, are_streams: bool = False
) -> Callable[[], None]:
    """Return a call that runs the memory-bound reference over ``footprint`` bytes and waits for it.

    Args:
        device: What moves them.
        lanes: Lanes of the vectors that it moves.
        footprint: Bytes, read and written ones together.
        rounds: How often.
        copies: Whether it writes what it reads.
        are_streams: Whether each work-item reads eight parts of its share at a time.
    """
    floats = footprint // 4 // (2 if copies else 1)
    items = min(count_items(device), floats // _LINE)
    group = min(_count_group(device), items)
    items -= items % group
    share = floats // items // _LINE * _LINE
    kernel = device.kernel(
        _STREAM,
        "reference_stream__buffer",
        {"VECTOR": lanes, "GROUP": group, "COPIES": int(copies), "STREAMS": int(are_streams)},
    )
    src, dst = device.allocate(floats), device.allocate(floats)
    device.fill(src, 1.0)
    kernel.set_args(dst, src, np.int32(share), np.int32(rounds))
    return prepare_run(device, kernel, items, group, keep=[src, dst])


def _count_group(device: Device) -> int:
    if device.info.kind is DeviceKind.CPU:
        return 1
    return min(256, device.info.max_work_group_size, 4 * device.info.work_group_multiple)


def prepare_run(
    device: Device, kernel: Any, items: int, group: int, *, keep: list[Any]
) -> Callable[[], None]:
    """Return a call that runs a kernel whose arguments are set, and waits for it."""
    enqueue = partial(cl.enqueue_nd_range_kernel, device.queue, kernel, (items, 1, 1), (group, 1, 1))

    def run(_keep: Any = (kernel, keep)) -> None:
        with attentive_host():
            enqueue()
            device.finish()

    return run


def _best(run: Callable[[], None]) -> float:
    """Return the shortest of a few runs, in seconds."""
    row = time_call(run)
    row()
    return min(row() for _ in range(_LEAST_TRIALS))

"""Reference kernels: fixed work that says how fast a device is at this moment, and how fast it can be at all.

One computes and hardly touches memory, one moves memory and hardly computes. Interleaved with what is
measured they tell a slow kernel from a slow minute; at their fastest they are peaks that no kernel passes.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from codl.catalog.spec import Parameters
from codl.devices.awake import attentive_host
from codl.devices.memory import allocate_host
from codl.devices.opencl import Device
from codl.devices.timing import Sampler, interleave, time_call
from codl.machine import DeviceKind, Peaks

COMPUTE, MEMORY = "compute", "memory"
LANES = (4, 8, 16)
_FMA, _STREAM, _TILE = (f"reference/reference_{name}__buffer.cl" for name in ("fma", "stream", "tile"))
LOOPS: Mapping[str, tuple[str, ...]] = {
    "reference/reference_tile__buffer.cl": ("MR", "NR", "VECTOR"),
    "reference/reference_gemm_tile__buffer.cl": ("MR", "VECTORS", "VECTOR"),
}
"""By kernel of an inner loop, the parameters it is built with: rows, channels or vectors of them, lanes."""
_CHAINS = 12
_LINE = 8 * max(LANES)
"""Floats that a work-item of the stream moves in one step."""
_LOOP_FLOATS = 6000
"""Rows and weights of a loop together: half of a small first-level cache."""
_LOOP_PRODUCTS = 20_000_000
"""Multiply-adds of one work-item of a loop: 0.2 to 4 ms on vector units."""
_LEAST_SECONDS = 1e-3
"""A reference takes about this long: many times a launch, short beside a round."""
_LEAST_TRIALS = 10
_FASTEST: Mapping[str, Any] = {
    "warmup": 1,
    "least_rounds": _LEAST_TRIALS,
    "most_rounds": 60,
    "pause_seconds": 0.0,
    "until_settled": True,
}
"""How `interleave` looks for the shortest times there are."""
_MOST_SECONDS, _LOOP_SECONDS = 3.0, 0.3
_FOOTPRINTS = tuple(1 << power for power in (14, 16, 18, 20, 22, 24, 25, 26, 27))
"""Bytes over which the stream runs to find the bandwidth of each cache and of memory."""
CACHED_BYTES = 1 << 24
"""Footprints up to which a kernel keeps time with the core and its caches, not with memory."""


class References:
    """The two reference kernels of a device and a sampler that interleaves them with what is measured."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.lanes = max(lanes for lanes in LANES if lanes <= max(LANES[0], device.info.vector_width))
        """The widest vectors that fill a register."""
        rounds = 1024
        while (seconds := _best(prepare_fma(device, lanes=self.lanes, rounds=rounds))) < _LEAST_SECONDS:
            rounds *= max(2, min(16, round(_LEAST_SECONDS / max(seconds, 1e-6))))
        self._fma_rounds = rounds
        self.work = {COMPUTE: float(rounds), MEMORY: 1.0}
        """How much each reference does: what compares samples of two samplers divides by it."""
        compute = prepare_fma(device, lanes=self.lanes, rounds=rounds)
        memory = prepare_stream(device, lanes=self.lanes, footprint=_FOOTPRINTS[-2], rounds=1, copies=True)
        self._part = time_call(self._prepare_part(self.lanes))
        self.sampler = Sampler({COMPUTE: time_call(compute), MEMORY: time_call(memory)})

    def measure_peaks(self) -> Peaks:
        """Return the highest rates of the device: multiply-adds by vector width, bytes by footprint.

        Multiply-adds count for all of the device in the widest vectors that fill a register, for others by
        how one core does. Wider ones are as fast as narrower ones: here they need more registers than there
        are, in another kernel they may not.

        Source:
            The device itself: ratios to the references in its better runs, times their quiet times.
        """
        rows = {f"fma {lanes}": time_call(self._prepare_part(lanes)) for lanes in LANES}
        walks = {size: max(1, (32 << 20) // size) for size in _FOOTPRINTS}
        for size, rounds in walks.items():
            for kind in ("read", "copy"):
                stream = prepare_stream(
                    self.device, lanes=self.lanes, footprint=size, rounds=rounds, copies=kind == "copy"
                )
                rows[f"{kind} {size}"] = time_call(stream)
        taken = self.sampler.take(rows, **_FASTEST, most_seconds=_MOST_SECONDS)
        quiet = {name: float(taken.seconds[name].min()) for name in (COMPUTE, MEMORY)}

        def seconds(name: str, reference: str) -> float:
            return taken.settled_ratio(name, reference) * quiet[reference]

        flops = self._count_flops(count_items(self.device), self.lanes) / quiet[COMPUTE]
        rates = [
            flops * lanes / self.lanes * taken.settled_ratio(f"fma {self.lanes}", f"fma {lanes}")
            for lanes in LANES
        ]
        return Peaks(
            flops=dict(zip(LANES, np.maximum.accumulate(rates).tolist(), strict=True)),
            bandwidth=tuple(
                (size, size * rounds / min(seconds(f"{kind} {size}", reference) for kind in ("read", "copy")))
                for size, rounds in walks.items()
                for reference in [COMPUTE if size <= CACHED_BYTES else MEMORY]
            ),
            reference_seconds=quiet,
        )

    def measure_loop(self, source: str, parameters: Parameters, depth: int, peaks: Peaks) -> float:
        """Return how many floating-point operations a second an inner loop reaches on the whole device.

        Of a CPU one core runs it, beside multiply-adds on one core: that share of the device's peak. On a
        machine so busy that the fastest runs do not agree, it is the peak itself.

        Args:
            source: Reference kernel of the loop.
            parameters: Those of the loop; others are left out.
            depth: Products summed for each output.
            peaks: What the device reaches, measured by these references.

        Raises:
            BuildError: The driver refused the kernel.

        Source:
            Launches of one work-item for each of Intel's two threads: for seconds at a time one thread runs
            both, and no round of many tells what two threads reach. One core alone is the same each time.
        """
        run, flops = prepare_loop(self.device, source, parameters, depth)
        rows = {"loop": time_call(run), "part": self._part}
        taken = interleave(rows, **_FASTEST, most_seconds=_LOOP_SECONDS)
        if not taken.is_settled:  # too busy a machine to know
            return max(peaks.flops.values())
        share = flops / self._count_flops(count_part(self.device), self.lanes)
        return peaks.flops[self.lanes] * share * taken.settled_ratio("part", "loop")

    def _prepare_part(self, lanes: int) -> Callable[[], None]:
        items = count_part(self.device)
        return prepare_fma(self.device, lanes=lanes, rounds=self._fma_rounds, items=items)

    def _count_flops(self, items: int, lanes: int) -> float:
        return 2.0 * items * _CHAINS * lanes * self._fma_rounds


def prepare_loop(
    device: Device, source: str, parameters: Parameters, depth: int
) -> tuple[Callable[[], None], float]:
    """Return a call that runs an inner loop on data next to the core, and its floating-point operations.

    It fills one core of a CPU, and any other device whole.
    """
    built = {name: parameters[name] for name in LOOPS[source]}
    rows, channels = built["MR"], built.get("NR", built.get("VECTORS", 1) * built["VECTOR"])
    items, most = count_part(device), _LOOP_FLOATS // (rows + channels) // 16 * 16
    walks = -(-depth // most)
    depth = -(-depth // walks)
    kernel = device.kernel(source, source.rpartition("/")[2].removesuffix(".cl"), built)
    buffers = [
        device.allocate(items * rows * channels),
        *(device.upload(_draw_aligned(floats)) for floats in (rows * depth, (1 + depth) * channels)),
    ]
    products = rows * channels * depth * walks
    tiles = max(1, _LOOP_PRODUCTS // products)
    kernel.set_args(*buffers, np.int32(depth), np.int32(walks), np.int32(tiles))
    run = _prepare(device, kernel, items, 1, keep=buffers)
    return run, 2.0 * items * products * tiles


def _draw_aligned(floats: int) -> npt.NDArray[np.float32]:
    """Return normal values where vectors meet one line of a cache each, as packed weights do."""
    values = allocate_host(floats)
    values[:] = np.random.default_rng(0).standard_normal(len(values), np.float32)
    return values


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
    return _prepare(device, kernel, items, group, keep=[dst])


def prepare_stream(
    device: Device, *, lanes: int, footprint: int, rounds: int, copies: bool
) -> Callable[[], None]:
    """Return a call that runs the memory-bound reference over ``footprint`` bytes and waits for it."""
    floats = footprint // 4 // (2 if copies else 1)
    items = min(count_items(device), floats // _LINE)
    group = min(_count_group(device), items)
    items -= items % group
    share = floats // items // _LINE * _LINE
    kernel = device.kernel(
        _STREAM, "reference_stream__buffer", {"VECTOR": lanes, "GROUP": group, "COPIES": int(copies)}
    )
    src, dst = device.allocate(floats), device.allocate(floats)
    device.fill(src, 1.0)
    kernel.set_args(dst, src, np.int32(share), np.int32(rounds))
    return _prepare(device, kernel, items, group, keep=[src, dst])


def _count_group(device: Device) -> int:
    if device.info.kind is DeviceKind.CPU:
        return 1
    return min(256, device.info.max_work_group_size, 4 * device.info.work_group_multiple)


def _prepare(device: Device, kernel: Any, items: int, group: int, *, keep: list[Any]) -> Callable[[], None]:
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

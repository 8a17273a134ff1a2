"""Reference kernels: fixed work that says how fast a device is at this moment, and how fast it can be at all.

One computes and hardly touches memory, one moves memory and hardly computes. Interleaved with what is
measured they tell a slow kernel from a slow minute; at their fastest they are peaks that no kernel passes.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyopencl as cl

from codl.catalog.spec import Parameters
from codl.devices.awake import attentive_host
from codl.devices.opencl import Device
from codl.devices.timing import Rounds, Row, Sampler, time_call
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
_LEAST_TRIALS, _MOST_TRIALS = 10, 60
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
        self.sampler = Sampler({COMPUTE: time_call(compute), MEMORY: time_call(memory)})

    def measure_peaks(self) -> Peaks:
        """Return the highest rates of the device: multiply-adds by vector width, bytes by footprint.

        Source:
            The device itself: ratios to the references in its better runs, times their quiet times.
        """
        rows = {
            f"fma {lanes}": time_call(prepare_fma(self.device, lanes=lanes, rounds=self._fma_rounds))
            for lanes in LANES
        }
        walks = {size: max(1, (32 << 20) // size) for size in _FOOTPRINTS}
        for size, rounds in walks.items():
            for kind in ("read", "copy"):
                stream = prepare_stream(
                    self.device, lanes=self.lanes, footprint=size, rounds=rounds, copies=kind == "copy"
                )
                rows[f"{kind} {size}"] = time_call(stream)
        taken = self._take_fastest(rows)
        quiet = {name: float(taken.seconds[name].min()) for name in (COMPUTE, MEMORY)}

        def seconds(name: str, reference: str) -> float:
            return taken.settled_ratio(name, reference) * quiet[reference]

        return Peaks(
            flops={
                lanes: self._count_flops(lanes, self._fma_rounds) / seconds(f"fma {lanes}", COMPUTE)
                for lanes in LANES
            },
            bandwidth=tuple(
                (size, size * rounds / min(seconds(f"{kind} {size}", reference) for kind in ("read", "copy")))
                for size, rounds in walks.items()
                for reference in [COMPUTE if size <= CACHED_BYTES else MEMORY]
            ),
            reference_seconds=quiet,
        )

    def measure_loop(self, source: str, parameters: Parameters, depth: int, peaks: Peaks) -> float:
        """Return how many floating-point operations a second an inner loop reaches on the whole device.

        On a machine so busy that its fastest runs do not agree, that is the device's peak.

        Args:
            source: Reference kernel of the loop.
            parameters: Those of the loop; others are left out.
            depth: Products summed for each output.
            peaks: What the device reaches, measured by these references.

        Raises:
            BuildError: The driver refused the kernel.
        """
        run, flops = prepare_loop(self.device, source, parameters, depth)
        taken = self._take_fastest({"loop": time_call(run)}, most_seconds=_LOOP_SECONDS)
        if not taken.is_settled:  # too busy a machine to know
            return max(peaks.flops.values())
        return flops / (taken.settled_ratio("loop", COMPUTE) * peaks.reference_seconds[COMPUTE])

    def _take_fastest(self, rows: Mapping[str, Row], *, most_seconds: float = _MOST_SECONDS) -> Rounds:
        return self.sampler.take(
            rows,
            warmup=1,
            least_rounds=_LEAST_TRIALS,
            most_rounds=_MOST_TRIALS,
            most_seconds=most_seconds,
            pause_seconds=0.0,
            until_settled=True,
        )

    def _count_flops(self, lanes: int, rounds: int) -> float:
        return 2.0 * count_items(self.device) * _CHAINS * lanes * rounds


def prepare_loop(
    device: Device, source: str, parameters: Parameters, depth: int
) -> tuple[Callable[[], None], float]:
    """Return a call that runs an inner loop on data next to the core, and its floating-point operations."""
    built = {name: parameters[name] for name in LOOPS[source]}
    rows, channels = built["MR"], built.get("NR", built.get("VECTORS", 1) * built["VECTOR"])
    items, most = count_items(device), _LOOP_FLOATS // (rows + channels) // 16 * 16
    walks = -(-depth // most)
    depth = -(-depth // walks)
    rng = np.random.default_rng(0)
    kernel = device.kernel(source, source.rpartition("/")[2].removesuffix(".cl"), built)
    buffers = [
        device.allocate(items * rows * channels),
        device.upload(rng.standard_normal(rows * depth, np.float32)),
        device.upload(rng.standard_normal((1 + depth) * channels, np.float32)),
    ]
    products = rows * channels * depth * walks
    tiles = max(1, _LOOP_PRODUCTS // products)
    kernel.set_args(*buffers, np.int32(depth), np.int32(walks), np.int32(tiles))
    run = _prepare(device, kernel, items, 1, keep=buffers)
    return run, 2.0 * items * products * tiles


def count_items(device: Device) -> int:
    """Return how many work-items keep every unit of a device busy."""
    if device.info.kind is DeviceKind.CPU:
        return device.info.units
    return device.info.units * _count_group(device) * 8


def prepare_fma(device: Device, *, lanes: int, rounds: int) -> Callable[[], None]:
    """Return a call that runs the compute-bound reference and waits for it."""
    items, group = count_items(device), _count_group(device)
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

"""Inner loops of kernels alone, on data next to the core: what no kernel around them computes faster than."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from codl.catalog.spec import Parameters
from codl.devices.opencl import Device
from codl.devices.pages import allocate_host
from codl.devices.reference import COMPUTE, References, count_items, count_part, prepare_run
from codl.devices.timing import time_call
from codl.errors import CodlError
from codl.machine import Peaks

LOOPS: Mapping[str, tuple[str, ...]] = {
    "reference/reference_tile__buffer.cl": ("MR", "NR", "VECTOR"),
    "reference/reference_gemm_tile__buffer.cl": ("MR", "VECTORS", "VECTOR"),
}
"""By kernel of an inner loop, the parameters it is built with: rows, channels or vectors of them, lanes."""
_LOOP_FLOATS = 6000
"""Rows and weights of a loop together: half of a small first-level cache."""
_LOOP_PRODUCTS = 20_000_000
"""Multiply-adds of one work-item of a loop: 0.2 to 4 ms on vector units."""
_MOST_ROUNDS, _LEAST_LOOPS_SECONDS, _LOOP_SECONDS = 500, 1.0, 0.05
"""Of loops that take turns: rounds, seconds for few, seconds for each of many."""


@dataclass(frozen=True, slots=True)
class Loop:
    """An inner loop to measure."""

    source: str
    """Its reference kernel."""
    parameters: tuple[tuple[str, int], ...]
    """What that is built with, in the order of `LOOPS`."""
    depth: int
    """Products summed for each output."""

    @classmethod
    def of(cls, source: str, parameters: Parameters, depth: int) -> "Loop":
        """Return the loop of a row's parameters; those of no meaning to it are left out."""
        return cls(source, tuple((name, parameters[name]) for name in LOOPS[source]), depth)


def measure_loops(references: References, loops: Sequence[Loop], peaks: Peaks) -> list[float]:
    """Return how many floating-point operations a second inner loops reach on the whole device.

    On a CPU one core runs them in turns with multiply-adds, which tells their share of the peak; then
    all cores run them, which are faster together where they are threads of one core. The better rate counts.
    Turns go on for a second or more, so that all are measured under changing load. Where the fastest of a
    loop's runs do not agree even then, or the driver refuses it, its rate is the peak.

    Source:
        Launches of one work-item for each of Intel's two threads: for seconds at a time one thread runs both,
        and no round of many tells what two threads reach. One core alone is the same each time. Of 198
        candidates on two threads of an Emerald Rapids four were up to 1.3 times as fast as loops on one.
    """
    device, peak = references.device, max(peaks.flops.values())
    part, whole = count_part(device), count_items(device)
    rows, flops = {}, {}
    for number, loop in enumerate(loops):
        with suppress(CodlError):
            for items in {part, whole}:
                run, flops[number, items] = prepare_loop(device, loop, items)
                rows[f"{number} {items}"] = time_call(run)
    taken = references.sampler.take(
        rows,
        references=[COMPUTE],
        warmup=1,
        most_rounds=_MOST_ROUNDS,
        most_seconds=max(_LEAST_LOOPS_SECONDS, _LOOP_SECONDS * len(rows)),
        pause_seconds=0.0,
    )

    def count_rate(number: int, items: int) -> float:
        seconds = taken.settled_ratio(f"{number} {items}", COMPUTE) * peaks.reference_seconds[COMPUTE]
        return flops[number, items] / seconds

    alone = references.count_flops(part, references.lanes) / peaks.reference_seconds[COMPUTE]
    rates = [peak] * len(loops)
    for number in range(len(loops)):
        if (number, whole) in flops and taken.is_row_settled(f"{number} {part}"):
            share = count_rate(number, part) / alone
            rates[number] = min(peak, max(share * peaks.flops[references.lanes], count_rate(number, whole)))
    return rates


def prepare_loop(device: Device, loop: Loop, items: int) -> tuple[Callable[[], None], float]:
    """Return a call that runs an inner loop on data next to the core, and its floating-point operations."""
    source, depth, built = loop.source, loop.depth, dict(loop.parameters)
    rows, channels = built["MR"], built.get("NR", built.get("VECTORS", 1) * built["VECTOR"])
    most = _LOOP_FLOATS // (rows + channels) // 16 * 16
    walks = -(-depth // most)
    depth = -(-depth // walks)
    kernel = device.kernel(source, source.rpartition("/")[2].removesuffix(".cl"), built)
    buffers = [
        device.allocate(items * rows * channels),
        *(device.upload(_draw_aligned(floats)) for floats in (rows * depth, (1 + depth) * channels)),
    ]
    products = rows * channels * depth * walks
    tiles = max(1, _LOOP_PRODUCTS // products)
    device.bind(kernel, *buffers, np.int32(depth), np.int32(walks), np.int32(tiles))
    run = prepare_run(device, kernel, items, 1, keep=buffers)
    return run, 2.0 * items * products * tiles


def _draw_aligned(floats: int) -> npt.NDArray[np.float32]:
    """Return normal values where vectors meet one line of a cache each, as packed weights do."""
    values = allocate_host(floats)
    values[:] = np.random.default_rng(0).standard_normal(len(values), np.float32)
    return values

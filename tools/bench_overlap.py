"""Overlap of the emulated pair: how much of two devices' work runs at the same time.

Both devices get the same work. In each round it runs on the one alone, on the other alone, and on both
together; overlap is max(alone, alone) / together, so 1 is perfect and 0.5 is one after the other. The work:

  compute  chains of fma in registers
  cache    a triad over 3 MiB a core, more than a core's own cache holds
  memory   a triad over 192 MiB a device

One core may draw nearly all that a machine's memory gives, and then no two programs can stream at once
without slowing each other. So in the rounds of `cache` and `memory` two plain threads, without OpenCL,
stream as much alone and together: their overlap is the ceiling, which explains a missed bar. The bar is held
to the raw figure.

Example:
    python tools/bench_overlap.py --seconds 60
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl

from codl.cli.output import print_json, print_message, print_table
from codl.devices.awake import attentive_host
from codl.devices.drivers import OpenedDevice, default_devices, emulate_pair
from codl.devices.probe import build_quietly
from codl.devices.timing import CONTROL_SUFFIX, Ratio, Rounds, Row, interleave, summarise_ratios
from codl.errors import CodlError

BAR = 0.90
LANES = 16
CHUNK_FLOATS = 1 << 18
"""Length of what one work-item of a triad walks through in each array: 1 MiB."""
COMPUTE_ITEMS = 256
COMPUTE_STEPS = 50_000
CACHE_PASSES = 100
MEMORY_ITEMS = 64
CEILING = ("threads A", "threads B", "threads A+B")
SOURCE = """
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void compute(__global float16 *dst, const int steps)
{
    const float16 scale = (float16)(0.999f), shift = (float16)(0.001f);
    float16 a = (float16)(get_global_id(0)), b = a + 1.0f, c = a + 2.0f, d = a + 3.0f;
    for (int i = 0; i < steps; ++i) {
        a = fma(a, scale, shift);
        b = fma(b, scale, shift);
        c = fma(c, scale, shift);
        d = fma(d, scale, shift);
    }
    dst[get_global_id(0)] = a + b + c + d;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void triad(__global float16 *dst, __global const float16 *left, __global const float16 *right,
           const int count, const int passes)
{
    const size_t first = (size_t)get_global_id(0) * count;
    for (int pass = 0; pass < passes; ++pass)
        for (size_t i = first; i < first + count; ++i)
            dst[i] = fma(left[i], (float16)(3.0f), right[i]);
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One device with every kind of work bound and ready to enqueue."""

    name: str
    queue: Any
    launches: dict[str, tuple[Any, int]]
    """Kernel and number of work-items, by kind of work."""
    buffers: tuple[Any, ...]
    """Kept because a bound kernel does not hold its arguments."""

    def enqueue(self, kind: str) -> None:
        """Start the work without waiting for it."""
        kernel, items = self.launches[kind]
        cl.enqueue_nd_range_kernel(self.queue, kernel, (items,), (1,))
        self.queue.flush()


class PlainThreads:
    """As many threads as the pair has cores, each on its own core, doing the triad of one device's share."""

    def __init__(self, cores_each: int) -> None:
        cores = sorted(os.sched_getaffinity(0))
        self._pools = [ThreadPoolExecutor(1) for _ in range(2 * cores_each)]
        for pool, core in zip(self._pools, cores, strict=False):
            pool.submit(os.sched_setaffinity, 0, {core}).result()
        length = MEMORY_ITEMS * CHUNK_FLOATS // cores_each
        self._arrays = [[np.ones(length, np.float32) for _ in range(3)] for _ in self._pools]
        self._work = {"cache": (CHUNK_FLOATS, CACHE_PASSES), "memory": (length, 1)}

    def run(self, kind: str, *, first: bool, second: bool) -> float:
        """Run the work on the first half of the threads, the second, or both; return the seconds it took."""
        half = len(self._pools) // 2
        start = time.perf_counter()
        chosen = range(0 if first else half, len(self._pools) if second else half)
        wait([self._pools[index].submit(self._add, index, *self._work[kind]) for index in chosen])
        return time.perf_counter() - start

    def _add(self, index: int, length: int, passes: int) -> None:
        dst, left, right = (array[:length] for array in self._arrays[index])
        for _ in range(passes):
            np.add(left, right, out=dst)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every overlap, print them, and return 0 when they reach the bar."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=300.0, help="time limit for each kind of work")
    parser.add_argument("--rounds", type=int, default=200, help="round limit for each kind of work")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args(arguments)
    try:
        emulate_pair()
        opened = default_devices()
        workers = [prepare(one) for one in opened]
    except CodlError as error:
        print_message(f"bench_overlap: {error}")
        return 2
    threads = PlainThreads(opened[0].info.units)
    results = []
    for kind in workers[0].launches:
        print_message(f"measuring {kind} on {' and '.join(worker.name for worker in workers)} ...")
        with attentive_host():
            rounds = measure(kind, workers, threads, most_seconds=args.seconds, most_rounds=args.rounds)
        results.append(summarise(kind, rounds))
    if args.json:
        print_json(results)
    else:
        print_table(tuple(results[0]), [tuple(map(format_cell, result.values())) for result in results])
    return 0 if all(result["holds"] for result in results) else 1


def prepare(opened: OpenedDevice) -> Worker:
    """Return a device with its buffers filled and its kernels built."""
    context = cl.Context([opened.cl_device])
    queue = cl.CommandQueue(context)
    program = build_quietly(context, SOURCE)
    size = MEMORY_ITEMS * CHUNK_FLOATS * 4
    buffers = tuple(cl.Buffer(context, cl.mem_flags.READ_WRITE, size) for _ in range(3))
    for buffer in buffers:
        cl.enqueue_fill_buffer(queue, buffer, np.float32(1), 0, size)
    compute, cache, memory = (cl.Kernel(program, name) for name in ("compute", "triad", "triad"))
    compute.set_args(buffers[0], np.int32(COMPUTE_STEPS))
    cache.set_args(*buffers, np.int32(CHUNK_FLOATS // LANES), np.int32(CACHE_PASSES))
    memory.set_args(*buffers, np.int32(CHUNK_FLOATS // LANES), np.int32(1))
    queue.finish()
    launches = {
        "compute": (compute, COMPUTE_ITEMS),
        "cache": (cache, opened.info.units),
        "memory": (memory, MEMORY_ITEMS),
    }
    return Worker(name=opened.info.name, queue=queue, launches=launches, buffers=buffers)


def measure(
    kind: str, workers: Sequence[Worker], threads: PlainThreads, *, most_seconds: float, most_rounds: int
) -> Rounds:
    """Return the times of each device alone, the first one once more, and all together."""
    alone = tuple(worker.name for worker in workers)
    rows = {worker.name: make_row(kind, [worker]) for worker in workers}
    rows["together"] = make_row(kind, workers[::-1])  # the driver that is slower to start goes first
    if kind != "compute":
        rows[CEILING[0]] = lambda: threads.run(kind, first=True, second=False)
        rows[CEILING[1]] = lambda: threads.run(kind, first=False, second=True)
        rows[CEILING[2]] = lambda: threads.run(kind, first=True, second=True)
    return interleave(
        rows,
        watch=[(alone, "together")],
        control=alone[0],
        most_seconds=most_seconds,
        most_rounds=most_rounds,
    )


def make_row(kind: str, workers: Sequence[Worker]) -> Row:
    """Return a row that starts the work on some devices and waits for all of them."""

    def run() -> float:
        start = time.perf_counter()
        for worker in workers:
            worker.enqueue(kind)
        for worker in workers:
            worker.queue.finish()
        return time.perf_counter() - start

    return run


def summarise(kind: str, rounds: Rounds) -> dict[str, Any]:
    """Return the figures of one kind of work by column name."""
    first, second, *_ = rounds.seconds
    overlap = rounds.ratio((first, second), "together")
    has_ceiling = CEILING[2] in rounds.seconds
    return {
        "work": kind,
        "rounds": rounds.count,
        f"{first} ms": rounds.median(first) * 1e3,
        f"{second} ms": rounds.median(second) * 1e3,
        "together ms": rounds.median("together") * 1e3,
        "overlap": list_figures(overlap),
        "a/a": list_figures(rounds.ratio(first, first + CONTROL_SUFFIX)),
        "ceiling": list_figures(rounds.ratio(CEILING[:2], CEILING[2])) if has_ceiling else None,
        "of ceiling": list_figures(relate(rounds, (first, second))) if has_ceiling else None,
        "holds": overlap.high >= BAR and overlap.median >= BAR * 0.97,
    }


def relate(rounds: Rounds, devices: tuple[str, str]) -> Ratio:
    """Return the devices' overlap over that of plain threads in the same rounds, counted as at most 1."""
    times = rounds.seconds
    overlap = np.maximum(times[devices[0]], times[devices[1]]) / times["together"]
    ceiling = np.maximum(times[CEILING[0]], times[CEILING[1]]) / times[CEILING[2]]
    return summarise_ratios(overlap / np.minimum(ceiling, 1))


def list_figures(ratio: Ratio) -> list[float]:
    """Return a ratio as median and both ends of its interval."""
    return [ratio.median, ratio.low, ratio.high]


def format_cell(value: Any) -> str:
    """Return a figure as a table shows it."""
    if isinstance(value, list):
        return "{:.3f} [{:.3f} {:.3f}]".format(*value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.2f}" if isinstance(value, float) else "" if value is None else str(value)


if __name__ == "__main__":
    sys.exit(main())

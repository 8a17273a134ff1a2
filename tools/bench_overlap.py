"""Overlap of the emulated pair: how much of two devices' work runs at the same time.

Both devices get the same work. In each round it runs on the one alone, on the other alone, and on both
together; overlap is max(alone, alone) / together, so 1 is perfect and 0.5 is one after the other. Two kinds of
work: a chain of fma in registers, and a triad over arrays far larger than any cache, each device its own.

Example:
    python tools/bench_overlap.py --seconds 60
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl

from codl.cli.output import print_json, print_message, print_table
from codl.devices.drivers import OpenedDevice, default_devices, emulate_pair
from codl.devices.probe import build_quietly
from codl.devices.timing import CONTROL_SUFFIX, Row, Rounds, interleave
from codl.errors import CodlError

BAR = 0.90
LANES = 16
COMPUTE_ITEMS = 256
COMPUTE_STEPS = 200_000
TRIAD_FLOATS = 16 << 20
"""Length of each of the three arrays of a triad: 64 MiB."""
SOURCE = """
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void compute(__global float *dst, const int steps)
{
    const float16 scale = (float16)(0.999f), shift = (float16)(0.001f);
    float16 a = (float16)(get_global_id(0)), b = a + 1.0f, c = a + 2.0f, d = a + 3.0f;
    for (int i = 0; i < steps; ++i) {
        a = fma(a, scale, shift);
        b = fma(b, scale, shift);
        c = fma(c, scale, shift);
        d = fma(d, scale, shift);
    }
    vstore16(a + b + c + d, get_global_id(0), dst);
}

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void memory(__global float *dst, __global const float *left, __global const float *right)
{
    const int i = get_global_id(0);
    vstore16(fma(vload16(i, left), (float16)(3.0f), vload16(i, right)), i, dst);
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One device with both kinds of work bound and ready to enqueue."""

    name: str
    queue: Any
    launches: dict[str, tuple[Any, tuple[int], tuple[int]]]
    buffers: tuple[Any, ...]
    """Kept because a bound kernel does not hold its arguments."""

    def enqueue(self, kind: str) -> None:
        """Start the work without waiting for it."""
        kernel, global_size, local_size = self.launches[kind]
        cl.enqueue_nd_range_kernel(self.queue, kernel, global_size, local_size)
        self.queue.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure both overlaps, print them, and return 0 when they reach the bar."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=300.0, help="time limit for each kind of work")
    parser.add_argument("--rounds", type=int, default=200, help="round limit for each kind of work")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args(arguments)
    try:
        emulate_pair()
        workers = [prepare(opened) for opened in default_devices()]
    except CodlError as error:
        print_message(f"bench_overlap: {error}")
        return 2
    results = []
    for kind in ("compute", "memory"):
        print_message(f"measuring {kind} on {' and '.join(worker.name for worker in workers)} ...")
        results.append(summarise(kind, measure(kind, workers, args.seconds, args.rounds)))
    if args.json:
        print_json(results)
    else:
        print_table(tuple(results[0]), [tuple(map(format_cell, result.values())) for result in results])
    return 0 if all(holds(result) for result in results) else 1


def prepare(opened: OpenedDevice) -> Worker:
    """Return a device with its buffers filled and its kernels built."""
    context = cl.Context([opened.cl_device])
    queue = cl.CommandQueue(context)
    program = build_quietly(context, SOURCE)
    flags = cl.mem_flags.READ_WRITE
    small = cl.Buffer(context, flags, COMPUTE_ITEMS * LANES * 4)
    big = [cl.Buffer(context, flags, TRIAD_FLOATS * 4) for _ in range(3)]
    for buffer in big:
        cl.enqueue_fill_buffer(queue, buffer, np.float32(1), 0, TRIAD_FLOATS * 4)
    compute, memory = cl.Kernel(program, "compute"), cl.Kernel(program, "memory")
    compute.set_args(small, np.int32(COMPUTE_STEPS))
    memory.set_args(*big)
    queue.finish()
    launches = {
        "compute": (compute, (COMPUTE_ITEMS,), (1,)),
        "memory": (memory, (TRIAD_FLOATS // LANES,), (64,)),
    }
    return Worker(name=opened.info.name, queue=queue, launches=launches, buffers=(small, *big))


def measure(kind: str, workers: Sequence[Worker], seconds: float, rounds: int) -> Rounds:
    """Return the times of each device alone, the first one once more, and all together."""
    alone = tuple(worker.name for worker in workers)
    rows = {worker.name: make_row(kind, [worker]) for worker in workers}
    rows["together"] = make_row(kind, workers[::-1])  # the driver that is slower to start goes first
    watch = [(alone, "together")]
    return interleave(rows, watch=watch, control=alone[0], most_seconds=seconds, most_rounds=rounds)


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
    control = rounds.ratio(first, first + CONTROL_SUFFIX)
    return {
        "work": kind,
        "rounds": rounds.count,
        f"{first} ms": rounds.median(first) * 1e3,
        f"{second} ms": rounds.median(second) * 1e3,
        "together ms": rounds.median("together") * 1e3,
        "overlap": overlap.median,
        "ci90": [overlap.low, overlap.high],
        "a/a": control.median,
        "a/a ci90": [control.low, control.high],
    }


def holds(result: dict[str, Any]) -> bool:
    """Return whether the interval's better end reaches the bar and the median misses it by at most 3 %."""
    return bool(result["ci90"][1] >= BAR and result["overlap"] >= BAR * 0.97)


def format_cell(value: Any) -> str:
    """Return a figure as a table shows it."""
    if isinstance(value, list):
        return f"{value[0]:.3f}..{value[1]:.3f}"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())

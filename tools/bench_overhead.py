"""Executor overhead: what `run` costs beyond a bare loop of as many enqueues and waits.

Every kernel of a plan is replaced by an empty one, so that only the host's work is left.

Example:
    python tools/bench_overhead.py --network mobilenet_v2 --devices intel-cpu
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import pyopencl as cl

from codl.devices.opencl import Device, open_devices
from codl.devices.probe import build_quietly
from codl.devices.timing import interleave, time_call
from codl.executor.compile import compile_plan
from codl.frontend import load_graph
from codl.partitioner.even import plan_even
from codl.plan.single import plan_single
from tools.networks import build

_EMPTY = "__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void empty() {}"


def main() -> int:
    """Measure and print microseconds a launch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", default="mobilenet_v2")
    parser.add_argument("--devices", default="intel-cpu", help="one, or more to split evenly over")
    args = parser.parse_args()
    devices = open_devices(args.devices.split(","))
    names = [device.info.name for device in devices]
    graph = load_graph(build(args.network, size=64, width=0.25).SerializeToString())
    plan = plan_even(graph, devices=names) if len(names) > 1 else plan_single(graph, device=names[0])
    kernels = {device.queue: make_empty(device) for device in devices}
    executable = compile_plan(graph, plan, devices)
    calls = [replace_kernel(call, kernels) for call in executable._script]
    executable._script = tuple(calls)
    feeds = {name: np.zeros(graph.shape(name), np.float32) for name in graph.inputs}
    rows: dict[str, Callable[[], float]] = {
        "run": time_call(partial(executable.run, feeds)),
        "bare": time_call(make_bare(calls)),
    }
    rounds = interleave(
        rows, control="bare", least_rounds=200, most_rounds=1000, most_seconds=60, pause_seconds=0
    )
    launches = executable.launch_count
    gaps = (rounds.seconds["run"] - rounds.seconds["bare"]) / launches * 1e6
    noise = (rounds.seconds["bare#2"] - rounds.seconds["bare"]) / launches * 1e6
    print(f"{args.network} on {', '.join(names)}: {launches} launches, {rounds.count} rounds")
    print(f"overhead  {np.median(gaps):.2f} us a launch   (a/a {np.median(noise):.2f})")
    return 0


def make_empty(device: Device) -> Any:
    """Return a kernel that does nothing."""
    return cl.Kernel(build_quietly(device.context, _EMPTY), "empty")


def replace_kernel(call: Callable[[], object], kernels: dict[Any, Any]) -> Callable[[], object]:
    """Return the call with an empty kernel of one work-item in place of its own; other calls as they are."""
    if isinstance(call, partial) and call.func is cl.enqueue_nd_range_kernel:
        queue = call.args[0]
        return partial(cl.enqueue_nd_range_kernel, queue, kernels[queue], (1, 1, 1), (1, 1, 1))
    return call


def make_bare(calls: list[Callable[[], object]]) -> Callable[[], None]:
    """Return a bare loop over the calls."""

    def loop() -> None:
        for call in calls:
            call()

    return loop


if __name__ == "__main__":
    sys.exit(main())

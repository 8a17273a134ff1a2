"""Which plan is the fastest here and now: the planner's, or all on one of its devices."""

import time
from collections.abc import Mapping

import numpy as np

from codl.devices.opencl import open_devices
from codl.executor.compile import compile_plan
from codl.executor.run import Executable
from codl.executor.weights import Weights
from codl.ir.graph import FloatArray, Graph
from codl.partitioner.even import plan_single
from codl.plan.steps import Plan

_ROUNDS = 3
"""Timed after one that is not, which builds kernels."""


def find_fastest(graph: Graph, plan: Plan) -> Plan:
    """Return ``plan``, or the plan that runs everything on one of its devices when that is faster.

    Every plan runs a few times, in turns, on inputs of zeros; its best time counts.

    Raises:
        DeviceError: A device refused.
    """
    candidates = [plan]
    if len(plan.devices) > 1:
        candidates += [plan_single(graph, device=name, devices=(name,)) for name in plan.devices]
    if len(candidates) == 1:
        return plan
    weights = Weights(graph)
    executables = [compile_plan(graph, c, open_devices(c.devices), weights=weights) for c in candidates]
    feeds = {name: np.zeros(graph.shape(name), np.float32) for name in graph.inputs}
    rounds = [[_time(executable, feeds) for executable in executables] for _ in range(_ROUNDS + 1)]
    best = np.min(rounds[1:], axis=0)
    return candidates[int(np.argmin(best))]


def _time(executable: Executable, feeds: Mapping[str, FloatArray]) -> float:
    start = time.perf_counter()
    executable.run(feeds)
    return time.perf_counter() - start

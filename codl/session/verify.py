"""Which plan is the fastest here: the planner's, or all on one of its devices; measured once, then kept."""

import os
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial

import numpy as np

from codl.cache.folders import PLANS
from codl.catalog.choose import Databases
from codl.devices.opencl import open_devices
from codl.devices.timing import time_call
from codl.executor.compile import compile_plan
from codl.executor.host import HostSessions
from codl.executor.weights import SharedWeights, Weights
from codl.ir.graph import Graph
from codl.limits import DEFAULT_LIMITS
from codl.plan.residency import step_nodes
from codl.plan.single import plan_single
from codl.plan.steps import Host, Plan, Run
from codl.session.kept_plans import make_key, read_plans, write_plans
from codl.values import find_dtype, is_tensor_type

_MOST_PLANS = 3
"""Tried in addition to each device alone."""
_LEAST_ROUNDS, _LEAST_SECONDS = 3, 1.5
"""Timed after one that is not, which builds kernels."""
_LEAST_GAIN = 0.02
"""What several devices gain less over one is not worth that they do."""
_STEADY = 0.75
"""Share of the rounds in which several devices take no longer than what counts for them.

Source:
    Two virtual cores that share a cache for seconds, and then do not: plans of small networks take 5 to 13 %
    longer meanwhile, those of one device do not notice.
"""


def find_fastest(
    graph: Graph,
    plans: Sequence[Plan],
    *,
    hosts: HostSessions,
    databases: Databases,
    shared: SharedWeights | None = None,
    most_bytes: int = DEFAULT_LIMITS.planned_bytes,
) -> Plan:
    """Return the fastest of some plans and of those that run everything on one of their devices.

    Every plan runs a few times, in turns, on inputs of zeros, see `choose_fastest`. The answer is kept for
    the same network, candidates, devices with their drivers, and code; a kept one that cannot be trusted is
    measured again. A network with inputs other than arrays is not measured: zeros cannot stand for them.

    Args:
        graph: The network.
        plans: At least one, over the same devices, the most promising first.
        hosts: ONNX Runtime's sessions.
        databases: Which kernels are the best, by device name.
        shared: Constants that graphs of the same model share.
        most_bytes: Activations that a plan may need.

    Raises:
        DeviceError: A device refused.
    """
    devices, precision = plans[0].devices, plans[0].precision
    candidates = _drop_equal(plans)[:_MOST_PLANS]
    if len(devices) > 1:
        singles = [
            replace(plan_single(graph, device=name, devices=(name,)), precision=precision) for name in devices
        ]
        candidates = [one for one in candidates if find_lone_device(one) is None] + singles
    is_measurable = all(is_tensor_type(graph.tensors[name].type) for name in graph.inputs)
    if len(candidates) == 1 or not is_measurable:
        return plans[0]
    infos = [device.info for device in open_devices(devices, precision=precision)]
    told = {
        "candidates": [[plan.devices, plan.profiles, plan.to_json()["steps"]] for plan in candidates],
        "precision": precision,
        "devices": [asdict(info) for info in infos],
        "kernels": {name: database.tell() for name, database in databases.items()},
        "sharing": os.environ.get("CODL_SHARING", ""),
    }
    key = make_key(graph, told, "catalog", "devices", "executor", "plan", "session")
    known = PLANS.read(key, lambda entry: read_plans(entry, graph))
    if known is not None:
        return known[0]
    fastest = _measure_fastest(
        graph,
        candidates,
        weights=Weights(graph, shared),
        hosts=hosts,
        databases=databases,
        most_bytes=most_bytes,
    )
    write_plans(key, [fastest], what=f"{graph.name} over {', '.join(devices)}: {fastest.planner}")
    return fastest


def _drop_equal(plans: Sequence[Plan]) -> list[Plan]:
    """Return plans without those that do the same as one before."""
    found: dict[object, Plan] = {}
    for plan in plans:
        key = tuple(
            (step_nodes(step), step.device if isinstance(step, Run) else getattr(step, "cuts", ()))
            for step in plan.steps
        )
        found.setdefault(key, plan)
    return list(found.values())


def find_lone_device(plan: Plan) -> str | None:
    """Return the device that runs all kernels, whole; None when there is more than one, or a cut."""
    on_devices = [step for step in plan.steps if not isinstance(step, Host)]
    devices = {step.device if isinstance(step, Run) else None for step in on_devices}
    return devices.pop() if len(devices) == 1 else None


def _measure_fastest(
    graph: Graph,
    candidates: Sequence[Plan],
    *,
    weights: Weights,
    hosts: HostSessions,
    databases: Databases,
    most_bytes: int,
) -> Plan:
    build = partial(compile_plan, weights=weights, hosts=hosts, databases=databases, most_bytes=most_bytes)
    executables = [build(graph, c, open_devices(c.devices, precision=c.precision)) for c in candidates]
    inputs = [graph.tensors[name] for name in graph.inputs]
    feeds = {tensor.name: np.zeros(tensor.shape, find_dtype(tensor.type)) for tensor in inputs}
    rows = [time_call(partial(executable.run, feeds)) for executable in executables]
    for row in rows:
        row()
    rounds: list[list[float]] = []
    end = time.perf_counter() + _LEAST_SECONDS
    while len(rounds) < _LEAST_ROUNDS or time.perf_counter() < end:
        rounds.append([row() for row in rows])
    return candidates[choose_fastest(rounds, [find_lone_device(one) is None for one in candidates])]


def choose_fastest(rounds: Sequence[Sequence[float]], is_shared: Sequence[bool]) -> int:
    """Return which plan to take: one of several devices only where it is faster most of the time.

    Args:
        rounds: What each plan took, [round, plan].
        is_shared: Whether several devices work for a plan.
    """
    alone, shared = np.quantile(rounds, (0.5, _STEADY), axis=0)
    return int(np.argmin(np.where(is_shared, shared * (1 + _LEAST_GAIN), alone)))

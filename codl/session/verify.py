"""Which plan is the fastest here: the planner's, or all on one of its devices; measured once, then kept."""

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from codl.assets import digest_code
from codl.cache.folders import PLANS
from codl.cache.sealed import SealedFile
from codl.catalog.choose import Databases
from codl.catalog.stored import load_databases
from codl.devices.opencl import open_devices
from codl.errors import CacheError, PlanError
from codl.executor.compile import compile_plan
from codl.executor.host import HostSessions
from codl.executor.run import Executable
from codl.executor.weights import Weights
from codl.ir.graph import Graph
from codl.machine import DeviceInfo
from codl.partitioner.even import plan_single
from codl.plan.check import check_plan
from codl.plan.steps import Plan
from codl.values import find_dtype, is_tensor_type

_ENTRY = "plan"
_ROUNDS = 3
"""Timed after one that is not, which builds kernels."""


def find_fastest(graph: Graph, plan: Plan, *, hosts: HostSessions) -> Plan:
    """Return ``plan``, or the plan that runs everything on one of its devices when that is faster.

    Every plan runs a few times, in turns, on inputs of zeros; its best time counts. The answer is kept for
    the same network, candidates, devices with their drivers, and code; a kept one that cannot be trusted is
    measured again. A network that has inputs beside arrays is not measured: nobody knows what is in them.

    Raises:
        DeviceError: A device refused.
    """
    candidates = [plan]
    if len(plan.devices) > 1:
        candidates += [plan_single(graph, device=name, devices=(name,)) for name in plan.devices]
    is_measurable = all(is_tensor_type(graph.tensors[name].type) for name in graph.inputs)
    if len(candidates) == 1 or not is_measurable:
        return plan
    infos = [device.info for device in open_devices(plan.devices)]
    databases = load_databases(infos)
    key = _make_key(graph, candidates, infos, databases)
    known = PLANS.read(key, lambda entry: _read_plan(entry, graph))
    if known is not None:
        return known
    fastest = _measure_fastest(graph, candidates, hosts=hosts, databases=databases)
    text = json.dumps(fastest.to_json()).encode()
    what = f"{graph.name} over {', '.join(plan.devices)}: {fastest.planner}"
    PLANS.write(key, {_ENTRY: np.frombuffer(text, np.uint8)}, about={"what": what})
    return fastest


def _make_key(
    graph: Graph, candidates: Sequence[Plan], infos: Sequence[DeviceInfo], databases: Databases
) -> str:
    """Return what tells one measurement from every other."""
    told = {
        "graph": graph.fingerprint,
        "candidates": [[plan.devices, plan.profiles, plan.to_json()["steps"]] for plan in candidates],
        "devices": [asdict(info) for info in infos],
        "kernels": {name: repr(database) for name, database in databases.items()},
        "sharing": os.environ.get("CODL_SHARING", ""),
        "code": digest_code("catalog", "devices", "executor", "plan", "session"),
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _read_plan(entry: SealedFile, graph: Graph) -> Plan:
    try:
        plan = Plan.from_json(json.loads(entry.text(_ENTRY)))
        check_plan(plan, graph)
    except (KeyError, ValueError, PlanError) as error:
        raise CacheError(f"{entry.path}: holds no plan of this model ({error}); remove it") from error
    return plan


def _measure_fastest(
    graph: Graph, candidates: Sequence[Plan], *, hosts: HostSessions, databases: Databases
) -> Plan:
    weights = Weights(graph)
    executables = [
        compile_plan(graph, c, open_devices(c.devices), weights=weights, hosts=hosts, databases=databases)
        for c in candidates
    ]
    inputs = [graph.tensors[name] for name in graph.inputs]
    feeds = {tensor.name: np.zeros(tensor.shape, find_dtype(tensor.type)) for tensor in inputs}
    rounds = [[_time(executable, feeds) for executable in executables] for _ in range(_ROUNDS + 1)]
    best = np.min(rounds[1:], axis=0)
    return candidates[int(np.argmin(best))]


def _time(executable: Executable, feeds: Mapping[str, Any]) -> float:
    start = time.perf_counter()
    executable.run(feeds)
    return time.perf_counter() - start

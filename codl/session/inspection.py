"""Plans explained for users: profiles found, prices asked for, runs measured."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from codl.analysis.explain import explain_plan
from codl.analysis.measured import add_measurement
from codl.catalog.stored import load_database, load_databases
from codl.devices.drivers import select_devices
from codl.devices.memory import arrange, arrange_named
from codl.devices.opencl import open_devices
from codl.errors import DeviceError, ProfileError
from codl.executor.compile import compile_plan
from codl.executor.host import HostSessions
from codl.executor.run import Executable
from codl.executor.trace import EventKind, Trace
from codl.ir.graph import Graph
from codl.latency.files import load_profile
from codl.latency.predictor import Predictor
from codl.machine import DeviceInfo
from codl.partitioner.cost import Pricer
from codl.plan.check import check_plan
from codl.plan.sharing import Arrangement
from codl.plan.steps import Plan
from codl.plan.timeline import Span
from codl.profiler.first_use import find_profiles
from codl.report.inspection import Inspection
from codl.values import find_dtype

Predictors = Mapping[str, Predictor]
"""By device name."""
_ROUNDS = 15
_WARMUP = 3
_US = 1e6


def load_predictors(paths: Sequence[str]) -> dict[str, Predictor]:
    """Return by device name the predictors of profiles in files, without touching a device.

    Raises:
        ProfileError: A file holds no profile, or two are of one device.
    """
    found: dict[str, Predictor] = {}
    for path in paths:
        profile = load_profile(Path(path))
        if profile.name in found:
            raise ProfileError(f"profiles: got two of {profile.name}, expected one for each device")
        found[profile.name] = Predictor(profile, profile.info, database=load_database(profile.info))
    return found


def find_predictors(names: Sequence[str]) -> dict[str, Predictor]:
    """Return by name the predictors of those devices of this machine that have a profile.

    Raises:
        ProfileError: A profile of the user's own is broken or was measured with another driver.
    """
    infos = _find_infos(names)
    profiles = find_profiles(list(infos.values()))
    return {
        name: Predictor(profile, infos[name], database=load_database(infos[name]))
        for name, profile in profiles.items()
    }


def _find_infos(names: Sequence[str]) -> dict[str, DeviceInfo]:
    """Return the devices of these names that this machine has."""
    found = {}
    for name in names:
        with suppress(DeviceError):  # a plan may speak of devices of another machine
            found[name] = select_devices([name])[0].info
    return found


def arrange_plan(plan: Plan, predictors: Predictors) -> Arrangement:
    """Return how a plan's devices see each other's results, as far as it is known what they are."""
    infos = {name: predictor.info for name, predictor in predictors.items()}
    if not set(plan.devices) <= set(infos):
        infos = {**_find_infos(plan.devices), **infos}
    if set(plan.devices) <= set(infos):
        return arrange([infos[name] for name in plan.devices])
    return arrange_named(plan.devices)


def inspect_plan(
    plan: Plan, graph: Graph, predictors: Predictors, *, with_alternatives: bool = True
) -> tuple[Plan, Inspection]:
    """Return a plan with its price, and all that there is to say about it.

    Args:
        plan: Any plan of the graph. It is priced anew where all its devices have predictors.
        graph: The network.
        predictors: By device name.
        with_alternatives: Whether to price what each operator could be instead.

    Raises:
        PlanError: The plan breaks a law.
        ProfileError: A profile does not know something that the plan does.
    """
    check_plan(plan, graph)
    arrangement = arrange_plan(plan, predictors)
    timeline: tuple[Span, ...] = ()
    if set(plan.devices) <= set(predictors):
        pricer = Pricer(graph=graph, predictors=dict(predictors))
        plan = pricer.price(plan, arrangement)
        timeline = pricer.trace(plan, arrangement)
    known = [predictors.get(name) for name in plan.devices]
    return plan, explain_plan(
        plan, graph, known, arrangement, timeline=timeline, with_alternatives=with_alternatives
    )


def measure_plan(inspection: Inspection, plan: Plan, graph: Graph) -> Inspection:
    """Return an inspection with what was measured of its plan on this machine's devices.

    Raises:
        DeviceError: A device does not exist, or refused.
    """
    hosts = HostSessions(graph)
    devices = open_devices(plan.devices)
    databases = load_databases(device.info for device in devices)
    plain = compile_plan(graph, plan, devices, hosts=hosts, databases=databases)
    watched = compile_plan(
        graph, plan, [device.with_profiling() for device in devices], hosts=hosts, databases=databases
    )
    feeds = make_feeds(graph)
    runs, whole_us = [], []
    for round_ in range(_WARMUP + _ROUNDS):
        taken_us, trace = _time(plain, feeds), watched.run_traced(feeds)[1]
        if round_ >= _WARMUP:
            whole_us.append(taken_us)
            runs.append(list_spans(trace, plan))
    return add_measurement(inspection, runs, whole_us)


def _time(executable: Executable, feeds: Mapping[str, Any]) -> float:
    start = time.perf_counter()
    executable.run(feeds)
    return (time.perf_counter() - start) * _US


def make_feeds(graph: Graph) -> dict[str, Any]:
    """Return a value for each input of a graph: noise where numbers are fractions, zeros elsewhere."""
    random = np.random.default_rng(0)
    feeds = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        dtype = np.dtype(find_dtype(tensor.type))
        noise = random.standard_normal(tensor.shape)
        feeds[name] = noise.astype(dtype) if dtype.kind == "f" else np.zeros(tensor.shape, dtype)
    return feeds


def list_spans(trace: Trace, plan: Plan) -> list[Span]:
    """Return a trace as spans, each with its step where it has one."""
    steps = {
        node: index
        for index, step in enumerate(plan.steps)
        for node in ((step.node,) if step.kind == "run" else step.nodes)
    }
    return [
        Span(
            track="host" if event.kind not in _ON_DEVICE else event.device,
            kind=str(event.kind),
            name=event.name,
            step=steps.get(event.name),
            start_us=event.start_us,
            duration_us=event.duration_us,
            other=event.device if event.kind not in _ON_DEVICE else None,
        )
        for event in trace.events
    ]


_ON_DEVICE = (EventKind.LAUNCH, EventKind.PUBLISH)

"""Plans explained for users: profiles found, prices asked for, runs measured."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from codl.analysis.explain import explain_plan
from codl.analysis.measured import add_measurement
from codl.analysis.totals import Single
from codl.catalog.stored import load_databases
from codl.devices.drivers import select_devices
from codl.devices.memory import arrange, arrange_named
from codl.devices.opencl import open_devices
from codl.devices.timing import time_call
from codl.errors import DeviceError, ProfileError
from codl.executor.compile import compile_plan
from codl.executor.host import HostSessions
from codl.executor.trace import Event, EventKind, Trace
from codl.ir.graph import Graph
from codl.latency.predictor import Predictor
from codl.machine import DeviceInfo, Precision
from codl.plan.check import check_plan
from codl.plan.residency import step_nodes
from codl.plan.sharing import Arrangement, Sharing
from codl.plan.single import plan_single
from codl.plan.steps import Plan
from codl.plan.testbed import find_other_testbed
from codl.plan.timeline import Span
from codl.report.inspection import Inspection
from codl.session.predictors import find_predictors
from codl.simulator.simulate import Simulator
from codl.values import find_dtype

_ROUNDS = 15
_WARMUP = 3
_US = 1e6


def find_plan_predictors(
    names: Sequence[str], *, precision: Precision = Precision.FLOAT32
) -> tuple[Predictor, ...]:
    """Return the predictors of those devices of this machine that have a profile.

    Args:
        names: Of devices.
        precision: What products may be rounded to.

    Raises:
        ProfileError: A profile of the user's own is broken or was measured with another driver.
    """
    return find_predictors([info.in_precision(precision) for info in _find_infos(names).values()])


def _find_infos(names: Sequence[str]) -> dict[str, DeviceInfo]:
    """Return the devices of these names that this machine has."""
    found = {}
    for name in names:
        with suppress(DeviceError):  # a plan may speak of devices of another machine
            found[name] = select_devices([name])[0].info
    return found


def arrange_plan(plan: Plan, predictors: Sequence[Predictor]) -> Arrangement:
    """Return how a plan's devices see each other's results, as far as it is known what they are."""
    infos = {predictor.info.name: predictor.info for predictor in predictors}
    if not set(plan.devices) <= set(infos):
        infos = {**_find_infos(plan.devices), **infos}
    if set(plan.devices) <= set(infos):
        return arrange([infos[name] for name in plan.devices])
    return arrange_named(plan.devices)


def inspect_plan(
    plan: Plan,
    graph: Graph,
    predictors: Sequence[Predictor],
    *,
    arrangement: Arrangement | None = None,
    with_alternatives: bool = True,
) -> tuple[Plan, Inspection]:
    """Return a plan with its price, and an inspection of it.

    Args:
        plan: Any plan of the graph. It is priced anew where its devices' profiles know all that it does.
        graph: The network.
        predictors: Of its devices, in any order; some may be missing.
        arrangement: How its devices see each other's results; found out by default.
        with_alternatives: Whether to price what each operator could be instead.

    Raises:
        PlanError: The plan breaks a law.
    """
    check_plan(plan, graph)
    arrangement = arrangement or arrange_plan(plan, predictors)
    known = {predictor.info.name: predictor for predictor in predictors}
    unknown = [name for name in plan.devices if name not in known]
    if unknown:
        note = f"no prediction: there is no profile of {', '.join(unknown)}; run `codl profile`"
        return plan, _explain_bare(plan, graph, arrangement, note)
    simulator = Simulator(graph=graph, predictors=known)
    try:
        priced = simulator.price(plan, arrangement)
        found = explain_plan(
            priced,
            graph,
            [known[name] for name in plan.devices],
            arrangement,
            timeline=simulator.trace(plan, arrangement),
            singles=[
                _price_single(name, simulator, mode)
                for name, mode in zip(plan.devices, arrangement.modes, strict=True)
            ],
            with_alternatives=with_alternatives,
        )
        return priced, replace(found, notes=(*_list_changes(plan, known), *found.notes))
    except ProfileError as error:
        return plan, _explain_bare(plan, graph, arrangement, f"no prediction: {error}")


def _list_changes(plan: Plan, known: Mapping[str, Predictor]) -> Iterator[str]:
    """Yield a note where a plan was made on other devices, or else with other profiles, than price it now."""
    if told := find_other_testbed(plan, {name: predictor.info for name, predictor in known.items()}):
        yield told
        return
    other = [
        name
        for name, before in zip(plan.devices, plan.profiles, strict=False)
        if before != known[name].profile.fingerprint
    ]
    if other:
        yield f"the plan was made with another profile of {', '.join(other)}"


def _explain_bare(plan: Plan, graph: Graph, arrangement: Arrangement, note: str) -> Inspection:
    """Return the inspection of a plan without predictions; its first note says why there are none."""
    found = explain_plan(plan, graph, (None,) * len(plan.devices), arrangement)
    return replace(found, notes=(note, *found.notes))


def _price_single(name: str, simulator: Simulator, mode: Sharing) -> Single:
    """Return what a network takes on one device alone."""
    arrangement = Arrangement(modes=(mode,))
    plan = plan_single(simulator.graph, device=name)
    spans = simulator.trace(plan, arrangement)
    return Single(
        total_us=max((span.start_us + span.duration_us for span in spans), default=0.0),
        operators_us={span.name: span.duration_us for span in spans if span.kind == "launch"},
    )


def measure_plan(inspection: Inspection, plan: Plan, graph: Graph) -> Inspection:
    """Return an inspection with what was measured of its plan on this machine's devices.

    Raises:
        DeviceError: A device does not exist, or refused.
    """
    hosts = HostSessions(graph)
    devices = open_devices(plan.devices, precision=plan.precision)
    databases = load_databases(device.info for device in devices)
    feeds = make_feeds(graph)
    build = partial(compile_plan, graph, plan, hosts=hosts, databases=databases)
    plain = time_call(partial(build(devices).run, feeds))
    watched = build([device.with_profiling() for device in devices])
    expected = {
        (operator.name, part.device): part.predicted_us or 0.0
        for operator in inspection.operators
        for part in operator.parts
    }
    runs, whole_us = [], []
    for round_ in range(_WARMUP + _ROUNDS):
        taken_us, trace = plain() * _US, watched.run_traced(feeds)[1]
        if round_ >= _WARMUP:
            whole_us.append(taken_us)
            runs.append(list_spans(trace, plan, expected))
    return add_measurement(inspection, runs, whole_us)


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


def list_spans(trace: Trace, plan: Plan, expected: Mapping[tuple[str, str], float]) -> list[Span]:
    """Return a trace as spans with their steps, several for a launch of several nodes.

    Args:
        trace: What a run did.
        plan: Its plan.
        expected: What nodes are predicted to take on devices, in us: how launches of several are divided.
    """
    steps = {node: index for index, step in enumerate(plan.steps) for node in step_nodes(step)}
    spans = []
    for event in trace.events:
        start_us = event.start_us
        for name, share in _divide(event, expected):
            span = Span(
                track="host" if event.kind not in _ON_DEVICE else event.device,
                kind=str(EventKind.WAIT if event.kind is EventKind.MEET else event.kind),
                name=name,
                step=steps.get(name),
                start_us=start_us,
                duration_us=event.duration_us * share,
                other=event.device if event.kind in _TRANSFERS else None,
            )
            spans.append(span)
            start_us += span.duration_us
    return spans


def _divide(event: Event, expected: Mapping[tuple[str, str], float]) -> Sequence[tuple[str, float]]:
    """Return the nodes of an event with their shares: of its operations, of those predicted as predicted."""
    parts = event.parts or ((event.name, 1.0),)
    times = {name: us for name, _ in parts if (us := expected.get((name, event.device)))}
    rest = sum(share for name, share in parts if name in times)
    total = sum(times.values())
    return [(name, rest * times[name] / total if name in times else share) for name, share in parts]


_ON_DEVICE = (EventKind.LAUNCH, EventKind.PUBLISH, EventKind.MEET)
_TRANSFERS = (EventKind.READ, EventKind.WRITE, EventKind.MAP, EventKind.UNMAP)

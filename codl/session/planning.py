"""Plans without a session: planners by name, devices by name."""

import os
from collections.abc import Sequence
from dataclasses import replace

from codl.catalog.choose import NO_DATABASES
from codl.catalog.stored import load_databases
from codl.devices.boundary import enough_memory
from codl.devices.memory import arrange, arrange_named
from codl.executor.footprint import count_footprint
from codl.executor.placement import check_planned_bytes
from codl.frontend import load_model
from codl.ir.graph import Graph
from codl.latency.predictor import Predictor
from codl.limits import DEFAULT_LIMITS, Limits
from codl.machine import DeviceInfo, Precision
from codl.plan.steps import Plan
from codl.plan.testbed import keep_testbed
from codl.session.predictors import find_named_predictors, load_predictors
from codl.session.request import PROFILED, PlanRequest, check_planner


def make_plan(
    graph: Graph,
    *,
    planner: str,
    devices: Sequence[str],
    ratios: Sequence[float] | None = None,
    max_chain_length: int = 8,
    axes: Sequence[int] | None = None,
    precision: Precision = Precision.FLOAT32,
    predictors: Sequence[Predictor] = (),
) -> Plan:
    """Return a plan of ``graph`` by the planner of that name.

    Args:
        graph: The network.
        planner: `greedy`, `dynamic`, `even` or `single:<device>`.
        devices: Device names that the plan may use.
        ratios: Share of each device, for `even`.
        max_chain_length: Most operators in a chain.
        axes: Axes to cut along; in order of preference for `even`.
        precision: What products may be rounded to, as the facts of ``predictors`` have it.
        predictors: What is known of the devices; a plan of theirs carries predictions.

    Raises:
        PlanError: No such planner, or arguments it cannot work with.
        ProfileError: The planner needs profiles that the devices do not have.
    """
    request = PlanRequest(
        devices=tuple(devices),
        planner=planner,
        ratios=None if ratios is None else tuple(ratios),
        max_chain_length=max_chain_length,
        axes=None if axes is None else tuple(axes),
        precision=precision,
        predictors=tuple(predictors),
    )
    return request.make(graph, most=1)[0]


@enough_memory("plan")
def plan(
    model: str | os.PathLike[str] | bytes,
    *,
    devices: Sequence[str],
    planner: str = "even",
    ratios: Sequence[float] | None = None,
    max_chain_length: int = 8,
    axes: Sequence[int] | None = None,
    profiles: Sequence[str | os.PathLike[str]] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Plan:
    """Return a plan for a model without touching a device; arguments as in `make_plan`.

    Args:
        model: ONNX file or its bytes.
        devices: As in `make_plan`.
        planner: As in `make_plan`.
        ratios: As in `make_plan`.
        max_chain_length: As in `make_plan`.
        axes: As in `make_plan`.
        profiles: Folders of the devices' profiles; by default those that are found under their names.
        limits: Bounds on what the model may ask for.

    Raises:
        ModelError: The model is broken, or has an operator that neither codl nor ONNX Runtime has.
        PlanError: No such planner, or arguments it cannot work with.
        ProfileError: The planner needs profiles that the devices do not have.
    """
    if profiles is not None:
        predictors = load_predictors(profiles)
    else:
        predictors = find_named_predictors(devices) if planner in PROFILED else ()
    check_planner(planner, devices, {predictor.info.name for predictor in predictors})
    graph = load_model(model, limits=limits).graph
    made = make_plan(
        graph,
        planner=planner,
        devices=devices,
        ratios=ratios,
        max_chain_length=max_chain_length,
        axes=axes,
        predictors=predictors,
    )
    made = count_memory(made, graph)
    planned = sum(memory.activation_bytes for memory in made.memory)
    check_planned_bytes(graph, planned, most_bytes=limits.planned_bytes)
    return made if isinstance(model, bytes) else replace(made, model=os.fspath(model))


def count_memory(plan: Plan, graph: Graph, infos: Sequence[DeviceInfo] | None = None) -> Plan:
    """Return a plan that says how much memory it takes, and on which devices.

    Args:
        plan: A sound plan of the graph.
        graph: The network.
        infos: Facts of devices. Unless they tell of all the plan's, memory is shared as the devices' names
            let expect, and weights are not counted.
    """
    known = {info.name: info for info in infos or ()}
    facts = [known[name] for name in plan.devices] if known.keys() >= set(plan.devices) else None
    arrangement = arrange_named(plan.devices) if facts is None else arrange(facts)
    databases = NO_DATABASES if facts is None else load_databases(facts)
    memory = count_footprint(graph, plan, arrangement, devices=facts, databases=databases)
    return keep_testbed(replace(plan, memory=memory), facts or ())

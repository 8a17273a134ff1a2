"""A plan explained: every operator, every step and the whole, with their predictions."""

from collections.abc import Mapping, Sequence
from math import prod

from codl.analysis.alternatives import list_alternatives
from codl.analysis.slices import Oracle, Predictors, Slice, Slices, list_whole, predict_slices
from codl.analysis.totals import Singles, find_totals
from codl.catalog.shape_key import find_class
from codl.ir.graph import Graph, Node
from codl.plan.residency import step_nodes
from codl.plan.schedule import Launch, Schedule, make_schedule
from codl.plan.sharing import Arrangement
from codl.plan.steps import Chain, Host, Plan, Run, Step
from codl.plan.text import axis_name, group_reasons
from codl.plan.timeline import Span
from codl.report.inspection import Alternative, Inspection, Operator, Part, StepRow
from codl.simulator.fused import FusedLaunches


def explain_plan(
    plan: Plan,
    graph: Graph,
    predictors: Predictors,
    arrangement: Arrangement,
    *,
    timeline: Sequence[Span] = (),
    singles: Singles | None = None,
    with_alternatives: bool = True,
) -> Inspection:
    """Return the inspection of a plan, without running it.

    Args:
        plan: A sound plan of the graph; the prices of its steps are shown as they are.
        graph: The network.
        predictors: By device of the plan; None for a device without a profile.
        arrangement: How its devices see each other's results.
        timeline: Of the priced plan; empty where it was not priced.
        singles: The network on each device alone; None where that was not priced.
        with_alternatives: Whether to price alternatives of each operator.
    """
    schedule = make_schedule(graph, plan, arrangement)
    oracle = Oracle(graph=graph, predictors=predictors)
    slices = predict_slices(oracle, schedule.shares, devices=plan.devices, timeline=timeline)
    steps = tuple(_explain_step(index, plan, graph, slices) for index in range(len(plan.steps)))
    totals = find_totals(
        plan, singles or (None,) * len(plan.devices), slices=slices, steps=steps, timeline=timeline
    )
    mains = _find_mains(graph, schedule, predictors)
    operators = [
        operator
        for index in range(len(plan.steps))
        for operator in _explain_operators(
            index, plan, graph, slices=slices, mains=mains, total_us=totals.predicted_us
        )
    ]
    found = Inspection(
        model=plan.model or graph.name,
        planner=plan.planner,
        devices=plan.devices,
        origins=tuple(None if p is None else str(p.profile.origin) for p in predictors),
        operators=tuple(operators),
        steps=steps,
        totals=totals,
        timeline=tuple(timeline),
        planning_ms=plan.planning_ms,
        notes=tuple(_list_notes(predictors, slices, plan, graph)),
    )
    if not with_alternatives:
        return found
    return found.with_alternatives(_list_alternatives(found, graph, predictors, arrangement))


def _list_alternatives(
    found: Inspection, graph: Graph, predictors: Predictors, arrangement: Arrangement
) -> dict[str, tuple[Alternative, ...]]:
    """Return the alternatives of every operator; equal operators with equal cuts are priced once."""
    known: dict[object, tuple[Alternative, ...]] = {}
    listed = {}
    for operator in found.operators:
        if not operator.parts:
            continue
        node, chosen = graph.nodes_by_name[operator.name], _find_chosen(operator, found)
        key = (find_class(node, graph), chosen)
        if key not in known:
            known[key] = list_alternatives(node, graph, predictors, arrangement, chosen=chosen)
        listed[operator.name] = known[key]
    return listed


def _find_chosen(operator: Operator, found: Inspection) -> tuple[int | None, tuple[int, ...]]:
    """Return how an operator is cut, without the halo where what it owns is known."""
    working = [found.devices.index(part.device) for part in operator.parts]
    if len(working) == 1 or operator.axis is None:
        return None, (working[0], working[0] + 1)
    if operator.bounds:
        return operator.axis, operator.bounds
    by_device = {part.device: part for part in operator.parts}
    length = operator.shape[operator.axis]
    bounds, total = [0], sum(part.share for part in operator.parts)
    for name in found.devices[:-1]:
        share = by_device[name].share / total if name in by_device else 0.0
        bounds.append(min(length, bounds[-1] + round(share * length)))
    return operator.axis, (*bounds, length)


def _explain_step(index: int, plan: Plan, graph: Graph, slices: Slices) -> StepRow:
    step = plan.steps[index]
    names = step_nodes(step)
    compute: list[float | None] = []
    for device in range(len(plan.devices)):
        mine = [slices[name, device].us for name in names if (name, device) in slices]
        known = [us for us in mine if us is not None]
        compute.append(sum(known) if len(known) == len(mine) else None)
    axis = step.axis if isinstance(step, Chain) else None
    return StepRow(
        index=index,
        kind=step.kind,
        nodes=names,
        device=step.device if isinstance(step, Run) else None,
        axis=axis,
        axis_name=_name_axis(axis, names, graph),
        compute_us=tuple(compute),
        share_us=step.share_us,
        sync_us=step.sync_us,
        total_us=step.total_us,
    )


def _name_axis(axis: int | None, names: Sequence[str], graph: Graph) -> str | None:
    if axis is None:
        return None
    return axis_name(axis, len(graph.shape(graph.nodes_by_name[names[-1]].output)))


def _find_mains(graph: Graph, schedule: Schedule, predictors: Predictors) -> dict[str, str]:
    """Return by operator the one whose kernel computes it too on each device; nothing without profiles."""
    known = [predictor for predictor in predictors if predictor is not None]
    if len(known) < len(predictors):
        return {}
    fused = FusedLaunches(graph, known).find_in(schedule)
    mains = {rider: one.main.node for one in fused for rider in one.riders}
    found: dict[str, set[str | None]] = {}
    for action in schedule.actions:
        if isinstance(action, Launch):
            found.setdefault(action.node, set()).add(mains.get(action))
    return {name: main for name, (main, *others) in found.items() if main is not None and not others}


def _explain_operators(
    index: int,
    plan: Plan,
    graph: Graph,
    *,
    slices: Slices,
    mains: Mapping[str, str],
    total_us: float | None,
) -> list[Operator]:
    step = plan.steps[index]
    names = step_nodes(step)
    awaited = _find_awaited(names, len(plan.devices), slices)
    cuts = {cut.tensor: cut.bounds for cut in step.cuts} if isinstance(step, Chain) else {}
    axis = step.axis if isinstance(step, Chain) else None
    found = []
    for place, name in enumerate(names):
        node = graph.nodes_by_name[name]
        shape = graph.shape(node.output)
        parts = tuple(
            _explain_part(plan.devices[device], slices[name, device], axis, shape)
            for device in range(len(plan.devices))
            if (name, device) in slices
        )
        own = None if awaited is None or (name, awaited) not in slices else slices[name, awaited].us
        found.append(
            Operator(
                name=name,
                kind=_name_kind(node, step),
                shape=shape,
                sources=_find_sources(node, graph),
                step=index,
                place=place,
                length=len(names),
                axis=axis,
                axis_name=None if axis is None else axis_name(axis, len(shape)),
                bounds=cuts.get(node.output, ()),
                parts=parts,
                predicted_us=own,
                of_total=own / total_us if own is not None and total_us else None,
                note="; ".join(group_reasons(step.reasons)) if isinstance(step, Host) and place == 0 else "",
                in_kernel_of=mains.get(name),
            )
        )
    return found


def _name_kind(node: Node, step: Step) -> str:
    if isinstance(step, Host):
        return ", ".join(dict.fromkeys(step.operators)) or "host"
    return node.kind


def _find_sources(node: Node, graph: Graph) -> tuple[str, ...]:
    return tuple(graph.producers[name].name for name in graph.activations(node) if name in graph.producers)


def _find_awaited(names: Sequence[str], count: int, slices: Slices) -> int | None:
    """Return the device that a step waits for: the one whose slices take longest together."""
    sums = []
    for device in range(count):
        mine = [slices[name, device].us for name in names if (name, device) in slices]
        if mine and None not in mine:
            sums.append((sum(us for us in mine if us is not None), device))
    return max(sums)[1] if sums else None


def _explain_part(device: str, known: Slice, axis: int | None, shape: Sequence[int]) -> Part:
    return Part(
        device=device,
        begin=0 if axis is None else known.region.begin[axis],
        end=(shape[0] if shape else 0) if axis is None else known.region.end[axis],
        share=known.region.size / max(prod(shape), 1),
        kernel=known.kernel,
        predicted_us=known.us,
        uncertainty=known.uncertainty,
        is_estimated=known.is_estimated,
    )


def _list_notes(predictors: Predictors, slices: Slices, plan: Plan, graph: Graph) -> list[str]:
    notes = []
    hosts = sum(len(step.nodes) for step in plan.steps if isinstance(step, Host))
    if hosts:
        notes.append(f"nothing is predicted of {hosts} operators that the host runs: they are in no sum")
    for predictor in predictors:
        if predictor is not None and str(predictor.profile.origin) != "measured":
            notes.append(f"{predictor.info.name}: its profile is {predictor.profile.origin}")
    if whole := list_whole(plan, graph, predictors):
        notes.append(
            f"{len(whole)} operators use all compute units of a device: their kernels cannot be limited"
        )
    strange = sum(known.is_estimated for known in slices.values())
    if strange:
        notes.append(
            f"{strange} of {len(slices)} predictions are estimates: "
            "their kernel was not measured, or only on smaller work"
        )
    return notes

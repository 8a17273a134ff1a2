"""Plans changed by hand: one operator given to a device, or cut elsewhere; its chain ends before it."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from codl.errors import PlanError, suggest
from codl.ir.graph import Graph
from codl.ir.regions import find_splittable_axes
from codl.plan.check import check_plan
from codl.plan.residency import connect_nodes, find_published, step_nodes
from codl.plan.steps import Chain, Cut, Host, Plan, Run, Step
from codl.plan.text import axis_name

_EXPECTED = "NODE=DEVICE, or NODE=AXIS:CUT such as conv1=H:28 or conv1=OC:0.4"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """How one operator is to be computed."""

    node: str
    device: str | None = None
    axis: int | None = None
    bounds: tuple[int, ...] = ()


def parse_change(text: str, plan: Plan, graph: Graph) -> Change:
    """Return the change that a text such as `conv1=H:28` asks for.

    Args:
        text: `NODE=DEVICE`, or `NODE=AXIS:CUT`. A cut is where each device but the last one ends, in whole
            positions, or as shares with a decimal point: `28`, `10,30`, `0.5`.
        plan: The plan that will be changed.
        graph: Its network.

    Raises:
        PlanError: The text is none of these, or names something that does not exist.
    """
    node, wanted = read_change(text, graph)
    if wanted in plan.devices:
        return Change(node=node, device=wanted)
    axis_text, colon, cut = wanted.partition(":")
    if not colon or _is_device(axis_text):
        raise PlanError(
            f"--set {node}: got {wanted!r}, expected one of {list(plan.devices)}, or AXIS:CUT"
            f"{suggest(wanted, plan.devices)}"
        )
    shape = graph.shape(graph.nodes_by_name[node].output)
    axis = _parse_axis(axis_text, node, len(shape))
    return Change(node=node, axis=axis, bounds=_parse_cut(cut, node, shape[axis], len(plan.devices)))


def read_change(text: str, graph: Graph) -> tuple[str, str]:
    """Return the node of a change and the text of its target, checked as far as possible without a plan.

    Raises:
        PlanError: The text is no change, or names a node or an axis that does not exist.
    """
    node, equals, wanted = text.rpartition("=")
    if not equals or not node or not wanted:
        raise PlanError(f"--set: got {text!r}, expected {_EXPECTED}")
    check_node(node, graph, flag="--set")
    axis, colon, _ = wanted.partition(":")
    if colon and not _is_device(axis):
        _parse_axis(axis, node, len(graph.shape(graph.nodes_by_name[node].output)))
    return node, wanted


def _is_device(text: str) -> bool:
    """Return whether what stands before a colon is the name of a device, as in `nvidia-gpu:8`."""
    return "-" in text


def check_node(name: str, graph: Graph, *, flag: str) -> None:
    """Raise `PlanError` where a flag names no node of a network, or return silently."""
    if name not in graph.nodes_by_name:
        raise PlanError(
            f"{flag}: got no node {name!r} in {graph.name!r}, expected one that `codl plan MODEL` lists"
            f"{suggest(name, graph.nodes_by_name)}"
        )


def change_plan(plan: Plan, graph: Graph, changes: Iterable[Change]) -> Plan:
    """Return the plan with some operators changed, and without predictions.

    A changed operator is a step of its own. Those before it and after it in its chain stay chains, cut at the
    same shares; where a chain falls apart, each piece is one.

    Args:
        plan: A sound plan.
        graph: Its network.
        changes: What to change, in turn.

    Raises:
        PlanError: An operator cannot be changed so, or the result breaks a law.
    """
    for change in changes:
        steps: list[Step] = []
        for step in plan.steps:
            steps += _change_step(step, change, graph) if change.node in step_nodes(step) else [step]
        plan = replace(plan, steps=tuple(steps))
    plan = replace(
        plan,
        steps=tuple(map(_forget_times, plan.steps)),
        planner=f"{plan.planner}, changed" if not plan.planner.endswith(", changed") else plan.planner,
        predicted_us=None,
        best_single_us=None,
        planning_ms=None,
        memory=(),
    )
    check_plan(plan, graph)
    return plan


def _forget_times(step: Step) -> Step:
    return replace(step, compute_us=None, share_us=None, sync_us=None, total_us=None, device_us=())


def _change_step(step: Step, change: Change, graph: Graph) -> list[Step]:
    if isinstance(step, Host):
        raise PlanError(
            f"--set {change.node}: got an operator that the host runs, expected one that has a kernel"
        )
    names = step_nodes(step)
    place = names.index(change.node)
    changed: Step
    if change.device is not None:
        changed = Run(node=change.node, device=change.device)
    else:
        changed = _cut_node(change, graph)
    if isinstance(step, Run):
        return [changed]
    shares = _find_shares(step, graph)
    parts = (names[:place], names[place + 1 :])
    before, after = (
        [_make_chain(piece, step, shares, graph) for piece in connect_nodes(p, graph)] for p in parts
    )
    return [*before, changed, *after]


def _cut_node(change: Change, graph: Graph) -> Chain:
    node = graph.nodes_by_name[change.node]
    assert change.axis is not None
    if change.axis not in find_splittable_axes(node, graph):
        shape = graph.shape(node.output)
        possible = [axis_name(axis, len(shape)) for axis in find_splittable_axes(node, graph)]
        raise PlanError(
            f"--set {change.node}: got a cut along {axis_name(change.axis, len(shape))}, "
            f"expected one of {possible or 'nothing: it cannot be cut'}"
        )
    cut = Cut(tensor=node.output, axis=change.axis, bounds=change.bounds)
    return Chain(nodes=(change.node,), axis=change.axis, cuts=(cut,))


def _find_shares(chain: Chain, graph: Graph) -> tuple[float, ...]:
    """Return where devices end along a chain's first cut, as shares of it."""
    cut = chain.cuts[0]
    length = max(graph.shape(cut.tensor)[cut.axis], 1)
    return tuple(bound / length for bound in cut.bounds)


def _make_chain(names: Sequence[str], step: Chain, shares: Sequence[float], graph: Graph) -> Chain:
    known = {cut.tensor: cut for cut in step.cuts}
    cuts = []
    for tensor in find_published(names, graph):
        length = graph.shape(tensor)[step.axis]
        bounds = tuple(round(share * length) for share in shares)
        cuts.append(known.get(tensor, Cut(tensor=tensor, axis=step.axis, bounds=bounds)))
    return Chain(nodes=tuple(names), axis=step.axis, cuts=tuple(cuts))


def _parse_axis(text: str, node: str, rank: int) -> int:
    names = [axis_name(axis, rank) for axis in range(rank)]
    if text in names:
        return names.index(text)
    if text.isdecimal() and int(text) < rank:
        return int(text)
    raise PlanError(f"--set {node}: got axis {text!r}, expected one of {names}, or 0 to {rank - 1}")


def _parse_cut(text: str, node: str, length: int, count: int) -> tuple[int, ...]:
    parts = text.split(",")
    expected = f"{count - 1} numbers that rise from 0 to {length}, or shares such as 0.5"
    if len(parts) != count - 1 or not all(re.fullmatch(r"\d{1,9}(\.\d{1,9})?", part) for part in parts):
        raise PlanError(f"--set {node}: got cut {text!r}, expected {expected}")
    ends = [round(float(part) * length) if "." in part else int(part) for part in parts]
    bounds = (0, *ends, length)
    if list(bounds) != sorted(bounds):
        raise PlanError(f"--set {node}: got cut {text!r}, expected {expected}")
    return bounds

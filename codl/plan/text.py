"""A plan as text for people."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from codl.ir.graph import Graph, Node
from codl.ir.ops import HostCall
from codl.machine import Precision
from codl.plan.residency import step_nodes
from codl.plan.steps import Host, Plan, Run

PARTS = frozenset({"rows", "image", "matrix", "factors", "normalized", "softmax", "mean"})
"""Last parts of the names of nodes that an ONNX node becomes besides the one that keeps its name."""
_WIDEST = 40
"""Of a column of names; longer names are still written in full, as flags need them."""
_NAME = re.compile("'[^']*'")
"""A name in a reason."""
_AXES = {4: ("N", "OC", "H", "W"), 2: ("rows", "columns")}


def axis_name(axis: int, rank: int) -> str:
    """Return what people call an axis: N, OC, H, W of images, rows and columns of matrices."""
    names = _AXES.get(rank, ())
    return names[axis] if axis < len(names) else f"axis {axis}"


def format_plan(plan: Plan, graph: Graph) -> str:
    """Return the lines of `list_plan` as one text."""
    return "\n".join(list_plan(plan, graph))


def list_plan(plan: Plan, graph: Graph) -> Iterator[str]:
    """Yield one line for each node, chains in brackets, cuts where tensors are shared."""
    count = sum(isinstance(step, Host) for step in plan.steps)
    steps = f"{len(plan.steps)} steps, {count} of them on the host," if count else f"{len(plan.steps)} steps"
    rounded = "" if plan.precision is Precision.FLOAT32 else f", products in {plan.precision}"
    yield f"plan: {len(graph.nodes)} nodes in {steps} over {', '.join(plan.devices)}{rounded}"
    yield from _format_steps(plan, graph)


def find_whole(name: str, names: Collection[str]) -> str | None:
    """Return the one of some names that an ONNX node bears of which ``name`` is a part, if there is one."""
    whole, _, part = name.rpartition("/")
    return whole if part in PARTS and whole in names else None


def _find_parts(plan: Plan) -> Mapping[str, list[str]]:
    """Return the parts of ONNX nodes that run where the node does that bears the name, by that name."""
    places = {
        name: step.device if isinstance(step, Run) else index
        for index, step in enumerate(plan.steps)
        for name in step_nodes(step)
    }
    found: dict[str, list[str]] = {}
    for name, place in places.items():
        whole = find_whole(name, places)
        if whole is not None and places[whole] == place:
            found.setdefault(whole, []).append(name)
    return found


def _format_steps(plan: Plan, graph: Graph) -> Iterator[str]:
    parts = _find_parts(plan)
    hidden = {name for names in parts.values() for name in names}
    nodes = [node for node in graph.nodes if not isinstance(node.op, HostCall) and node.name not in hidden]
    kinds = {node.name: _name_kinds(node, parts.get(node.name, ()), graph) for node in nodes}
    name_width = min(_WIDEST, max(map(len, kinds), default=4))
    width = max(map(len, kinds.values()), default=4)
    for step in plan.steps:
        if isinstance(step, Host):
            yield from _format_host(step, name_width)
            continue
        names = [name for name in step_nodes(step) if name not in hidden]
        cuts = {} if isinstance(step, Run) else {cut.tensor: cut for cut in step.cuts}
        for index, name in enumerate(names):
            node = graph.nodes_by_name[name]
            shape = graph.shape(node.output)
            text = f" {draw_bracket(index, len(names))} {name:<{name_width}}  {kinds[name]:<{width}}"
            text += f"  {'x'.join(map(str, shape)):<14}"
            if isinstance(step, Run):
                text += f" all on {step.device}"
            elif cut := cuts.get(node.output):
                shown = zip(plan.devices, cut.bounds, cut.bounds[1:], strict=False)
                shares = ", ".join(f"{device} {low}:{high}" for device, low, high in shown)
                text += f" {axis_name(cut.axis, len(shape))} {shares}"
            yield text.rstrip()


def _name_kinds(node: Node, parts: Collection[str], graph: Graph) -> str:
    return "+".join((*(graph.nodes_by_name[part].kind for part in parts), node.kind))


def _format_host(step: Host, width: int) -> Iterator[str]:
    """Yield the ONNX operators of a step of the host on one line, and why it has them on the next."""
    counts = Counter(step.operators)
    operators = ", ".join(name if count == 1 else f"{name} x{count}" for name, count in counts.items())
    yield f" {draw_bracket(0, 1)} {'host':<{width}}  {operators}".rstrip()
    for reason in group_reasons(step.reasons):
        yield f"   {'':<{width}}    {reason}"


def group_reasons(reasons: Sequence[str]) -> Iterator[str]:
    """Yield the first of reasons that differ in names only, and how many more there are."""
    groups: dict[str, list[str]] = {}
    for reason in reasons:
        groups.setdefault(_NAME.sub("", reason), []).append(reason)
    for first, *others in groups.values():
        yield f"{first} (and {len(others)} like it)" if others else first


def draw_bracket(place: int, length: int) -> str:
    """Return the piece of a chain's bracket that stands before one of its operators."""
    if length == 1:
        return "─"
    return "┌" if place == 0 else "└" if place == length - 1 else "│"

"""A plan as text for people."""

from collections.abc import Iterator

from codl.ir.graph import Graph
from codl.plan.residency import step_nodes
from codl.plan.steps import Plan, Run

_AXES = {4: ("N", "OC", "H", "W"), 2: ("rows", "columns")}


def axis_name(axis: int, rank: int) -> str:
    """Return what people call an axis: N, OC, H, W of images, rows and columns of matrices."""
    names = _AXES.get(rank, ())
    return names[axis] if axis < len(names) else f"axis {axis}"


def format_plan(plan: Plan, graph: Graph) -> str:
    """Return one line for each node, chains in brackets, cuts where tensors are shared."""
    lines = [f"plan: {len(graph.nodes)} nodes in {len(plan.steps)} steps over {', '.join(plan.devices)}"]
    lines.extend(_format_steps(plan, graph))
    return "\n".join(lines)


def _format_steps(plan: Plan, graph: Graph) -> Iterator[str]:
    width = max((len(node.kind) for node in graph.nodes), default=0)
    for step in plan.steps:
        names = step_nodes(step)
        cuts = {} if isinstance(step, Run) else {cut.tensor: cut for cut in step.cuts}
        for index, name in enumerate(names):
            node = graph.nodes_by_name[name]
            shape = graph.shape(node.output)
            text = f" {_bracket(index, len(names))} {node.kind:<{width}}  {'x'.join(map(str, shape)):<14}"
            if isinstance(step, Run):
                text += f" all on {step.device}"
            elif cut := cuts.get(node.output):
                parts = zip(plan.devices, cut.bounds, cut.bounds[1:], strict=False)
                shares = ", ".join(f"{device} {low}:{high}" for device, low, high in parts)
                text += f" {axis_name(cut.axis, len(shape))} {shares}"
            yield text.rstrip()


def _bracket(index: int, count: int) -> str:
    if count == 1:
        return "─"
    return "┌" if index == 0 else "└" if index == count - 1 else "│"

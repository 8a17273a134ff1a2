"""A plan as text for people."""

from collections import Counter
from collections.abc import Iterator

from codl.ir.graph import Graph
from codl.ir.ops import HostCall
from codl.plan.residency import step_nodes
from codl.plan.steps import Host, Plan, Run

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
    yield f"plan: {len(graph.nodes)} nodes in {steps} over {', '.join(plan.devices)}"
    yield from _format_steps(plan, graph)


def _format_steps(plan: Plan, graph: Graph) -> Iterator[str]:
    kernels = [node for node in graph.nodes if not isinstance(node.op, HostCall)]
    width = max((len(node.kind) for node in kernels), default=4)
    for step in plan.steps:
        if isinstance(step, Host):
            yield from _format_host(step, width)
            continue
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


def _format_host(step: Host, width: int) -> Iterator[str]:
    """Yield the ONNX operators of a step of the host on one line, and why it has them on the next."""
    counts = Counter(step.operators)
    operators = ", ".join(name if count == 1 else f"{name} x{count}" for name, count in counts.items())
    yield f" {_bracket(0, 1)} {'host':<{width}}  {operators}".rstrip()
    for reason in step.reasons:
        yield f"   {'':<{width}}    {reason}"


def _bracket(index: int, count: int) -> str:
    if count == 1:
        return "─"
    return "┌" if index == 0 else "└" if index == count - 1 else "│"

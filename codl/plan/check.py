"""The laws of a plan, each found and named when it is broken."""

from collections import Counter
from collections.abc import Iterator

from codl.errors import PlanError
from codl.ir.graph import Graph
from codl.ir.ops import HostCall
from codl.plan.residency import connect_nodes, find_published, step_nodes
from codl.plan.steps import Chain, Host, Plan, Run, Step


def check_plan(plan: Plan, graph: Graph) -> None:
    """Raise `PlanError` with every problem, or return silently."""
    if problems := list(find_problems(plan, graph)):
        listed = "\n".join(f"  - {problem}" for problem in problems)
        raise PlanError(f"plan for {graph.name!r} breaks {len(problems)} law(s):\n{listed}")


def find_problems(plan: Plan, graph: Graph) -> Iterator[str]:
    """Yield one sentence for each broken law; an empty stream means the plan is sound.

    Where some nodes are unknown, the steps without them are still looked at by themselves.
    """
    yield from _find_device_problems(plan)
    if plan.fingerprint and plan.fingerprint != graph.fingerprint:
        yield (
            f"fingerprint: got {plan.fingerprint[:12]}, expected {graph.fingerprint[:12]} of this model; "
            "plan the model again"
        )
    unknown = list(_find_unknown_nodes(plan, graph))
    yield from unknown
    if not unknown:
        yield from _find_coverage_problems(plan, graph)
        yield from _find_order_problems(plan, graph)
    for index, step in enumerate(plan.steps):
        where, names = f"step {index}", step_nodes(step)
        if isinstance(step, Run) and step.device not in plan.devices:
            yield f"{where}: {step.node!r} runs on {step.device!r}, expected one of {list(plan.devices)}"
        if not names or any(name not in graph.nodes_by_name for name in names):
            continue
        yield from _find_host_problems(step, where, graph)
        if isinstance(step, Chain):
            yield from _find_chain_problems(step, where, graph)
            yield from _find_cut_problems(step, where, plan, graph)


def _find_device_problems(plan: Plan) -> Iterator[str]:
    if not plan.devices:
        yield "devices: got none, expected at least one"
    for name, count in Counter(plan.devices).items():
        if count > 1:
            yield f"devices: {name!r} is listed {count} times, expected once"
    for field, values in (("profiles", plan.profiles), ("testbed", plan.testbed)):
        if values and len(values) != len(plan.devices):
            yield f"{field}: got {len(values)}, expected one for each of {len(plan.devices)} devices"


def _find_unknown_nodes(plan: Plan, graph: Graph) -> Iterator[str]:
    for index, step in enumerate(plan.steps):
        if not step_nodes(step):
            yield f"step {index}: got a {step.kind} without nodes"
        for name in step_nodes(step):
            if name not in graph.nodes_by_name:
                yield f"step {index}: node {name!r} does not exist in {graph.name!r}"


def _find_coverage_problems(plan: Plan, graph: Graph) -> Iterator[str]:
    counts = Counter(name for step in plan.steps for name in step_nodes(step))
    for node in graph.nodes:
        if counts[node.name] != 1:
            yield f"node {node.name!r} is computed {counts[node.name]} times, expected once"


def _find_order_problems(plan: Plan, graph: Graph) -> Iterator[str]:
    done = set(graph.inputs) | set(graph.constants)
    for index, step in enumerate(plan.steps):
        for name in step_nodes(step):
            node = graph.nodes_by_name[name]
            for tensor in node.inputs:
                if tensor not in done:
                    yield f"step {index}: node {name!r} reads {tensor!r} before it is computed"
            done.add(node.output)


def _find_host_problems(step: Step, where: str, graph: Graph) -> Iterator[str]:
    calls = {
        name: op for name in step_nodes(step) if isinstance(op := graph.nodes_by_name[name].op, HostCall)
    }
    if not isinstance(step, Host):
        for name in calls:
            yield f"{where}: {name!r} has no kernel, expected it in a step of kind 'host'"
        return
    for name in step.nodes:
        if name not in calls:
            yield f"{where}: {name!r} has a kernel, expected host calls alone in a step of kind 'host'"
    for group in dict.fromkeys(op.group for op in calls.values()):
        missing = [node.name for node in graph.host_groups[group] if node.name not in calls]
        if missing:
            yield f"{where}: {missing[0]!r} is missing, expected all of group {group!r} in one step"
    if len({op.group for op in calls.values()}) > 1:
        yield f"{where}: got nodes of {len({op.group for op in calls.values()})} groups, expected one"


def _find_chain_problems(step: Chain, where: str, graph: Graph) -> Iterator[str]:
    inside = set(step.nodes)
    groups = connect_nodes(sorted(inside, key=graph.positions.__getitem__), graph)
    reached = next(group for group in groups if step.nodes[0] in group)
    if lost := sorted(inside.difference(reached)):
        yield f"{where}: chain is not connected, {lost[0]!r} shares no tensor with {step.nodes[0]!r}"
    if trespasser := _find_path_outside(inside, graph):
        yield f"{where}: chain is not convex, a path leaves it and re-enters through {trespasser!r}"


def _find_path_outside(inside: set[str], graph: Graph) -> str | None:
    """Return a node outside that lies on a path between two nodes inside, if there is one."""
    behind: set[str] = set()
    places = [graph.positions[name] for name in inside]
    for node in graph.nodes[min(places) : max(places) + 1]:
        producers = [graph.producers[t].name for t in graph.activations(node) if t in graph.producers]
        if node.name in inside:
            for name in producers:
                if name in behind:
                    return name
        elif any(name in inside or name in behind for name in producers):
            behind.add(node.name)
    return None


def _find_cut_problems(step: Chain, where: str, plan: Plan, graph: Graph) -> Iterator[str]:
    published = find_published(step.nodes, graph)
    cuts = Counter(cut.tensor for cut in step.cuts)
    for tensor in published:
        if cuts[tensor] != 1:
            yield f"{where}: published tensor {tensor!r} has {cuts[tensor]} cuts, expected one"
    for cut in step.cuts:
        if cut.tensor not in published:
            yield f"{where}: {cut.tensor!r} has a cut but is not read outside the chain"
            continue
        shape = graph.shape(cut.tensor)
        if cut.axis != step.axis:
            yield f"{where}: cut of {cut.tensor!r} along axis {cut.axis}, expected {step.axis} as its chain"
        if not 0 <= cut.axis < len(shape):
            yield f"{where}: cut of {cut.tensor!r} along axis {cut.axis}, expected 0 to {len(shape) - 1}"
            continue
        if len(cut.bounds) != len(plan.devices) + 1:
            yield (
                f"{where}: cut of {cut.tensor!r} has {len(cut.bounds)} bounds, "
                f"expected {len(plan.devices) + 1} for {len(plan.devices)} devices"
            )
        if list(cut.bounds) != sorted(cut.bounds):
            yield f"{where}: bounds {list(cut.bounds)} of {cut.tensor!r} fall, expected them to rise"
        if not cut.bounds or cut.bounds[0] != 0 or cut.bounds[-1] != shape[cut.axis]:
            yield (
                f"{where}: bounds {list(cut.bounds)} of {cut.tensor!r} do not cover axis {cut.axis}, "
                f"expected 0 to {shape[cut.axis]}"
            )

"""The laws of a graph: one producer each, topological order, shapes that follow from each other."""

from collections import Counter
from collections.abc import Iterator, Mapping

from codl.errors import ModelError
from codl.ir.graph import FLOAT_TYPE, Graph, Node, Tensor
from codl.ir.ids import find_tables
from codl.ir.ops import HostCall, MisfitError


def check_graph(graph: Graph) -> None:
    """Raise `ModelError` with every problem of the graph, or return silently."""
    _raise_any(graph, list(find_problems(graph)))


def check_shapes(graph: Graph) -> None:
    """Raise `ModelError` with every node whose tensors have other shapes than its operator asks for."""
    problems = [problem for node in graph.nodes if (problem := find_shape_problem(node, graph.tensors))]
    _raise_any(graph, problems)


def _raise_any(graph: Graph, problems: list[str]) -> None:
    if problems:
        raise ModelError("\n".join(f"graph {graph.name!r}: {problem}" for problem in problems))


def find_problems(graph: Graph) -> Iterator[str]:
    """Yield one sentence for each broken law; an empty stream means the graph is sound."""
    yield from _find_tensor_problems(graph)
    yield from _find_constant_problems(graph)
    for name, count in Counter(node.name for node in graph.nodes).items():
        if count > 1:
            yield f"node name {name!r}: got {count} nodes, expected 1"
    known = {*graph.inputs, *graph.constants}
    for node in graph.nodes:
        yield from _find_node_problems(node, graph, known)
        known.add(node.output)
    for name in graph.outputs:
        if name not in known or name in graph.constants:
            yield f"output {name!r}: got no node or input that provides it, expected one"


def _find_tensor_problems(graph: Graph) -> Iterator[str]:
    mentioned = dict.fromkeys((*graph.inputs, *graph.outputs, *graph.constants))
    for node in graph.nodes:
        mentioned.update(dict.fromkeys((*node.inputs, node.output)))
    for name in mentioned:
        tensor = graph.tensors.get(name)
        if tensor is None:
            yield f"tensor {name!r}: got no shape, expected an entry in the graph's tensors"
        elif not tensor.is_on_host and tensor.type != FLOAT_TYPE and find_tables(name, graph) is None:
            yield f"tensor {name!r}: got {tensor.type or 'no type'}, expected {FLOAT_TYPE} on a device"
        elif not tensor.is_on_host and any(length < 1 for length in tensor.shape):
            yield f"tensor {name!r}: got shape {list(tensor.shape)}, expected lengths of 1 or more"
    given = [*graph.inputs, *graph.constants, *(node.output for node in graph.nodes)]
    for name, count in Counter(given).items():
        if count > 1:
            yield f"tensor {name!r}: got {count} producers, expected 1"


def _find_constant_problems(graph: Graph) -> Iterator[str]:
    for name, value in graph.constants.items():
        if value.dtype != "float32":
            yield f"constant {name!r}: got {value.dtype}, expected float32"
        tensor = graph.tensors.get(name)
        if tensor is not None and value.shape != tensor.shape:
            yield f"constant {name!r}: got shape {list(value.shape)}, expected {list(tensor.shape)}"


def _find_node_problems(node: Node, graph: Graph, known: set[str]) -> Iterator[str]:
    if isinstance(node.op, HostCall):
        yield from _find_call_problems(node, node.op, graph)
    else:
        for name in (*node.inputs, node.output):
            if name in graph.tensors and graph.tensors[name].is_on_host:
                yield f"node {node.name!r} ({node.kind}): got {name!r} on the host, expected it on a device"
    for name in node.inputs:
        if name not in known:
            yield (
                f"node {node.name!r} ({node.kind}): got input {name!r} that nothing before it provides, "
                "expected nodes in topological order"
            )
    if not graph.tensors.keys() >= {*node.inputs, node.output}:
        return
    problem = find_shape_problem(node, graph.tensors)
    if problem is not None:
        yield problem
    residual = node.residual
    if residual is not None and graph.shape(residual) != graph.shape(node.output):
        yield (
            f"node {node.name!r} ({node.kind}): got a residual of shape {list(graph.shape(residual))}, "
            f"expected {list(graph.shape(node.output))}"
        )


def _find_call_problems(node: Node, op: HostCall, graph: Graph) -> Iterator[str]:
    if op.group not in graph.host_models:
        yield f"node {node.name!r} (HostCall): got no model of group {op.group!r}, expected one"
    first = graph.host_groups[op.group][0]
    if node.inputs != first.inputs:
        yield (
            f"node {node.name!r} (HostCall): got inputs {list(node.inputs)}, "
            f"expected {list(first.inputs)} as {first.name!r} of its group"
        )


def find_shape_problem(node: Node, tensors: Mapping[str, Tensor]) -> str | None:
    """Return a sentence if the tensors of a node do not have the shapes that its operator asks for.

    Args:
        node: Its inputs and its output are all among ``tensors``.
        tensors: Of the graph, by name.
    """
    names = node.inputs if node.residual is None else node.inputs[:-1]
    inputs, output = [tensors[name].shape for name in names], tensors[node.output].shape
    title = f"node {node.name!r} ({node.kind})"
    try:
        expected = node.op.find_shapes(inputs, output)
    except MisfitError as misfit:
        return f"{title}: {misfit}"
    for name, got, wanted in zip((*names, node.output), (*inputs, output), expected, strict=True):
        if got != wanted:
            return f"{title}: got {name!r} of shape {list(got)}, expected {list(wanted)}"
    return None

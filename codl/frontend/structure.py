"""Problems of a model's wiring: names without a producer, two producers, cycles; the order of its nodes."""

from collections import Counter
from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from codl.errors import ModelError
from codl.frontend.onnx_node import OnnxNode, find_bodies
from codl.frontend.reader import Source

Waits = dict[int, set[int]]
"""Node, by its place -> the places of the nodes that it reads from."""


def check_structure(source: Source) -> None:
    """Raise `ModelError` with every problem of the model's wiring, or sort its nodes topologically."""
    waits = _find_waits(source.proto.graph.node)
    problems = list(_find_problems(source, waits))
    if problems:
        raise ModelError("\n".join(problems))
    _sort_nodes(source.proto.graph, waits)


def _find_problems(source: Source, waits: Waits) -> Iterator[str]:
    """Yield one sentence for each name that the top-level graph does not wire as ONNX demands."""
    graph, label = source.proto.graph, source.label
    nodes = [OnnxNode(proto=n, opset=source.opset, label=label) for n in graph.node]
    given = _given_names(graph)
    written = given + Counter(o for node in nodes for o in node.outputs)
    for name, count in written.items():
        if count > 1:
            yield f"{label}: tensor {name!r}: got {count} producers, expected 1; rename all but one"
    for name in (value.name for value in graph.output):
        if name not in written:
            yield f"{label}: output {name!r}: got no node that writes it, expected one; export again"
    cycle = [nodes[index].name for index in _find_cycle(waits)]
    if cycle:
        yield (
            f"{label}: got a cycle through nodes {' -> '.join(repr(n) for n in cycle)}, "
            "expected none; export the model again"
        )
        return
    for node in nodes:
        for name in find_reads(node.proto):
            if name not in written:
                yield node.sentence(
                    got=f"input {name!r} that nothing provides",
                    expected="a node's output, an input or an initializer",
                    remedy="export the model again",
                )


def _sort_nodes(graph: Any, waits: Waits) -> None:
    """Bring the nodes of a sound `onnx.GraphProto` into topological order, unless they are in one."""
    if all(max(before, default=-1) < index for index, before in waits.items()):
        return
    nodes = [graph.node[index] for index in TopologicalSorter(waits).static_order()]
    del graph.node[:]
    graph.node.extend(nodes)


def _find_waits(nodes: Sequence[Any]) -> Waits:
    """Return for each node, by its place, the places of the nodes that it reads from."""
    producers = {o: index for index, node in enumerate(nodes) for o in node.output if o}
    return {
        index: {producers[name] for name in find_reads(node) if name in producers}
        for index, node in enumerate(nodes)
    }


def _given_names(graph: Any) -> Counter[str]:
    """Return the tensors that are there before any node runs."""
    names = Counter(value.name for value in graph.input)
    names.update(tensor.name for tensor in graph.initializer)
    names.update(sparse.values.name for sparse in graph.sparse_initializer)
    return names


def find_reads(node: Any) -> Iterator[str]:
    """Yield the tensors that a node reads, those from inside its subgraphs included."""
    yield from (name for name in node.input if name)
    for body in find_bodies(node):
        own = set(_given_names(body)) | {o for inner in body.node for o in inner.output}
        yield from (name for inner in body.node for name in find_reads(inner) if name not in own)


def _find_cycle(waits: Waits) -> list[int]:
    """Return nodes that wait for each other, the first again at the end; empty where none do."""
    try:
        TopologicalSorter(waits).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []

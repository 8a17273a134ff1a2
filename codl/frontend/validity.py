"""Problems of a model's nodes and weights that ONNX Runtime misses, crashes on or reports unclearly."""

from collections.abc import Iterator
from typing import Any

from codl.errors import ModelError
from codl.frontend.bounds import check_folding
from codl.frontend.demands import Shapes, find_node_problems
from codl.frontend.initializers import find_initializer_problems
from codl.frontend.onnx_node import OnnxNode, find_bodies
from codl.frontend.reader import Source
from codl.frontend.schema import check_known, check_operator_sets, find_schema_problems
from codl.frontend.shapes import infer_shapes


def check_nodes(source: Source) -> None:
    """Raise `ModelError` with what ONNX does not allow of nodes, weights and shapes, or return silently.

    Raises:
        RefusedError: An operator that ONNX does not have; ONNX Runtime may.
        ModelError: Anything else.
    """
    top = source.proto.graph
    check_operator_sets(source)
    _raise_any(find_initializer_problems(source))
    inner = [_nodes(source, _walk(function.node)) for function in source.proto.functions]
    nodes = _nodes(source, _walk(top.node))
    _raise_any(problem for node in nodes for problem in find_schema_problems(node))
    for node in nodes:
        check_known(node)
    weights = {tensor.name: tuple(tensor.dims) for tensor in top.initializer}
    every = [*nodes, *(node for body in inner for node in body)]
    _raise_any(problem for node in every for problem in find_node_problems(node, weights))
    inferred = infer_shapes(source.proto, label=source.label, limits=source.limits)
    shapes = inferred.shapes
    check_folding(top, shapes, inferred.types, label=source.label, limits=source.limits)
    outer = _nodes(source, top.node)
    _raise_any(problem for node in outer for problem in find_node_problems(node, shapes))
    _raise_any(problem for node in outer for problem in _find_negative_lengths(node, shapes))


def _find_negative_lengths(node: OnnxNode, shapes: Shapes) -> Iterator[str]:
    """Yield one sentence for each output that is less than empty: too much was cropped or padded away."""
    for name in node.outputs:
        shape = shapes.get(name, ())
        if min(shape, default=0) < 0:
            yield node.sentence(
                got=f"output {name!r} of shape {list(shape)}",
                expected="lengths of 0 or more",
                remedy="correct the node's pads or feed larger images",
            )


def _raise_any(problems: Iterator[str]) -> None:
    found = list(problems)
    if found:
        raise ModelError("\n".join(found))


def _nodes(source: Source, protos: Any) -> list[OnnxNode]:
    return [OnnxNode(proto=proto, opset=source.opset, label=source.label) for proto in protos]


def _walk(nodes: Any) -> Iterator[Any]:
    """Yield nodes and those inside their subgraphs."""
    for node in nodes:
        yield node
        for body in find_bodies(node):
            yield from _walk(body.node)

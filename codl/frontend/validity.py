"""Problems of single nodes that ONNX Runtime lets pass or crashes on: found before it sees the model."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from codl.errors import ModelError
from codl.frontend.onnx_node import OnnxNode
from codl.frontend.reader import Source
from codl.frontend.shapes import infer_shapes
from codl.frontend.windows import find_window_problems
from codl.ir.graph import Shape

Shapes = Mapping[str, Shape]


def check_nodes(source: Source) -> None:
    """Raise `ModelError` with every attribute or shape that ONNX does not allow, or return silently."""
    top = source.proto.graph
    bodies = [*_walk(top.node), *(node for f in source.proto.functions for node in _walk(f.node))]
    nodes = [OnnxNode(proto=proto, opset=source.opset, label=source.label) for proto in bodies]
    weights = {tensor.name: tuple(tensor.dims) for tensor in top.initializer}
    problems = [p for node in nodes for p in find_node_problems(node, weights)]
    if not problems:
        shapes = infer_shapes(source.proto, label=source.label).shapes
        nodes = [OnnxNode(proto=proto, opset=source.opset, label=source.label) for proto in top.node]
        problems = [p for node in nodes for p in find_node_problems(node, shapes)]
    if problems:
        raise ModelError("\n".join(problems))


def find_node_problems(node: OnnxNode, shapes: Shapes) -> Iterator[str]:
    """Yield one sentence for each broken demand of the node's operator.

    Args:
        node: Any node; one without demands here yields nothing.
        shapes: Shapes as far as they are known.
    """
    find = _DEMANDS.get(node.op_type)
    if find is not None:
        yield from find(node, shapes)


def _walk(nodes: Any) -> Iterator[Any]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            yield from _walk(attribute.g.node)
            for body in attribute.graphs:
                yield from _walk(body.node)


def _shape(node: OnnxNode, index: int, shapes: Shapes) -> Shape | None:
    return shapes.get(node.optional_input(index) or "")


def _conv(node: OnnxNode, shapes: Shapes) -> Iterator[str]:
    x, weight, bias = (_shape(node, i, shapes) for i in range(3))
    groups = node.integer("group", 1)
    if groups < 1:
        yield node.sentence(
            got=f"group {groups}", expected="1 or more", remedy="correct the attribute in the exporter"
        )
        return
    yield from find_window_problems(node, x=x, weight=weight)
    if x is None or weight is None or len(x) < 3:
        return
    kernel = node.integers("kernel_shape") or weight[2:]
    expected = (weight[0], x[1] // groups, *kernel)
    if weight != expected or x[1] % groups or weight[0] % groups:
        yield node.sentence(
            got=f"weight {list(weight)} in {groups} groups over input {list(x)}",
            expected=f"weight {list(expected)}, channels divisible by the groups",
            remedy="correct the weight, group or kernel_shape",
        )
    if bias is not None and bias != weight[:1]:
        yield node.sentence(
            got=f"bias {list(bias)}", expected=f"[{weight[0]}]", remedy="correct the bias in the exporter"
        )


def _pool(node: OnnxNode, shapes: Shapes) -> Iterator[str]:
    if node.integers("kernel_shape") is None:
        yield node.sentence(
            got="no kernel_shape", expected="one value for each image axis", remedy="add the attribute"
        )
        return
    yield from find_window_problems(node, x=_shape(node, 0, shapes))


def _gemm(node: OnnxNode, shapes: Shapes) -> Iterator[str]:
    a, b = _shape(node, 0, shapes), _shape(node, 1, shapes)
    if a is None or b is None:
        return
    if len(a) != 2 or len(b) != 2:
        yield node.sentence(
            got=f"A {list(a)} and B {list(b)}", expected="two matrices", remedy="flatten the inputs first"
        )
        return
    inner_a = a[0] if node.integer("transA", 0) else a[1]
    inner_b = b[1] if node.integer("transB", 0) else b[0]
    if inner_a != inner_b:
        yield from _inner_problem(node, a, b)


def _matmul(node: OnnxNode, shapes: Shapes) -> Iterator[str]:
    a, b = _shape(node, 0, shapes), _shape(node, 1, shapes)
    if a and b and a[-1] != b[-2 if len(b) > 1 else 0]:
        yield from _inner_problem(node, a, b)


def _inner_problem(node: OnnxNode, a: Shape, b: Shape) -> Iterator[str]:
    yield node.sentence(
        got=f"A {list(a)} times B {list(b)}",
        expected="equal inner dimensions",
        remedy="correct the weight or what feeds this node",
    )


def _space_to_depth(node: OnnxNode, shapes: Shapes) -> Iterator[str]:
    block, x = node.integer("blocksize", 0), _shape(node, 0, shapes)
    if block < 1 or (x is not None and (len(x) != 4 or x[2] % block or x[3] % block)):
        yield node.sentence(
            got=f"blocksize {block}" + ("" if x is None else f" over input {list(x)}"),
            expected="a positive divisor of height and width of a 4-D input",
            remedy="correct the attribute or feed images of another size",
        )


def _batch_norm(node: OnnxNode, shapes: Shapes) -> Iterator[str]:
    x = _shape(node, 0, shapes)
    if x is None or len(x) < 2:
        return
    for index, name in enumerate(("scale", "B", "mean", "var"), start=1):
        got = _shape(node, index, shapes)
        if got is not None and got != x[1:2]:
            yield node.sentence(
                got=f"{name} of shape {list(got)}", expected=f"[{x[1]}]", remedy="correct the statistics"
            )


_DEMANDS: dict[str, Callable[[OnnxNode, Shapes], Iterator[str]]] = {
    "Conv": _conv,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "SpaceToDepth": _space_to_depth,
    "BatchNormalization": _batch_norm,
}

"""Products with a constant matrix as convolutions of windows of one pixel: rows are the pixels of a line."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from codl.catalog.rows.linear_rows import FEW_ROWS, matrix_names
from codl.catalog.rows.matmul import matrix_box, rows_args
from codl.catalog.spec import LaunchBatch, PackedArg
from codl.ir.graph import FloatArray, Graph, Node, Shape, Tensor
from codl.ir.ops import Conv2d, MatMul
from codl.ir.regions import Boxes

_AXES = (0, 3, 1, 2)
"""Axes of an image, by those of a batch of matrices: n, h, rows, columns."""


def has_many_rows(node: Node, graph: Graph) -> bool:
    """Return whether a node multiplies many rows, or a batch of two axes, by a constant matrix."""
    op, shape = node.op, graph.shape(node.output)
    if not isinstance(op, MatMul) or any(name not in graph.constants for name in matrix_names(node, op)):
        return False
    if len(graph.shape(node.inputs[1])) != 2 or len(graph.shape(node.inputs[0])) != len(shape):
        return False
    return len(shape) == 4 or (len(shape) < 4 and int(np.prod(shape[:-1])) > FEW_ROWS)


def as_convolution(node: Node, graph: Graph) -> tuple[Node, Graph]:
    """Return a product as a convolution, and the graph of it alone."""
    op = node.op
    assert isinstance(op, MatMul)
    names = matrix_names(node, op)
    tensors = {name: _as_image(graph.shape(name)) for name in {*node.inputs, node.output} - {*names}}
    constants = _turn_matrix(graph.constants, names)
    shapes = tensors | {name: value.shape for name, value in constants.items()}
    convolution = replace(node, op=Conv2d(kernel=(1, 1), has_bias=op.has_bias))
    alone = Graph(
        name=node.name,
        nodes=(convolution,),
        inputs=tuple(name for name in node.inputs if name not in names),
        outputs=(node.output,),
        tensors={name: Tensor(name=name, shape=shape) for name, shape in shapes.items()},
        constants=constants,
    )
    return convolution, alone


def as_image_boxes(out: Boxes) -> Boxes:
    """Return boxes of a product as those of the convolution."""
    begin, end = matrix_box(out)
    return Boxes(begin[:, _AXES], end[:, _AXES])


def as_product(batch: LaunchBatch, node: Node, graph: Graph) -> LaunchBatch:
    """Return the launch of the convolution as that of the product: operands and constants are the node's."""
    op = node.op
    assert isinstance(op, MatMul)
    pack = partial(_pack, names=matrix_names(node, op))
    packed = tuple(
        PackedArg(key=f"matrix/{one.key}", pack=partial(pack, pack=one.pack), panel_floats=one.panel_floats)
        for one in batch.packed
    )
    return replace(batch, tensors=rows_args(node, graph), packed=packed)


def _as_image(shape: Shape) -> Shape:
    """Return the shape of a batch of matrices as an image's: columns are its channels."""
    *batch, rows, columns = shape
    n, h = {0: (1, 1), 1: (*batch, 1), 2: tuple(batch)}[len(batch)]
    return n, columns, h, rows


def _turn_matrix(constants: Mapping[str, FloatArray], names: tuple[str, ...]) -> dict[str, FloatArray]:
    """Return matrix and bias as weights [OC, IC, 1, 1] and bias [OC] of a convolution."""
    matrix, *bias = (constants[name] for name in names)
    turned = (matrix.T[:, :, None, None], *(one.reshape(-1) for one in bias))
    return dict(zip(names, turned, strict=True))


def _pack(
    constants: Mapping[str, FloatArray],
    *,
    names: tuple[str, ...],
    pack: Callable[[Mapping[str, FloatArray]], FloatArray],
) -> FloatArray:
    return pack(_turn_matrix(constants, names))

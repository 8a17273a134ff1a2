"""The row for GPUs that multiplies few rows by a constant matrix; images of one pixel are rows, too."""

from collections.abc import Mapping
from functools import partial
from math import prod

import numpy as np

from codl.catalog.epilogue import epilogue_scalars
from codl.catalog.groups import GROUP, choose_assembly, make_row, size_grid, takes_groups
from codl.catalog.rows.boxes import constants_like, moved_bytes
from codl.catalog.rows.matmul import matrix_box, rows_args
from codl.catalog.spec import (
    LaunchBatch,
    PackedArg,
    Parameters,
    ceil_div,
    kernel_box,
    plain_arg,
    spread,
)
from codl.ir.graph import FloatArray, Graph, Node
from codl.ir.ops import Conv2d, MatMul
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo

LINEAR = "linear_rows__buffer"
FEW_ROWS = 8
"""Up to so many rows, reading the matrix takes longer than computing, whatever the tile."""
COLUMNS = 8
"""LINEAR_COLUMNS of kernels/walk/reductions.h."""


def has_constant_matrix(node: Node, graph: Graph) -> bool:
    """Return whether a node is the product of a tensor with a constant matrix, bias included."""
    op = node.op
    if not isinstance(op, MatMul) or any(name not in graph.constants for name in matrix_names(node, op)):
        return False
    rank = len(graph.shape(node.output))
    return rank <= 3 and len(graph.shape(node.inputs[0])) == rank and len(graph.shape(node.inputs[1])) == 2


def matrix_names(node: Node, op: MatMul | Conv2d) -> tuple[str, ...]:
    """Return the names of matrix and, if there is one, bias."""
    return node.inputs[1 : 3 if op.has_bias else 2]


def is_pixel_product(node: Node, graph: Graph) -> bool:
    """Return whether a node is a convolution of few images of one pixel, with constant weights."""
    op, shape = node.op, graph.shape(node.output)
    if not isinstance(op, Conv2d) or op.groups > 1 or any(op.pads) or op.kernel != (1, 1):
        return False
    are_pixels = shape[2:] == graph.shape(node.inputs[0])[2:] == (1, 1)
    return are_pixels and shape[0] <= FEW_ROWS and all(n in graph.constants for n in matrix_names(node, op))


def _accept_linear(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    is_known = has_constant_matrix(node, graph) or is_pixel_product(node, graph)
    return choose_assembly(info) if takes_groups(info) and is_known else None


def _has_one_row(node: Node, graph: Graph) -> bool:
    """Return whether the whole operator is a vector times a matrix: slices have the bits of the whole."""
    shape = graph.shape(node.output)
    return (shape[0] if isinstance(node.op, Conv2d) else prod(shape[:-1])) == 1


def _pack(constants: Mapping[str, FloatArray], *, names: tuple[str, ...]) -> FloatArray:
    """Return [ceil(N / 8), 8 + 8 * ceil(K / 4) * 4]: biases of eight columns, then the columns."""
    matrix, *bias = (constants[name] for name in names)
    matrix = matrix.reshape(matrix.shape[:2]).T if matrix.ndim == 4 else matrix
    depth, columns = matrix.shape
    panels = -(-columns // COLUMNS)
    lines = np.zeros((panels * COLUMNS, -(-depth // 4) * 4), np.float32)
    lines[:columns, :depth] = matrix.T
    first = np.zeros((panels * COLUMNS,), np.float32)
    if bias:
        first[:columns] = bias[0].reshape(-1)
    return np.concatenate([first.reshape(panels, COLUMNS), lines.reshape(panels, -1)], axis=1)


def _describe_linear(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    del parameters
    op, x = node.op, node.inputs[0]
    assert isinstance(op, MatMul | Conv2d)
    names = matrix_names(node, op)
    if isinstance(op, MatMul):
        (begin, end), depth, tensors = matrix_box(out), graph.shape(x)[-1], rows_args(node, graph)
    else:
        (begin, end), depth = kernel_box(out), graph.shape(x)[1]
        target, left, residual = (
            plain_arg(name, graph.shape(name)) for name in (node.output, x, node.residual or node.output)
        )
        tensors = (target, left, residual)
    panel_begin, panel_end = begin[:, 3] // COLUMNS, ceil_div(end[:, 3], COLUMNS)
    panels = np.where(out.size > 0, panel_end - panel_begin, 0)
    read, written = moved_bytes(node, graph, out)
    batch = LaunchBatch(
        entry=LINEAR,
        tensors=tensors,
        packed=(
            PackedArg(
                key=f"{names!r}/nk/columns{COLUMNS}",
                pack=partial(_pack, names=names),
                panel_floats=COLUMNS * (1 + -(-depth // 4) * 4),
            ),
        ),
        panel_begin=panel_begin,
        panel_end=panel_end,
        global_size=size_grid(panels),
        local_size=(GROUP, 1, 1),
        scalars={
            "n_begin": begin[:, 0],
            "n_count": end[:, 0] - begin[:, 0],
            "row_begin": begin[:, 2],
            "row_end": end[:, 2],
            "channel_begin": begin[:, 3],
            "channel_end": end[:, 3],
            "panel_begin": panel_begin,
            "panels": panels,
            **constants_like(out, depth=depth, is_vector=int(_has_one_row(node, graph))),
            **epilogue_scalars(node.epilogue, out.count),
        },
        units={"steps": spread(panels, info.units) * COLUMNS * depth, "tiles": spread(panels, info.units)},
        read_bytes=read,
        written_bytes=written,
        flops=2 * depth * out.size,
    )
    return (batch,)


IMPLEMENTATIONS = (make_row("gemm", LINEAR, _accept_linear, _describe_linear),)

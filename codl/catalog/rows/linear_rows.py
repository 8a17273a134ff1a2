"""The row for GPUs that multiplies few rows by a constant matrix."""

from collections.abc import Mapping
from functools import partial

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
    spread,
)
from codl.ir.graph import FloatArray, Graph, Node
from codl.ir.ops import MatMul
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo

LINEAR = "linear_rows__buffer"
COLUMNS = 8
"""LINEAR_COLUMNS of kernels/walk/reductions.h."""


def has_constant_matrix(node: Node, graph: Graph) -> bool:
    """Return whether a node is the product of a tensor with a constant matrix, bias included."""
    op = node.op
    if not isinstance(op, MatMul) or any(name not in graph.constants for name in matrix_names(node, op)):
        return False
    rank = len(graph.shape(node.output))
    return rank <= 3 and len(graph.shape(node.inputs[0])) == rank and len(graph.shape(node.inputs[1])) == 2


def matrix_names(node: Node, op: MatMul) -> tuple[str, ...]:
    """Return the names of matrix and, if there is one, bias."""
    return node.inputs[1 : 3 if op.has_bias else 2]


def _accept_linear(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    return choose_assembly(info) if takes_groups(info) and has_constant_matrix(node, graph) else None


def _pack(constants: Mapping[str, FloatArray], *, names: tuple[str, ...]) -> FloatArray:
    """Return [ceil(N / 8), 8 + 8 * ceil(K / 4) * 4]: biases of eight columns, then the columns."""
    matrix, *bias = (constants[name] for name in names)
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
    op, depth = node.op, graph.shape(node.inputs[0])[-1]
    assert isinstance(op, MatMul)
    names = matrix_names(node, op)
    begin, end = matrix_box(out)
    panel_begin, panel_end = begin[:, 3] // COLUMNS, ceil_div(end[:, 3], COLUMNS)
    panels = np.where(out.size > 0, panel_end - panel_begin, 0)
    target, left, residual = rows_args(node, graph)
    read, written = moved_bytes(node, graph, out)
    batch = LaunchBatch(
        entry=LINEAR,
        tensors=(target, left, residual),
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
            **constants_like(out, depth=depth),
            **epilogue_scalars(node.epilogue, out.count),
        },
        units={"steps": spread(panels, info.units) * COLUMNS * depth, "tiles": spread(panels, info.units)},
        read_bytes=read,
        written_bytes=written,
        flops=2 * depth * out.size,
    )
    return (batch,)


IMPLEMENTATIONS = (make_row("gemm", LINEAR, _accept_linear, _describe_linear),)

"""Matrix products: with a constant right operand packed into panels, and with any operands as they lie."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from codl.catalog.epilogue import epilogue_scalars
from codl.catalog.register_tile import ALLOWED_TILES, choose_tile, pack_panels
from codl.catalog.spec import (
    AxisMap,
    Implementation,
    LaunchBatch,
    PackedArg,
    Parameters,
    TensorArg,
    ceil_div,
    spread,
)
from codl.ir.graph import FloatArray, Graph, Node, Shape
from codl.ir.ops import MatMul
from codl.ir.regions import Boxes, IntArray, input_boxes
from codl.machine import DeviceInfo

_FLOAT_BYTES = 4


def _accept_packed(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    op, shape = node.op, graph.shape(node.output)
    if not isinstance(op, MatMul) or len(shape) > 3 or len(graph.shape(node.inputs[1])) != 2:
        return None
    if any(name not in graph.constants for name in _constants(node, op)):
        return None
    if len(graph.shape(node.inputs[0])) != len(shape):
        return None
    return choose_tile(info.vector_width, rows=shape[-2], channels=shape[-1])


def _accept_plain(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    shape = graph.shape(node.output)
    if not isinstance(node.op, MatMul) or len(shape) > 4:
        return None
    return choose_tile(info.vector_width, rows=shape[-2], channels=shape[-1])


def _constants(node: Node, op: MatMul) -> tuple[str, ...]:
    """Return the names of the right operand and, if there is one, the bias."""
    return node.inputs[1 : 3 if op.has_bias else 2]


def _pack(constants: Mapping[str, FloatArray], *, names: tuple[str, ...], nr: int) -> FloatArray:
    """Return [ceil(N / nr), 1 + K, nr], the bias in row 0."""
    matrix, *bias = (constants[name] for name in names)
    return pack_panels(matrix.T, bias[0] if bias else None, groups=1, nr=nr)


def _matrix_arg(name: str, shape: Shape, out: Shape) -> TensorArg:
    """Return the operand for the matrices [..., rows, columns] of a tensor, its batch broadcast to that of ``out``.

    Unlike an image's, the axes of a matrix batch walk in ONNX order: n, h, rows, columns.
    """
    rank, missing = len(out), len(out) - len(shape)

    def batch_axis(axis: int) -> AxisMap | None:
        is_walked = axis >= missing and shape[axis - missing] == out[axis] != 1
        return (axis - missing, 1) if is_walked else None

    n = batch_axis(0) if rank > 2 else None
    h = batch_axis(1) if rank > 3 else None
    return TensorArg(
        name=name,
        dims=(n, h, (len(shape) - 2, 1), (len(shape) - 1, 1)),
        origin=(0,) * len(shape),
    )


def _matrix_box(out: Boxes) -> tuple[IntArray, IntArray]:
    """Return begin and end of the boxes as n, h, rows, columns, each [count, 4]; absent ones are [0, 1)."""
    rank = out.begin.shape[1]
    begin, end = np.zeros((out.count, 4), np.int64), np.ones((out.count, 4), np.int64)
    places = {2: (2, 3), 3: (0, 2, 3), 4: (0, 1, 2, 3)}[rank]
    begin[:, places], end[:, places] = out.begin, out.end
    return begin, end


def _describe(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters, *, is_packed: bool
) -> tuple[LaunchBatch, ...]:
    op = node.op
    assert isinstance(op, MatMul)
    count, nr, names = out.count, parameters["NR"], _constants(node, op)
    shape, a, b = graph.shape(node.output), graph.shape(node.inputs[0]), graph.shape(node.inputs[1])
    depth = a[-1]
    begin, end = _matrix_box(out)
    extent = end - begin
    panel_begin, panel_end = begin[:, 3] // nr, ceil_div(end[:, 3], nr)
    tiles = ceil_div(extent[:, 2], parameters["MR"])
    global_size = np.stack([tiles, panel_end - panel_begin, extent[:, 0] * extent[:, 1]], axis=1)
    busiest = spread(global_size.prod(axis=1), info.units)
    target = _matrix_arg(node.output, shape, shape)
    residual = _matrix_arg(node.residual, shape, shape) if node.residual else target
    left = _matrix_arg(node.inputs[0], a, shape)
    box = {
        "row_begin": begin[:, 2],
        "channel_begin": begin[:, 3],
        "row_end": end[:, 2],
        "channel_end": end[:, 3],
        "panel_begin": panel_begin,
        "depth": np.full(count, depth, np.int64),
    }
    needs = input_boxes(node, graph, out)
    packed = PackedArg(key=f"{'+'.join(names)}/nk/nr{nr}", pack=partial(_pack, names=names, nr=nr))
    bias = TensorArg(name=node.inputs[2], dims=(None, None, None, (0, 1)), origin=(0,)) if op.has_bias else target
    return (
        LaunchBatch(
            entry="gemm_packed__buffer" if is_packed else "gemm_plain__buffer",
            tensors=(target, left, residual)
            if is_packed
            else (target, left, _matrix_arg(node.inputs[1], b, shape), bias, residual),
            packed=(packed,) if is_packed else (),
            panel_begin=panel_begin if is_packed else None,
            panel_end=panel_end if is_packed else None,
            global_size=global_size,
            scalars=(
                {"matrix_begin": begin[:, 0], **box}
                if is_packed
                else {
                    "n_begin": begin[:, 0],
                    "h_begin": begin[:, 1],
                    "h_count": extent[:, 1],
                    **box,
                    "has_bias": np.full(count, op.has_bias, np.int64),
                }
            )
            | epilogue_scalars(node.epilogue, count),
            units={"steps": busiest * depth, "tiles": busiest},
            read_bytes=_FLOAT_BYTES * np.sum([boxes.size for boxes in needs], axis=0),
            written_bytes=_FLOAT_BYTES * out.size,
            flops=2 * depth * out.size,
        ),
    )


IMPLEMENTATIONS: tuple[Implementation, ...] = (
    Implementation(
        name="gemm_packed__buffer",
        source="gemm/gemm_packed__buffer.cl",
        allowed=ALLOWED_TILES,
        accepts=_accept_packed,
        describe=partial(_describe, is_packed=True),
    ),
    Implementation(
        name="gemm_plain__buffer",
        source="gemm/gemm_plain__buffer.cl",
        allowed=ALLOWED_TILES,
        accepts=_accept_plain,
        describe=partial(_describe, is_packed=False),
    ),
)

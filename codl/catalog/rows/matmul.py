"""Matrix products of any operands, as they lie."""

import numpy as np

from codl.catalog.epilogue import epilogue_scalars
from codl.catalog.register_tile import ALLOWED_TILES, choose_tile
from codl.catalog.rows.boxes import constants_like, moved_bytes
from codl.catalog.spec import (
    AxisMap,
    Batches,
    LaunchBatch,
    Parameters,
    TensorArg,
    busiest_share,
    ceil_div,
    define_row,
    plain_arg,
    spread,
)
from codl.ir.graph import Graph, Node, Shape
from codl.ir.ops import MatMul
from codl.ir.regions import Boxes, IntArray
from codl.machine import DeviceInfo


def _accept(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    shape = graph.shape(node.output)
    if not isinstance(node.op, MatMul) or len(shape) > 4:
        return None
    rows, columns = shape[-2:]
    depth = graph.shape(node.inputs[0])[-1]
    return choose_tile(info.vector_width, rows=rows, channels=columns, depth=depth)


def _describe(node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters) -> Batches:
    op = node.op
    assert isinstance(op, MatMul)
    mr, nr, depth = parameters["MR"], parameters["NR"], graph.shape(node.inputs[0])[-1]
    begin, end = matrix_box(out)
    panel_begin, panel_end = begin[:, 3] // nr, ceil_div(end[:, 3], nr)
    matrices = (end[:, 0] - begin[:, 0]) * (end[:, 1] - begin[:, 1])
    global_size = np.stack([ceil_div(end[:, 2] - begin[:, 2], mr), panel_end - panel_begin, matrices], axis=1)
    items = global_size.prod(axis=1)  # one tile each, and all alike
    tiles = spread(items, info.units)
    target, left, residual = rows_args(node, graph)
    right = matrix_arg(node.inputs[1], graph.shape(node.inputs[1]), graph.shape(node.output))
    bias = plain_arg(node.inputs[2], graph.shape(node.inputs[2])) if op.has_bias else target
    read, written = moved_bytes(node, graph, out)
    return (
        LaunchBatch(
            entry="gemm_plain__buffer",
            tensors=(target, left, right, bias, residual),
            global_size=global_size,
            scalars={
                "n_begin": begin[:, 0],
                "h_begin": begin[:, 1],
                "h_count": end[:, 1] - begin[:, 1],
                "row_begin": begin[:, 2],
                "channel_begin": begin[:, 3],
                "row_end": end[:, 2],
                "channel_end": end[:, 3],
                "panel_begin": panel_begin,
                **constants_like(out, depth=depth, has_bias=op.has_bias),
                **epilogue_scalars(node.epilogue, out.count),
            },
            busiest_flops=busiest_share(2 * depth * mr * nr, full_items=items, units=info.units),
            units={"steps": tiles * depth, "tiles": tiles},
            read_bytes=read,
            written_bytes=written,
            flops=2 * depth * out.size,
        ),
    )


def rows_args(node: Node, graph: Graph) -> tuple[TensorArg, TensorArg, TensorArg]:
    """Return the operands for output, left operand and residual; without a residual the output stands in."""
    shape = graph.shape(node.output)
    left = matrix_arg(node.inputs[0], graph.shape(node.inputs[0]), shape)
    return (
        matrix_arg(node.output, shape, shape),
        left,
        matrix_arg(node.residual or node.output, shape, shape),
    )


def matrix_arg(name: str, shape: Shape, out: Shape) -> TensorArg:
    """Return the operand for the matrices [..., rows, columns] of a tensor, in the batch of ``out``.

    Unlike an image's, the axes of a matrix batch walk in ONNX order: n, h, rows, columns.
    """
    rank, missing = len(out), len(out) - len(shape)

    def batch_axis(axis: int) -> AxisMap | None:
        is_walked = axis >= missing and shape[axis - missing] == out[axis] != 1
        return (axis - missing, 1) if is_walked else None

    n = batch_axis(0) if rank > 2 else None
    h = batch_axis(1) if rank > 3 else None
    rows, columns = (len(shape) - 2, 1), (len(shape) - 1, 1)
    return TensorArg(name=name, dims=(n, h, rows, columns), origin=(0,) * len(shape))


def matrix_box(out: Boxes) -> tuple[IntArray, IntArray]:
    """Return begin and end of the boxes as n, h, rows, columns, each [count, 4]; absent ones are [0, 1)."""
    rank = out.begin.shape[1]
    begin, end = np.zeros((out.count, 4), np.int64), np.ones((out.count, 4), np.int64)
    places = {2: (2, 3), 3: (0, 2, 3), 4: (0, 1, 2, 3)}[rank]
    begin[:, places], end[:, places] = out.begin, out.end
    return begin, end


IMPLEMENTATIONS = (
    define_row(
        "gemm",
        "gemm_plain__buffer",
        _accept,
        _describe,
        allowed=ALLOWED_TILES,
        inner_loop="reference/reference_tile__buffer.cl",
    ),
)

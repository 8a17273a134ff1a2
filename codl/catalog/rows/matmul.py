"""Matrix products of any operands, as they lie."""

from dataclasses import dataclass

import numpy as np

from codl.catalog.epilogue import epilogue_scalars
from codl.catalog.register_tile import ALLOWED_TILES, choose_tile
from codl.catalog.rows.boxes import constants_like, moved_bytes
from codl.catalog.spec import (
    AxisMap,
    Implementation,
    LaunchBatch,
    Parameters,
    Scalar,
    TensorArg,
    busiest_share,
    ceil_div,
    plain_arg,
    spread,
)
from codl.ir.graph import Graph, Node, Shape
from codl.ir.ops import MatMul
from codl.ir.regions import Boxes, IntArray
from codl.machine import DeviceInfo


def _accept_plain(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    shape = graph.shape(node.output)
    if not isinstance(node.op, MatMul) or len(shape) > 4:
        return None
    return _choose_tile(node, graph, info)


def _choose_tile(node: Node, graph: Graph, info: DeviceInfo) -> Parameters:
    rows, columns = graph.shape(node.output)[-2:]
    depth = graph.shape(node.inputs[0])[-1]
    return choose_tile(info.vector_width, rows=rows, channels=columns, depth=depth)


def _describe_plain(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    op = node.op
    assert isinstance(op, MatMul)
    cover = _cover(node, graph, out, parameters)
    target, left, residual = rows_args(node, graph)
    right = _matrix_arg(node.inputs[1], graph.shape(node.inputs[1]), graph.shape(node.output))
    bias = plain_arg(node.inputs[2], graph.shape(node.inputs[2])) if op.has_bias else target
    read, written = moved_bytes(node, graph, out)
    return (
        LaunchBatch(
            entry="gemm_plain__buffer",
            tensors=(target, left, right, bias, residual),
            global_size=cover.global_size,
            scalars={
                "n_begin": cover.begin[:, 0],
                "h_begin": cover.begin[:, 1],
                "h_count": cover.end[:, 1] - cover.begin[:, 1],
                **cover.scalars,
                **constants_like(out, has_bias=op.has_bias),
                **epilogue_scalars(node.epilogue, out.count),
            },
            busiest_flops=cover.busiest_flops(info, parameters),
            units=cover.units(info),
            read_bytes=read,
            written_bytes=written,
            flops=2 * cover.depth * out.size,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cover:
    """Output boxes covered by register tiles, for many candidates."""

    begin: IntArray
    """[count, 4]: n, h, row, column"""
    end: IntArray
    panel_begin: IntArray
    panel_end: IntArray
    global_size: IntArray
    depth: int

    @property
    def scalars(self) -> dict[str, Scalar]:
        """What both kernels take of the box, in their order."""
        return {
            "row_begin": self.begin[:, 2],
            "channel_begin": self.begin[:, 3],
            "row_end": self.end[:, 2],
            "channel_end": self.end[:, 3],
            "panel_begin": self.panel_begin,
            "depth": np.full(len(self.begin), self.depth, np.int64),
        }

    def units(self, info: DeviceInfo) -> dict[str, IntArray]:
        """Return the tiles of the busiest compute unit and the steps of K inside them."""
        tiles = spread(self.global_size.prod(axis=1), info.units)
        return {"steps": tiles * self.depth, "tiles": tiles}

    def busiest_flops(self, info: DeviceInfo, parameters: Parameters) -> IntArray:
        """Return what the busiest compute unit computes: work-items are one tile each, and all alike."""
        tile = 2 * self.depth * parameters["MR"] * parameters["NR"]
        return busiest_share(tile, full_items=self.global_size.prod(axis=1), units=info.units)


def _cover(node: Node, graph: Graph, out: Boxes, parameters: Parameters) -> _Cover:
    """Return the tiles of output boxes: rows from a box's first on, columns in panels of the whole tensor."""
    begin, end = matrix_box(out)
    panel_begin, panel_end = begin[:, 3] // parameters["NR"], ceil_div(end[:, 3], parameters["NR"])
    tiles = ceil_div(end[:, 2] - begin[:, 2], parameters["MR"])
    matrices = (end[:, 0] - begin[:, 0]) * (end[:, 1] - begin[:, 1])
    return _Cover(
        begin=begin,
        end=end,
        panel_begin=panel_begin,
        panel_end=panel_end,
        global_size=np.stack([tiles, panel_end - panel_begin, matrices], axis=1),
        depth=graph.shape(node.inputs[0])[-1],
    )


def rows_args(node: Node, graph: Graph) -> tuple[TensorArg, TensorArg, TensorArg]:
    """Return the operands for output, left operand and residual; without a residual the output stands in."""
    shape = graph.shape(node.output)
    left = _matrix_arg(node.inputs[0], graph.shape(node.inputs[0]), shape)
    return (
        _matrix_arg(node.output, shape, shape),
        left,
        _matrix_arg(node.residual or node.output, shape, shape),
    )


def _matrix_arg(name: str, shape: Shape, out: Shape) -> TensorArg:
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


IMPLEMENTATIONS: tuple[Implementation, ...] = (
    Implementation(
        name="gemm_plain__buffer",
        source="gemm/gemm_plain__buffer.cl",
        allowed=ALLOWED_TILES,
        accepts=_accept_plain,
        describe=_describe_plain,
        inner_loop="reference/reference_tile__buffer.cl",
    ),
)

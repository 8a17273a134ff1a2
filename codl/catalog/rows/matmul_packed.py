"""Matrix products with a constant right operand, packed into panels."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from codl.catalog.epilogue import epilogue_scalars
from codl.catalog.gemm_tile import ALLOWED_TILES, choose_tile, is_tile, pack_panels, share_tiles
from codl.catalog.rows.boxes import constants_like, moved_bytes
from codl.catalog.rows.matmul import matrix_box, rows_args
from codl.catalog.spec import LaunchBatch, PackedArg, Parameters, busiest_share, ceil_div, define_row, spread
from codl.ir.graph import FloatArray, Graph, Node
from codl.ir.ops import MatMul
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo, DeviceKind

_ALLOWED: Mapping[str, tuple[int, ...]] = {**ALLOWED_TILES, "STREAMS": (0, 1)}


def _accept(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    op, shape = node.op, graph.shape(node.output)
    if not isinstance(op, MatMul) or len(shape) > 3 or len(graph.shape(node.inputs[1])) != 2:
        return None
    if any(name not in graph.constants for name in _constants(node, op)):
        return None
    if len(graph.shape(node.inputs[0])) != len(shape):
        return None
    rows, columns = shape[-2:]
    depth = graph.shape(node.inputs[0])[-1]
    is_cpu = info.kind is DeviceKind.CPU
    tile = choose_tile(info, rows=rows, channels=columns, depth=depth, pitch=depth, prefetches=not is_cpu)
    return {**tile, "STREAMS": int(_may_stream(tile, info))}


def _may_stream(tile: Parameters, info: DeviceInfo) -> bool:
    """Return whether a tile reads each vector of weights as a stream of its own.

    Source:
        Single rows, 16 to 411 MB of weights: AlexNet, VGG-16 and ZFNet-512 take 0.89 to 0.96 of the time with
        streams on 2 cores of a Granite Rapids, AlexNet 0.91 on 2 of an Emerald Rapids; AlexNet and VGG-16
        1.07 and 1.04 on an H100.
    """
    return tile["MR"] == 1 and info.kind is DeviceKind.CPU


def _fits(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters) -> bool:
    """Return whether the tile stays in registers, and its panels may lie so."""
    return is_tile(parameters, info) and (not parameters["STREAMS"] or _may_stream(parameters, info))


def _constants(node: Node, op: MatMul) -> tuple[str, ...]:
    """Return the names of the right operand and, if there is one, the bias."""
    return node.inputs[1 : 3 if op.has_bias else 2]


def _pack(
    constants: Mapping[str, FloatArray],
    *,
    names: tuple[str, ...],
    vectors: int,
    lanes: int,
    are_streams: bool,
) -> FloatArray:
    """Return [panels, 1 + K, vectors, lanes], or [panels, vectors, 1 + K, lanes]; the bias in row 0."""
    matrix, *bias = (constants[name] for name in names)
    packed = pack_panels(matrix.T, bias[0] if bias else None, groups=1, vectors=vectors, lanes=lanes)
    split = packed.reshape(*packed.shape[:2], vectors, lanes)
    return np.ascontiguousarray(split.transpose(0, 2, 1, 3)) if are_streams else split


def _describe(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    op = node.op
    assert isinstance(op, MatMul)
    names, vectors, lanes = _constants(node, op), parameters["VECTORS"], parameters["VECTOR"]
    are_streams = bool(parameters["STREAMS"])
    panel, depth = vectors * lanes, graph.shape(node.inputs[0])[-1]
    begin, end = matrix_box(out)
    panel_begin, panel_end = begin[:, 3] // panel, ceil_div(end[:, 3], panel)
    panels, matrices = panel_end - panel_begin, (end[:, 0] - begin[:, 0]) * (end[:, 1] - begin[:, 1])
    tiles = ceil_div(end[:, 2] - begin[:, 2], parameters["MR"])
    item_tiles, item_panels = share_tiles(tiles, panels, matrices, depth=depth, info=info)
    global_size = np.stack([ceil_div(tiles, item_tiles), ceil_div(panels, item_panels), matrices], axis=1)
    items = spread(global_size.prod(axis=1), info.units)
    busiest = items * item_panels * item_tiles
    read, written = moved_bytes(node, graph, out)
    return (
        LaunchBatch(
            entry="gemm_packed__buffer",
            tensors=rows_args(node, graph),
            packed=(
                PackedArg(
                    key=f"{names!r}/nk/{vectors}x{lanes}" + "/streams" * are_streams,
                    pack=partial(_pack, names=names, vectors=vectors, lanes=lanes, are_streams=are_streams),
                    panel_floats=(1 + depth) * panel,
                ),
            ),
            panel_begin=panel_begin,
            panel_end=panel_end,
            global_size=global_size,
            steals=True,
            scalars={
                "matrix_begin": begin[:, 0],
                "row_begin": begin[:, 2],
                "channel_begin": begin[:, 3],
                "row_end": end[:, 2],
                "channel_end": end[:, 3],
                "panel_begin": panel_begin,
                "item_panels": item_panels,
                "panels": panels,
                "item_tiles": item_tiles,
                **constants_like(out, columns=graph.shape(node.output)[-1], depth=depth),
                **epilogue_scalars(node.epilogue, out.count),
            },
            busiest_flops=busiest_share(
                2 * depth * parameters["MR"] * panel * item_panels * item_tiles,
                full_items=tiles // item_tiles * matrices * (panels // item_panels),
                units=info.units,
            ),
            units={"steps": busiest * depth, "tiles": busiest, "items": items},
            read_bytes=read,
            written_bytes=written,
            flops=2 * depth * out.size,
        ),
    )


IMPLEMENTATIONS = (
    define_row(
        "gemm",
        "gemm_packed__buffer",
        _accept,
        _describe,
        allowed=_ALLOWED,
        fits=_fits,
        inner_loop="reference/reference_gemm_tile__buffer.cl",
    ),
)

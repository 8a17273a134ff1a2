"""Rows for attention: lanes that are rows of queries, and for GPUs groups that share keys and values."""

import numpy as np

from codl.catalog.groups import GROUP, choose_assembly, size_grid, takes_groups
from codl.catalog.rows.boxes import LANES, constants_like, is_plain, lanes_for, moved_bytes
from codl.catalog.spec import (
    AxisMap,
    Implementation,
    LaunchBatch,
    Parameters,
    Scalar,
    TensorArg,
    broadcast_arg,
    ceil_div,
    define_row,
    spread,
)
from codl.ir.graph import Graph, Node
from codl.ir.ops import Attention
from codl.ir.regions import Boxes, IntArray
from codl.machine import DeviceInfo

ROWS, TILE = "attention_rows__buffer", "attention_tile__buffer"
TILES = (16, 32)
"""BM: rows of queries that a group takes together."""
_WIDEST = 64
"""Channels of heads up to which tiles of 32 rows fit local memory."""
_START_ROWS = 12
"""Keys and values come to local memory once a tile: taken for as much work as so many rows of it.

Source: an estimate from local memory's and arithmetic's rates, not a measurement.
"""
_EXPONENTIAL = 8
"""Elementary steps that an exponential costs."""


def _accept_rows(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    op = node.op
    if not isinstance(op, Attention) or not is_plain(node):
        return None
    return lanes_for(info, graph.shape(node.output)[op.row_axis])


def _describe_rows(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    op = node.op
    assert isinstance(op, Attention)
    rows = 2 * parameters["VECTOR"]
    extent, heads = out.extent, _count_heads(op, out)
    blocks = ceil_div(extent[:, op.row_axis], rows)
    global_size = np.stack([blocks, heads, extent[:, op.batch_axis]], axis=1)
    scalars = _find_scalars(op, node, graph, out)
    del scalars["n_count"]
    items, grid = global_size.prod(axis=1), (global_size, (1, 1, 1))
    return (_launch(ROWS, node, graph, out, info, scalars=scalars, grid=grid, items=items, rows=rows),)


def _accept_tile(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    op = node.op
    if not isinstance(op, Attention) or not is_plain(node) or not takes_groups(info):
        return None
    shape, units = graph.shape(node.output), max(1, info.units)
    matrices, rows = shape[op.batch_axis] * op.heads, shape[op.row_axis]

    def estimate_work(tile: int) -> int:
        return -(-matrices * -(-rows // tile) // units) * (tile + _START_ROWS)

    tiles = TILES if max(op.depth, op.width) <= _WIDEST else TILES[:1]
    return {"BM": min(tiles, key=estimate_work), **choose_assembly(info)}


def _fits_tile(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters) -> bool:
    del graph
    op = node.op
    assert isinstance(op, Attention)
    has_room = parameters["BM"] == TILES[0] or max(op.depth, op.width) <= _WIDEST
    return has_room and parameters["PTX"] == choose_assembly(info)["PTX"]


def _describe_tile(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    op, tile = node.op, parameters["BM"]
    assert isinstance(op, Attention)
    extent = out.extent
    matrices = extent[:, op.batch_axis] * _count_heads(op, out)
    places = matrices * ceil_div(extent[:, op.row_axis], tile)
    scalars = _find_scalars(op, node, graph, out)
    grid = (size_grid(places), (GROUP, 1, 1))
    return (_launch(TILE, node, graph, out, info, scalars=scalars, grid=grid, items=places, rows=tile),)


def _count_heads(op: Attention, out: Boxes) -> IntArray:
    return np.asarray((out.end[:, 2] - 1) // op.width + 1 - out.begin[:, 2] // op.width)


def _find_scalars(op: Attention, node: Node, graph: Graph, out: Boxes) -> dict[str, Scalar]:
    keys = graph.shape(node.inputs[1])[op.row_axis]
    return {
        "n_begin": out.begin[:, op.batch_axis],
        "n_count": out.extent[:, op.batch_axis],
        "row_begin": out.begin[:, op.row_axis],
        "row_end": out.end[:, op.row_axis],
        "channel_begin": out.begin[:, 2],
        "channel_end": out.end[:, 2],
        **constants_like(out, keys=keys, depth=op.depth, width=op.width, has_mask=int(op.has_mask)),
        "scale": np.full(out.count, op.scale, np.float32),
    }


def _launch(
    entry: str,
    node: Node,
    graph: Graph,
    out: Boxes,
    info: DeviceInfo,
    *,
    scalars: dict[str, Scalar],
    grid: tuple[IntArray, tuple[int, int, int]],
    items: IntArray,
    rows: int,
) -> LaunchBatch:
    """Return the launch of a grid, global and local size, whose items have ``rows`` rows of a head."""
    op = node.op
    assert isinstance(op, Attention)
    keys, busiest = graph.shape(node.inputs[1])[op.row_axis], spread(items, info.units)
    read, written = moved_bytes(node, graph, out)
    lines = out.extent[:, op.batch_axis] * out.extent[:, op.row_axis]
    work = _count_heads(op, out) * (2 * op.depth + _EXPONENTIAL) + 2 * out.extent[:, 2]
    steps = rows * keys * (op.depth + op.width + _EXPONENTIAL)
    return LaunchBatch(
        entry=entry,
        tensors=_list_operands(op, node, graph),
        global_size=grid[0],
        local_size=grid[1],
        scalars=scalars,
        units={"items": busiest, "vectors": busiest * steps},
        read_bytes=read,
        written_bytes=written,
        flops=np.asarray(lines * keys * work),
    )


def _list_operands(op: Attention, node: Node, graph: Graph) -> tuple[TensorArg, ...]:
    """Return output, query, key, value and mask; the output stands in for a mask that there is not."""
    batch, rows = (op.batch_axis, 1), (op.row_axis, 1)
    split: tuple[AxisMap | None, ...] = ((2, op.depth), (2, op.depth), None)
    target = TensorArg(name=node.output, dims=(batch, None, rows, (2, 1)), origin=(0, 0, 0))
    operands = [
        TensorArg(name=name, dims=(batch, heads, rows, (2, 1)), origin=(0, 0, begin))
        for name, heads, begin in zip(node.inputs[:3], split, op.begins, strict=True)
    ]
    return (target, *operands, _mask_arg(node, graph) if op.has_mask else target)


def _mask_arg(node: Node, graph: Graph) -> TensorArg:
    """Return the mask over (batch, heads, rows, keys); its axes are ONNX's, whatever lies innermost."""
    shape = graph.shape(node.inputs[3])
    batch, rows, keys, heads = broadcast_arg(node.inputs[3], shape, 4).dims
    return TensorArg(name=node.inputs[3], dims=(batch, heads, rows, keys), origin=(0,) * len(shape))


IMPLEMENTATIONS = (
    Implementation(
        name=TILE,
        source=f"attention/{TILE}.cl",
        allowed={"BM": TILES, "PTX": (0, 1)},
        accepts=_accept_tile,
        describe=_describe_tile,
        fits=_fits_tile,
        uses_groups=True,
    ),
    define_row("attention", ROWS, _accept_rows, _describe_rows, allowed={"VECTOR": LANES}),
)

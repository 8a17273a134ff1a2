"""Large windows over few input channels by minimal filtering in one launch, as the first of many networks."""

from functools import partial

import numpy as np

from codl.catalog.epilogue import epilogue_scalars
from codl.catalog.gemm_tile import FEW_REGISTERS
from codl.catalog.rows.boxes import constants_like
from codl.catalog.rows.filtering import box_scalars, list_operands, names_of
from codl.catalog.rows.windows import has_constant_weights, is_narrow, window_scalars
from codl.catalog.spec import LaunchBatch, PackedArg, Parameters, busiest_share, ceil_div, define_row, spread
from codl.catalog.winograd_tile import (
    ALLOWED_WINOGRAD,
    STEP_PADDING,
    are_on_grid,
    count_parts,
    cover,
    most_local_bytes,
    pack_filters,
    part_of,
    points_of,
    taps_of,
)
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.ops import Conv2d
from codl.ir.regions import Boxes, IntArray, input_boxes
from codl.machine import DeviceInfo, DeviceKind

_ITEM_BYTES = 128 << 10
"""Local memory that a work-item's tiles should take: a part of a core's second-level cache."""
_HEIGHTS = (5, 6, 4)
"""Tiles of a register tile, the preferred ones first."""
_MANY_HEIGHTS = (8, 14, 7, 5, 6, 4)
"""The same where there are more registers.

Source:
    2 cores of a Zen 4, Intel's driver, the layers below: 8 x 32 takes 0.92 to 0.94 of the time of 5 x 32,
    10 x 32 1.00 to 1.05, 12 x 32 0.95 to 1.09; 14 x 32 0.80 in rows of 14 tiles, 0.96 to 0.99 elsewhere.
"""
_VECTORS = 2
"""Vectors of a panel.

Source:
    2 cores of a Zen 3, Intel's driver, first layers of ResNet-50, ZFNet-512, AlexNet and FastStyle: 5 x 16
    and 6 x 16 take 0.57 to 0.75 of the time of a plain sum, 4 x 16 and 4 x 24 0.59 to 0.89. 2 cores of a Zen
    4: 5 x 32 takes 0.53 to 0.67, and 12 sums fill three quarters of a vector of 16 when they are transformed.
"""
_LEAST_DEPTH = 8
"""Parts and channels that are worth the transforms, unless a vector has fewer lanes."""
_STEP_PRODUCTS = 2
"""What a step of K takes in addition to its products, in products of a vector."""


def _accept(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    op = node.op
    if (
        info.kind is not DeviceKind.CPU
        or not isinstance(op, Conv2d)
        or op.tile == (1, 1)
        or not is_narrow(node, graph)
    ):
        return None
    if not has_constant_weights(node, graph):
        return None
    _, outputs, _, columns = graph.shape(node.output)
    lanes = max(4, min(16, info.vector_width))
    panel = lanes * min(_VECTORS, -(-outputs // lanes))
    heights = _HEIGHTS if info.vector_registers <= FEW_REGISTERS else _MANY_HEIGHTS
    sizes = ({"TILE": op.tile[0], "MR": height, "NR": panel, "VECTOR": lanes} for height in heights)
    fitting = [parameters for parameters in sizes if _fits(node, graph, info, parameters)]
    return min(fitting, key=lambda one: _count_row(node, graph, info, one, columns), default=None)


def _count_row(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters, columns: int) -> int:
    """Return what a row of tiles takes, in products of a vector at each step of K."""
    row_tiles, height = ceil_div(np.array([columns]), parameters["TILE"]), parameters["MR"]
    run = _share_row(row_tiles, _depth_of(node, graph, parameters), parameters, info)
    blocks = row_tiles // run * (run // height) + ceil_div(row_tiles % run, height)
    return int(blocks[0]) * (height * parameters["NR"] // parameters["VECTOR"] + _STEP_PRODUCTS)


def _fits(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters) -> bool:
    """Return whether tiles lie on the operator's grid, and local memory holds those of a work-item."""
    op, lanes = node.op, parameters["VECTOR"]
    assert isinstance(op, Conv2d)
    depth = _depth_of(node, graph, parameters)
    vectors = parameters["NR"] // lanes
    is_whole = parameters["NR"] % lanes == 0 and 1 <= vectors <= 3 and min(lanes, _LEAST_DEPTH) <= depth
    least = _local_floats(np.array([parameters["MR"]]), depth, parameters) * FLOAT_BYTES
    return are_on_grid(op, parameters["TILE"]) and is_whole and bool(least[0] <= most_local_bytes(info))


def _depth_of(node: Node, graph: Graph, parameters: Parameters) -> int:
    assert isinstance(node.op, Conv2d)
    return graph.shape(node.inputs[0])[1] * count_parts(node.op, parameters["TILE"])


def _local_floats(run: IntArray, depth: int, parameters: Parameters) -> IntArray:
    """Return the local memory of a work-item that takes ``run`` tiles, in floats, [count]."""
    tile, points = parameters["TILE"], points_of(parameters["TILE"])
    edge = tile + part_of(tile) - 1
    copied = edge * ((tile * run + part_of(tile) - 1) * depth + max(depth, parameters["VECTOR"]))
    products = points * parameters["MR"] * parameters["NR"]
    return np.asarray(copied + points * run * (depth + STEP_PADDING) + products)


def _share_row(row_tiles: IntArray, depth: int, parameters: Parameters, info: DeviceInfo) -> IntArray:
    """Return the tiles of a row that a work-item takes, in whole register tiles, [count]."""
    mr = parameters["MR"]
    one, two = (_local_floats(np.array([n * mr]), depth, parameters) for n in (1, 2))
    wanted = min(_ITEM_BYTES, most_local_bytes(info)) // FLOAT_BYTES
    most = mr * max(1, int(1 + (wanted - one[0]) // (two[0] - one[0])))
    return mr * ceil_div(ceil_div(row_tiles, ceil_div(row_tiles, most)), mr)


def _describe(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    op = node.op
    assert isinstance(op, Conv2d)
    tiles, depth, tile = cover(out, parameters), _depth_of(node, graph, parameters), parameters["TILE"]
    points, nr = points_of(tile), parameters["NR"]
    run = _share_row(tiles.in_row, depth, parameters, info)
    rows = tiles.count // tiles.in_row
    blocks = run // parameters["MR"]
    global_size = np.stack([rows, ceil_div(tiles.in_row, run), tiles.images], axis=1)
    items = spread(global_size.prod(axis=1), info.units)
    channels = graph.shape(node.inputs[0])[1]
    read = input_boxes(node, graph, out)[0].size + (out.size if node.residual else 0)
    panel = nr * (1 + points * depth)
    names = names_of(node)
    operands = list_operands(
        node,
        graph,
        tiles,
        PackedArg(
            key=f"{names!r}/phases{tile}/nr{nr}/stride{op.stride[0]}x{op.stride[1]}",
            pack=partial(pack_filters, names=names, tile=tile, nr=nr, inputs=channels, stride=op.stride),
            panel_floats=panel,
        ),
        zeros=0,
    )
    return (
        LaunchBatch(
            **operands,
            entry="conv2d_winograd_patch__buffer",
            global_size=global_size,
            steals=True,
            local=_local_floats(run, depth, parameters),
            scalars={
                **box_scalars(tiles),
                "run_tiles": run,
                "panels": tiles.panels,
                "row_tiles": tiles.in_row,
                **constants_like(out, channels=channels),
                **window_scalars(node, graph, out, has_dilation=False),
                **epilogue_scalars(node.epilogue, out.count),
            },
            busiest_flops=busiest_share(
                2 * points * depth * nr * tiles.panels * run,
                full_items=rows * (tiles.in_row // run) * tiles.images,
                units=info.units,
            ),
            units={
                "steps": items * blocks * tiles.panels * points * depth,
                "tiles": items * blocks * tiles.panels,
                "transforms": items * run * depth,
                "items": items,
            },
            read_bytes=FLOAT_BYTES * (read + tiles.panels * panel),
            written_bytes=FLOAT_BYTES * out.size,
            flops=2 * taps_of(node, graph) * out.size,
        ),
    )


_ALLOWED = {name: values for name, values in ALLOWED_WINOGRAD.items() if name != "FETCH"}
IMPLEMENTATIONS = (
    define_row(
        "conv2d",
        "conv2d_winograd_patch__buffer",
        _accept,
        _describe,
        allowed=_ALLOWED,
        fits=_fits,
        inner_loop="reference/reference_tile__buffer.cl",
    ),
)

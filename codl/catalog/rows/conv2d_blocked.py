"""Convolutions of small images by long sums, as matrix products in blocks of K."""

from collections.abc import Mapping
from math import prod

import numpy as np

from codl.catalog.gemm_tile import FEW_REGISTERS, count_panels, is_tile
from codl.catalog.rows.boxes import constants_like
from codl.catalog.rows.windows import has_constant_weights, launch_windows, pack_taps, window_scalars
from codl.catalog.spec import (
    Batches,
    Parameters,
    busiest_share,
    can_fetch,
    ceil_div,
    define_row,
    kernel_box,
    spread,
)
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.ops import Conv2d
from codl.ir.regions import Boxes, IntArray
from codl.machine import DeviceInfo, DeviceKind

ALLOWED_BLOCKED: Mapping[str, tuple[int, ...]] = {
    "MR": (4, 5, 6, 7, 8, 9, 10, 12, 14),
    "VECTORS": (1, 2, 3, 4),
    "VECTOR": (4, 8, 16),
    "DEPTH": (64, 128, 256),
    "FETCH": (0, 1),
}
"""Allowed values of the parameters."""
_ROW_PADDING = 16
"""Floats behind each pixel's inputs of a block (ROW_STEP)."""
_LOCAL_BYTES = 256 << 10
"""Most local memory of a work-item: what leaves room for weights in a core's second-level cache."""
_LEAST_DEPTH, _LEAST_OUTPUTS = 128, 64
"""Shorter sums and fewer channels are not worth gathering inputs for."""
_MOST_PIXELS = 100
"""Outputs of an image up to which weights, each of them used little, are what takes the time.

Source:
    2 cores of an Emerald Rapids, both CPU drivers: 7 x 7 outputs of 2048 1x1 and of 512 3x3 take 0.75 to 0.95
    of the time of an implicit product without blocks; 14 x 14 outputs of 256 to 1024 take as long or longer.
    2 cores of a Zen 3, both CPU drivers: 7 x 7 outputs of 1x1 take 1.07 to 1.3 of the time of a plain product
    in all of eight shapes; windows 0.75 to 1.
"""
_ITEMS_PER_UNIT = 4
"""Work-items for each compute unit: each gathers its inputs itself, so balance alone asks for more."""
_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 4096)
"""Work-items that may share the panels of the same pixels."""
_GATHERING = 3.0
"""Time to gather an input, in that of reading a weight that a tile then uses."""
_TILE_CYCLES = 40
"""Cycles that a tile takes for each block in addition to its products."""
_DEPTHS = (256, 128)
"""Steps of K in a block, the best first."""
_NEAR_BYTES = 24 << 10
"""Most weights of a panel's block, which stay in a core's first cache together with a tile's inputs.

Source:
    2 cores of a Zen 3, Intel's driver, 7 x 7 outputs of 512 3x3 of stride 2 in 5 x 16: blocks of 256 steps
    take 0.90 to 0.95 of the time of blocks of 128.
"""
_FETCHED_BYTES = 512 << 10
"""Bytes of weights from which they are prefetched: fewer lie in a core's own cache."""


def _accept(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    op = node.op
    if not isinstance(op, Conv2d) or not has_constant_weights(node, graph):
        return None
    if info.kind is not DeviceKind.CPU or op.groups != 1:
        return None
    if op.kernel == (1, 1) and info.vector_registers <= FEW_REGISTERS:
        return None
    depth = prod(graph.shape(node.inputs[1])[1:])
    _, outputs, height, width = graph.shape(node.output)
    if depth < _LEAST_DEPTH or outputs < _LEAST_OUTPUTS or height * width > _MOST_PIXELS:
        return None
    lanes = max(4, min(16, info.vector_width))
    is_fetched = FLOAT_BYTES * depth * outputs >= _FETCHED_BYTES and can_fetch(info)
    rest = {"VECTOR": lanes, "FETCH": int(is_fetched)}
    tiles = (
        {"MR": rows, "VECTORS": vectors, "DEPTH": _choose_depth(vectors * lanes), **rest}
        for vectors in ALLOWED_BLOCKED["VECTORS"]
        for rows in ALLOWED_BLOCKED["MR"]
    )
    return min(
        (tile for tile in tiles if is_tile(tile, info) and _fits_local(tile, info)),
        key=lambda tile: _count_cycles(tile, pixels=height * width, outputs=outputs),
        default=None,
    )


def _choose_depth(panel: int) -> int:
    """Return the steps of K in a block of panels of so many channels."""
    return next((depth for depth in _DEPTHS if FLOAT_BYTES * depth * panel <= _NEAR_BYTES), _DEPTHS[-1])


def _count_cycles(tile: Parameters, *, pixels: int, outputs: int) -> float:
    """Return what a step of K takes on one core that does two products of a vector in each cycle."""
    height, vectors = tile["MR"], tile["VECTORS"]
    step = max(height * vectors, height + vectors, 8) / 2
    return -(-pixels // height) * count_panels(outputs, tile) * (step + _TILE_CYCLES / tile["DEPTH"])


def _fits(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters) -> bool:
    """Return whether the tile stays in registers, and a work-item of one tile and panel in local memory."""
    is_known = not parameters["FETCH"] or can_fetch(info)
    return is_known and is_tile(parameters, info) and _fits_local(parameters, info)


def _fits_local(parameters: Parameters, info: DeviceInfo) -> bool:
    one = np.ones(1, np.int64)
    return int(_count_local(one, one, parameters)[0]) * FLOAT_BYTES <= info.local_memory_bytes


def _count_local(tiles: IntArray, panels: IntArray, parameters: Parameters) -> IntArray:
    """Return the floats of local memory of a work-item: a block of inputs, and its sums."""
    panel = parameters["VECTORS"] * parameters["VECTOR"]
    return tiles * parameters["MR"] * (parameters["DEPTH"] + _ROW_PADDING + panels * panel)


def _describe(node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters) -> Batches:
    op = node.op
    assert isinstance(op, Conv2d)
    x, shape = graph.shape(node.inputs[0]), graph.shape(node.output)
    depth, panel = prod(graph.shape(node.inputs[1])[1:]), parameters["VECTORS"] * parameters["VECTOR"]
    begin, end = kernel_box(out)
    extent = end - begin
    panel_begin, panel_end = begin[:, 3] // panel, ceil_div(end[:, 3], panel)
    panels = panel_end - panel_begin
    tiles = ceil_div(extent[:, 1] * extent[:, 2], parameters["MR"])
    item_tiles, item_panels = _share(tiles, panels, extent[:, 0], info, parameters)
    global_size = np.stack([ceil_div(tiles, item_tiles), ceil_div(panels, item_panels), extent[:, 0]], axis=1)
    items = spread(global_size.prod(axis=1), info.units)
    busiest = items * item_tiles * item_panels
    return launch_windows(
        node,
        graph,
        out,
        entry="conv2d_blocked__buffer",
        packed=(pack_taps(node, graph, parameters),),
        panels=(panel_begin, panel_end),
        scalars={
            "item_tiles": item_tiles,
            "item_panels": item_panels,
            "panels": panels,
            **constants_like(out, outputs=shape[1], inputs=x[1]),
            **window_scalars(node, graph, out),
        },
        zeros=x[1],
        local=_count_local(item_tiles, item_panels, parameters),
        global_size=global_size,
        steals=True,
        busiest_flops=busiest_share(
            2 * depth * parameters["MR"] * panel * item_panels * item_tiles,
            full_items=tiles // item_tiles * extent[:, 0] * (panels // item_panels),
            units=info.units,
        ),
        units={
            "steps": busiest * depth,
            "tiles": busiest * -(-depth // parameters["DEPTH"]),
            "gathered": items * item_tiles * parameters["MR"] * depth,
            "items": items,
        },
        flops=2 * depth * out.size,
    )


def _share(
    tiles: IntArray, panels: IntArray, images: IntArray, info: DeviceInfo, parameters: Parameters
) -> tuple[IntArray, IntArray]:
    """Return tiles and panels of a work-item: enough items for balance, with the least to gather and to read.

    All items of the same pixels gather the same inputs; all items of the same panels read the same weights.
    """
    most = min(info.local_memory_bytes, _LOCAL_BYTES) // FLOAT_BYTES
    wanted = ceil_div(np.full_like(tiles, _ITEMS_PER_UNIT * info.units), images)
    pixels = tiles * parameters["MR"]
    channels = panels * parameters["VECTORS"] * parameters["VECTOR"]
    least, item = np.full(len(tiles), np.inf), (tiles, panels)
    for parts in _PARTS:
        item_panels = ceil_div(panels, parts)
        fitting = most // _count_local(np.ones_like(tiles), item_panels, parameters)
        groups = np.maximum(
            ceil_div(wanted, ceil_div(panels, item_panels)), ceil_div(tiles, np.maximum(fitting, 1))
        )
        item_tiles = ceil_div(tiles, groups)
        moved = parts * pixels * _GATHERING + ceil_div(tiles, item_tiles) * channels
        cost = np.where(fitting > 0, moved, np.inf)
        item = np.where(cost < least, item_tiles, item[0]), np.where(cost < least, item_panels, item[1])
        least = np.minimum(cost, least)
    return item


IMPLEMENTATIONS = (
    define_row(
        "conv2d",
        "conv2d_blocked__buffer",
        _accept,
        _describe,
        allowed=ALLOWED_BLOCKED,
        fits=_fits,
        stacks=True,
    ),
)

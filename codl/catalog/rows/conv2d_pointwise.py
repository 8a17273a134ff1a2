"""1x1 convolutions without padding: a matrix product over pixels, in groups or not."""

from collections.abc import Mapping
from math import prod

import numpy as np

from codl.catalog.epilogue import epilogue_scalars
from codl.catalog.gemm_tile import ALLOWED_TILES, choose_tile, count_panels, is_tile, share_tiles
from codl.catalog.rows.boxes import constants_like
from codl.catalog.rows.windows import box_scalars, has_constant_weights, image_args, pack_taps
from codl.catalog.spec import (
    Implementation,
    LaunchBatch,
    Parameters,
    busiest_share,
    can_fetch,
    ceil_div,
    kernel_box,
    spread,
)
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.ops import Conv2d
from codl.ir.regions import Boxes, IntArray, input_boxes
from codl.machine import DeviceInfo, DeviceKind

ALLOWED_POINTWISE: Mapping[str, tuple[int, ...]] = {**ALLOWED_TILES, "FETCH": (0, 1)}
"""Allowed values of the parameters."""
_FETCHED_BYTES = 64 << 10
"""Weights from which on the next panel is asked for ahead: less comes along with the first tiles."""
_UNIT_ITEMS = np.arange(4, 9)
"""Work-items that a compute unit may take: the last ones leave a unit idle, and each has a start."""
_START_STEPS, _LATE_SHARE = 100, 0.1
"""Steps of K that take as long as the start of a work-item; the share of one that a unit waits at the end."""
_FLOAT_STEPS = 1 / 32
"""Steps of K that take as long as bringing a float from the shared cache or from memory.

Source:
    2 cores of a Granite Rapids, 22 GB/s each beside products: 1x1 convolutions of 14 x 14 outputs gain by
    panels of their own for each core, those of 28 x 28 and 56 x 56 by pixels of their own.
"""


def _accept(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    op = node.op
    if not isinstance(op, Conv2d) or not has_constant_weights(node, graph):
        return None
    if op.kernel != (1, 1) or any(op.pads):
        return None
    _, outputs, height, width = graph.shape(node.output)
    tile = choose_tile(
        info,
        rows=height * width,
        channels=outputs // op.groups,
        depth=graph.shape(node.inputs[1])[1],
        pitch=op.stride[1] * graph.shape(node.inputs[0])[1],
        has_residual=node.residual is not None,
    )
    return {**tile, "FETCH": _choose_fetch(node, graph, info)}


def _choose_fetch(node: Node, graph: Graph, info: DeviceInfo) -> int:
    size = FLOAT_BYTES * prod(graph.shape(node.inputs[1]))
    return int(can_fetch(info) and size >= _FETCHED_BYTES)


def _fits(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters) -> bool:
    """Return whether the tile stays in registers."""
    return parameters["FETCH"] == _choose_fetch(node, graph, info) and is_tile(parameters, info)


def _describe(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    op = node.op
    assert isinstance(op, Conv2d)
    x, shape = graph.shape(node.inputs[0]), graph.shape(node.output)
    group_outputs, depth = shape[1] // op.groups, x[1] // op.groups
    group_panels = count_panels(group_outputs, parameters)
    panel = parameters["VECTORS"] * parameters["VECTOR"]
    begin, end = kernel_box(out)
    extent = end - begin
    panel_begin, last_panel = (
        channel // group_outputs * group_panels + channel % group_outputs // panel
        for channel in (begin[:, 3], end[:, 3] - 1)
    )
    panels = last_panel + 1 - panel_begin
    tiles = ceil_div(extent[:, 1] * extent[:, 2], parameters["MR"])
    if info.kind is DeviceKind.CPU:
        item_tiles, item_panels = _share(
            tiles, panels, extent[:, 0], depth=depth, units=info.units, parameters=parameters
        )
    else:  # many work-items hide what each of them waits for
        item_tiles, item_panels = share_tiles(tiles, panels, extent[:, 0], depth=depth, info=info)
    global_size = np.stack([ceil_div(tiles, item_tiles), ceil_div(panels, item_panels), extent[:, 0]], axis=1)
    items = spread(global_size.prod(axis=1), info.units)
    busiest = items * item_panels * item_tiles
    read = input_boxes(node, graph, out)[0].size
    residual = out.size if node.residual else 0
    return (
        LaunchBatch(
            entry="conv2d_pointwise__buffer",
            tensors=image_args(node, graph),
            packed=(pack_taps(node, graph, parameters),),
            panel_begin=panel_begin,
            panel_end=panel_begin + panels,
            global_size=global_size,
            scalars={
                **box_scalars(begin, end),
                "panel_begin": panel_begin,
                "item_panels": item_panels,
                "panels": panels,
                "item_tiles": item_tiles,
                **constants_like(
                    out,
                    group_panels=group_panels,
                    group_outputs=group_outputs,
                    group_inputs=depth,
                    stride_h=op.stride[0],
                    stride_w=op.stride[1],
                ),
                **epilogue_scalars(node.epilogue, out.count),
            },
            busiest_flops=busiest_share(
                2 * depth * parameters["MR"] * panel * item_panels * item_tiles,
                full_items=tiles // item_tiles * extent[:, 0] * (panels // item_panels),
                units=info.units,
            ),
            units={"steps": busiest * depth, "tiles": busiest, "items": items},
            read_bytes=FLOAT_BYTES * (read + residual + panels * panel * (1 + depth)),
            written_bytes=FLOAT_BYTES * out.size,
            flops=2 * depth * out.size,
        ),
    )


def _share(
    tiles: IntArray, panels: IntArray, images: IntArray, *, depth: int, units: int, parameters: Parameters
) -> tuple[IntArray, IntArray]:
    """Return tiles and panels of a work-item, by which a CPU's busiest core has the least to do and to read.

    Where units take panels of their own, each reads its weights and all inputs; otherwise all weights and the
    inputs of its pixels.

    Args:
        tiles: [count] Row tiles of each candidate in one image.
        panels: [count] Its panels.
        images: [count] Its images.
        depth: Steps of K.
        units: Compute units.
        parameters: Of the kernel.
    """
    panel = parameters["VECTORS"] * parameters["VECTOR"]
    least = np.where(parameters["FETCH"], parameters["VECTORS"], 1)  # tiles that ask together for a panel
    best_cost = np.full(len(tiles), np.inf)
    best = tiles, panels
    for parts in sorted({1, units}):
        item_panels = ceil_div(panels, parts)
        groups = ceil_div(panels, item_panels)
        blocks = np.clip(_UNIT_ITEMS[:, None] * units // (groups * images), 1, tiles)
        item_tiles = np.maximum(ceil_div(tiles, blocks), np.minimum(least, tiles))
        items = spread(ceil_div(tiles, item_tiles) * groups * images, units)
        steps = item_tiles * item_panels * depth
        floats = depth * (panel * item_panels + tiles * parameters["MR"] * groups / units)
        cost = items * (steps + _START_STEPS) + _LATE_SHARE * steps + _FLOAT_STEPS * floats
        places = np.argmin(cost, axis=0), np.arange(len(tiles))
        is_less = cost[places] < best_cost
        best = np.where(is_less, item_tiles[places], best[0]), np.where(is_less, item_panels, best[1])
        best_cost = np.minimum(cost[places], best_cost)
    return best


IMPLEMENTATIONS: tuple[Implementation, ...] = (
    Implementation(
        name="conv2d_pointwise__buffer",
        source="conv2d/conv2d_pointwise__buffer.cl",
        allowed=ALLOWED_POINTWISE,
        accepts=_accept,
        fits=_fits,
        describe=_describe,
        stacks=True,
    ),
)

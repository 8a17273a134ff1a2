"""3 x 3 convolutions of stride 1 by minimal filtering: fused in one launch, or staged in two."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from codl.catalog.epilogue import epilogue_scalars
from codl.catalog.rows.boxes import ITEMS_PER_UNIT, constants_like
from codl.catalog.rows.windows import constant_names
from codl.catalog.spec import (
    Implementation,
    LaunchBatch,
    PackedArg,
    Parameters,
    Scalar,
    busiest_share,
    ceil_div,
    plain_arg,
    spread,
)
from codl.catalog.winograd_tile import (
    ALLOWED_WINOGRAD,
    STEP_PADDING,
    Tiles,
    choose_winograd,
    cover,
    fits_fused,
    fits_node,
    fused_floats,
    is_fused,
    most_staged_tiles,
    pack_filters,
    points_of,
)
from codl.ir.graph import FLOAT_BYTES, FloatArray, Graph, Node
from codl.ir.ops import Conv2d
from codl.ir.regions import Boxes, IntArray, input_boxes
from codl.machine import DeviceInfo

_MOST_PARTS = 16
"""Work-items that may share the panels of the same tiles; each of them transforms the inputs again."""
_TRANSFORM_PANELS = 0.15
"""Panels whose products take as long as the transform of their inputs, whatever the channels."""


def _accept_fused(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    parameters = choose_winograd(node, graph, info)
    return parameters if parameters and is_fused(node, graph, info, parameters) else None


def _accept_staged(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    parameters = choose_winograd(node, graph, info)
    return parameters if parameters and most_staged_tiles(info, parameters) else None


def _fits_fused(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters) -> bool:
    inputs = graph.shape(node.inputs[0])[1]
    return fits_node(node, graph, info, parameters) and fits_fused(inputs, parameters, info)


def _fits_staged(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters) -> bool:
    return fits_node(node, graph, info, parameters) and most_staged_tiles(info, parameters) > 0


def _describe_fused(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    tiles, inputs = cover(out, parameters), graph.shape(node.inputs[0])[1]
    blocks = ceil_div(tiles.count, parameters["MR"])
    item_panels = _share_panels(blocks * tiles.images, tiles.panels, info.units)
    global_size = np.stack([blocks, ceil_div(tiles.panels, item_panels), tiles.images], axis=1)
    items = spread(global_size.prod(axis=1), info.units)
    steps = points_of(parameters["TILE"]) * inputs
    read, written = _count_bytes(node, graph, out, tiles, parameters)
    return (
        LaunchBatch(
            **_common(node, graph, tiles, parameters),
            entry="conv2d_winograd_fused__buffer",
            global_size=global_size,
            local=np.full(out.count, fused_floats(inputs, parameters), np.int64),
            scalars={
                **_box_scalars(tiles),
                "item_panels": item_panels,
                "panels": tiles.panels,
                **_tile_scalars(node, graph, tiles),
            },
            busiest_flops=busiest_share(
                2 * steps * parameters["MR"] * parameters["NR"] * item_panels,
                full_items=blocks * tiles.images * (tiles.panels // item_panels),
                units=info.units,
            ),
            units={"steps": items * item_panels * steps, "tiles": items * item_panels, "items": items},
            read_bytes=read,
            written_bytes=written,
            flops=2 * 9 * inputs * out.size,
        ),
    )


def _share_panels(blocks: IntArray, panels: IntArray, units: int) -> IntArray:
    """Return the panels of a work-item: as many as leave the busiest unit the least to do."""
    least, chosen = np.full(len(blocks), np.inf), panels
    for parts in range(1, _MOST_PARTS + 1):
        item_panels = ceil_div(panels, parts)
        items = spread(blocks * ceil_div(panels, item_panels), units)
        work = items * (item_panels + _TRANSFORM_PANELS)
        chosen = np.where(work < least, item_panels, chosen)
        least = np.minimum(work, least)
    return chosen


def _describe_staged(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    tiles, inputs, mr = cover(out, parameters), graph.shape(node.inputs[0])[1], parameters["MR"]
    points = points_of(parameters["TILE"])
    bands = ceil_div(tiles.count, mr)
    few = ceil_div(np.full(out.count, ITEMS_PER_UNIT * info.units), tiles.images)
    first_tiles = ceil_div(tiles.count, few)
    parts = np.clip(ceil_div(few, ITEMS_PER_UNIT * tiles.panels), 1, bands)
    blocks = np.maximum(parts, ceil_div(bands * mr, most_staged_tiles(info, parameters)))
    item_tiles = ceil_div(bands, blocks) * mr
    one = np.ones(out.count, np.int64)
    first_size = np.stack([ceil_div(bands * mr, first_tiles), one, tiles.images], axis=1)
    second_size = np.stack([ceil_div(bands * mr, item_tiles), tiles.panels, tiles.images], axis=1)
    firsts, items = (spread(size.prod(axis=1), info.units) for size in (first_size, second_size))
    scratch = tiles.images * points * bands * mr * (inputs + STEP_PADDING)
    read, written = _count_bytes(node, graph, out, tiles, parameters)
    source = FLOAT_BYTES * input_boxes(node, graph, out)[0].size
    make = partial(
        LaunchBatch,
        **_common(node, graph, tiles, parameters),
        entry="conv2d_winograd_staged__buffer",
        scratch=scratch,
    )
    scalars = (_box_scalars(tiles), _tile_scalars(node, graph, tiles))
    return (
        make(
            global_size=first_size,
            local=one,
            scalars={**constants_like(out, stage=0), **scalars[0], "item_tiles": first_tiles, **scalars[1]},
            units={"transforms": firsts * first_tiles * inputs, "items": firsts},
            read_bytes=source,
            written_bytes=FLOAT_BYTES * scratch,
            flops=0 * out.size,
        ),
        make(
            global_size=second_size,
            local=points * item_tiles * parameters["NR"],
            scalars={**constants_like(out, stage=1), **scalars[0], "item_tiles": item_tiles, **scalars[1]},
            busiest_flops=2
            * (points * inputs * parameters["NR"])
            * (tiles.count * tiles.images * tiles.panels)
            // info.units,
            units={
                "steps": items * item_tiles // mr * points * inputs,
                "tiles": items * item_tiles // mr,
                "items": items,
            },
            read_bytes=read - source + FLOAT_BYTES * scratch,
            written_bytes=written,
            flops=2 * 9 * inputs * out.size,
        ),
    )


def _common(node: Node, graph: Graph, tiles: Tiles, parameters: Parameters) -> dict[str, Any]:
    """Return what both kernels take: their operands and their packed constants."""
    op = node.op
    assert isinstance(op, Conv2d)
    names, shape, x = constant_names(node, op), graph.shape(node.output), graph.shape(node.inputs[0])
    tile, nr = parameters["TILE"], parameters["NR"]
    return {
        "tensors": (
            plain_arg(node.output, shape),
            plain_arg(node.inputs[0], x),
            plain_arg(node.residual or node.output, shape),
        ),
        "packed": (
            PackedArg(
                key=f"{names!r}/winograd{tile}/nr{nr}",
                pack=partial(_pack, names=names, tile=tile, nr=nr),
                panel_floats=nr * (1 + points_of(tile) * x[1]),
            ),
        ),
        "panel_begin": tiles.panel_begin,
        "panel_end": tiles.panel_end,
        "zeros": x[1],
    }


def _pack(constants: Mapping[str, FloatArray], *, names: tuple[str, ...], tile: int, nr: int) -> FloatArray:
    weight, *bias = (constants[name] for name in names)
    return pack_filters(weight, bias[0] if bias else None, tile=tile, nr=nr)


def _box_scalars(tiles: Tiles) -> dict[str, Scalar]:
    return {
        "image_begin": tiles.begin[:, 0],
        "row_begin": tiles.begin[:, 1],
        "col_begin": tiles.begin[:, 2],
        "channel_begin": tiles.begin[:, 3],
        "row_end": tiles.end[:, 1],
        "col_end": tiles.end[:, 2],
        "channel_end": tiles.end[:, 3],
        "panel_begin": tiles.panel_begin,
    }


def _tile_scalars(node: Node, graph: Graph, tiles: Tiles) -> dict[str, Scalar]:
    op = node.op
    assert isinstance(op, Conv2d)
    _, channels, height, width = graph.shape(node.inputs[0])
    count = len(tiles.count)
    fixed = {"channels": channels, "in_h": height, "in_w": width, "pad_h": op.pads[0], "pad_w": op.pads[1]}
    return {
        "tiles": tiles.count,
        "row_tiles": tiles.in_row,
        **{name: np.full(count, value, np.int64) for name, value in fixed.items()},
        **epilogue_scalars(node.epilogue, count),
    }


def _count_bytes(
    node: Node, graph: Graph, out: Boxes, tiles: Tiles, parameters: Parameters
) -> tuple[IntArray, IntArray]:
    """Return bytes read (the input's region and the panels once, the residual) and written, each [count]."""
    panel = parameters["NR"] * (1 + points_of(parameters["TILE"]) * graph.shape(node.inputs[0])[1])
    read = input_boxes(node, graph, out)[0].size + tiles.panels * panel + (out.size if node.residual else 0)
    return FLOAT_BYTES * read, FLOAT_BYTES * out.size


IMPLEMENTATIONS: tuple[Implementation, ...] = (
    Implementation(
        name="conv2d_winograd_fused__buffer",
        source="conv2d/conv2d_winograd_fused__buffer.cl",
        allowed=ALLOWED_WINOGRAD,
        accepts=_accept_fused,
        describe=_describe_fused,
        fits=_fits_fused,
        inner_loop="reference/reference_tile__buffer.cl",
    ),
    Implementation(
        name="conv2d_winograd_staged__buffer",
        source="conv2d/conv2d_winograd_staged__buffer.cl",
        allowed=ALLOWED_WINOGRAD,
        accepts=_accept_staged,
        describe=_describe_staged,
        fits=_fits_staged,
        inner_loop="reference/reference_tile__buffer.cl",
    ),
)

"""Convolutions of stride 1 by minimal filtering: fused in one launch, or staged in three."""

from functools import partial
from typing import Any

import numpy as np

from codl.catalog.rows.boxes import ITEMS_PER_UNIT, constants_like
from codl.catalog.rows.filtering import box_scalars, list_operands, names_of, sums_of, tile_scalars
from codl.catalog.spec import (
    Batches,
    LaunchBatch,
    PackedArg,
    Parameters,
    busiest_share,
    can_steal,
    ceil_div,
    define_row,
    spread,
    stolen_steps,
)
from codl.catalog.winograd_choice import Arrangement, choose_winograd
from codl.catalog.winograd_tile import (
    ALLOWED_WINOGRAD,
    STEP_PADDING,
    Tiles,
    cover,
    fits_local,
    fits_node,
    fused_floats,
    inputs_of,
    most_local_bytes,
    pack_filters,
    points_of,
    staged_floats,
    taps_of,
)
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.regions import Boxes, IntArray, input_boxes
from codl.machine import DeviceInfo

_MOST_PARTS = 16
"""Work-items that may share the panels of the same tiles; each of them transforms the inputs again."""
_POINT_BYTES = 512 << 10
"""Most inputs at one point that a work-item multiplies: filters pass by them in its cache."""
_TRANSFORM_PANELS = 0.15
"""Panels whose products take as long as the transform of their inputs, whatever the channels."""


def _accept_fused(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    choices = choose_winograd(node, graph, info)
    return choices[Arrangement.FUSED] if next(iter(choices), None) is Arrangement.FUSED else None


def _accept_staged(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    return choose_winograd(node, graph, info).get(Arrangement.STAGED)


def _fits_fused(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters) -> bool:
    is_tiled = fits_node(node, graph, info, parameters)
    return is_tiled and fits_local(sums_of(node, graph, parameters), parameters, most_local_bytes(info))


def _launch_fused(node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters) -> Batches:
    tiles, depth = cover(out, parameters), sums_of(node, graph, parameters)
    blocks = ceil_div(tiles.count, parameters["MR"])
    item_panels = _share_panels(blocks * tiles.images, tiles.panels, info.units)
    global_size = np.stack([blocks, ceil_div(tiles.panels, item_panels), tiles.images], axis=1)
    items = spread(global_size.prod(axis=1), info.units)
    steps = points_of(parameters["TILE"]) * depth
    read, written = _count_bytes(node, graph, out, tiles.panels * parameters["NR"], parameters)
    return (
        LaunchBatch(
            **_common(node, graph, tiles, parameters),
            entry="conv2d_winograd_fused__buffer",
            global_size=global_size,
            steals=True,
            local=np.full(out.count, fused_floats(depth, parameters), np.int64),
            scalars={
                **box_scalars(tiles),
                "item_panels": item_panels,
                "panels": tiles.panels,
                **tile_scalars(node, graph, tiles),
            },
            busiest_flops=busiest_share(
                2 * steps * parameters["MR"] * parameters["NR"] * item_panels,
                full_items=blocks * tiles.images * (tiles.panels // item_panels),
                units=info.units,
            ),
            units={"steps": items * item_panels * steps, "tiles": items * item_panels, "items": items},
            read_bytes=read,
            written_bytes=written,
            flops=2 * taps_of(node, graph) * out.size,
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


def _share_staged(
    tiles: Tiles, depth: int, info: DeviceInfo, parameters: Parameters
) -> tuple[IntArray, IntArray, IntArray, IntArray, tuple[IntArray, IntArray, IntArray]]:
    """Return what work-items take, and the global sizes of the three stages.

    Tiles of an item that transforms; tiles and panels of an item that multiplies, and how many register tiles
    of one vector the busiest unit multiplies; [count] each.
    """
    mr, points = parameters["MR"], points_of(parameters["TILE"])
    bands = ceil_div(tiles.count, mr)
    few = ceil_div(np.full(len(tiles.count), ITEMS_PER_UNIT * info.units), tiles.images)
    transformed = ceil_div(tiles.count, few)
    item_tiles = mr * ceil_div(bands, ceil_div(bands * mr, _most_tiles(depth, mr)))
    blocks = ceil_div(bands * mr, item_tiles)
    item_panels = ceil_div(tiles.panels, ceil_div(few, points * blocks))
    if can_steal(info):
        steps = depth * (item_tiles // mr)
        wanted = stolen_steps(steps * tiles.panels * points * blocks * tiles.images // info.units)
        item_panels = np.clip(wanted // steps, 1, item_panels)
        item_panels = ceil_div(tiles.panels, ceil_div(tiles.panels, item_panels))  # none is left with few
    groups, one = ceil_div(tiles.panels, item_panels), np.ones_like(bands)
    sizes = (
        np.stack([ceil_div(bands * mr, transformed), one, tiles.images], axis=1),
        np.stack([groups, points * blocks, tiles.images], axis=1),
        np.stack([ceil_div(tiles.count, transformed), one, tiles.images], axis=1),
    )
    items = sizes[1].prod(axis=1)
    busiest, width = spread(items, info.units), parameters["NR"] // parameters["VECTOR"]
    if can_steal(info):  # the last items are smaller, whichever unit takes them
        taken = ceil_div(busiest * (points * bands * tiles.images * tiles.vectors), items)
    else:  # panels at the box's edges are multiplied as far as it reaches
        taken = busiest * (item_tiles // mr) * np.minimum(tiles.vectors, item_panels * width)
    return transformed, item_tiles, item_panels, taken, sizes


def _launch_staged(node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters) -> Batches:
    tiles, depth, mr = cover(out, parameters), sums_of(node, graph, parameters), parameters["MR"]
    points, bands = points_of(parameters["TILE"]), ceil_div(tiles.count, mr)
    transformed, item_tiles, item_panels, taken, sizes = _share_staged(tiles, depth, info, parameters)
    busiest = [spread(size.prod(axis=1), info.units) for size in sizes]
    scratch = staged_floats(depth, tiles, parameters)
    channels, width = tiles.vectors * parameters["VECTOR"], parameters["NR"] // parameters["VECTOR"]
    padded = tiles.images * points * bands * mr
    read, written = _count_bytes(node, graph, out, channels, parameters)
    source = FLOAT_BYTES * input_boxes(node, graph, out)[0].size
    residual = FLOAT_BYTES * out.size if node.residual else 0 * out.size
    moved = FLOAT_BYTES * padded * depth, FLOAT_BYTES * padded * channels

    def make(stage: int, tiles_of_item: IntArray, **facts: Any) -> LaunchBatch:
        return LaunchBatch(
            **_common(node, graph, tiles, parameters),
            entry="conv2d_winograd_staged__buffer",
            scratch=scratch,
            global_size=sizes[stage],
            steals=True,
            scalars={
                **constants_like(out, stage=stage),
                **box_scalars(tiles),
                "item_tiles": tiles_of_item,
                "item_panels": item_panels,
                "panels": tiles.panels,
                **tile_scalars(node, graph, tiles),
            },
            **facts,
        )

    constants = read - source - residual
    return (
        make(
            0,
            transformed,
            units={"transforms": busiest[0] * transformed * depth, "items": busiest[0]},
            read_bytes=source,
            written_bytes=moved[0],
            flops=0 * out.size,
        ),
        make(
            1,
            item_tiles,
            busiest_flops=2 * (points * depth) * (tiles.count * tiles.images * channels) // info.units,
            units={"steps": taken * depth // width, "tiles": taken // width, "items": busiest[1]},
            read_bytes=constants + moved[0],
            constant_bytes=constants,
            written_bytes=moved[1],
            flops=2 * taps_of(node, graph) * out.size,
        ),
        make(
            2,
            transformed,
            units={"outputs": busiest[2] * transformed * channels, "items": busiest[2]},
            read_bytes=moved[1] + residual,
            written_bytes=written,
            flops=0 * out.size,
        ),
    )


def _most_tiles(depth: int, mr: int) -> IntArray:
    """Return the tiles whose inputs at one point stay in a core's cache, in whole register tiles."""
    return np.asarray(np.maximum(1, _POINT_BYTES // (FLOAT_BYTES * (depth + STEP_PADDING) * mr)) * mr)


def _common(node: Node, graph: Graph, tiles: Tiles, parameters: Parameters) -> dict[str, Any]:
    """Return what both kernels take: their operands and their packed constants."""
    names, tile, nr = names_of(node), parameters["TILE"], parameters["NR"]
    inputs = inputs_of(node, graph, parameters["VECTOR"])
    packed = PackedArg(
        key=f"{names!r}/winograd{tile}/nr{nr}/ic{inputs}",
        pack=partial(pack_filters, names=names, tile=tile, nr=nr, inputs=inputs),
        panel_floats=nr * (1 + points_of(tile) * sums_of(node, graph, parameters)),
    )
    return list_operands(node, graph, tiles, packed)


def _count_bytes(
    node: Node, graph: Graph, out: Boxes, channels: IntArray, parameters: Parameters
) -> tuple[IntArray, IntArray]:
    """Return bytes read and written, each [count]: the input's region, the filters once, the residual.

    Filters are those of ``channels`` outputs, [count].
    """
    filters = channels * (1 + points_of(parameters["TILE"]) * sums_of(node, graph, parameters))
    read = input_boxes(node, graph, out)[0].size + filters + (out.size if node.residual else 0)
    return FLOAT_BYTES * read, FLOAT_BYTES * out.size


IMPLEMENTATIONS = (
    define_row(
        "conv2d",
        "conv2d_winograd_fused__buffer",
        _accept_fused,
        _launch_fused,
        allowed=ALLOWED_WINOGRAD,
        stacks=True,
        fits=_fits_fused,
        inner_loop="reference/reference_tile__buffer.cl",
    ),
    define_row(
        "conv2d",
        "conv2d_winograd_staged__buffer",
        _accept_staged,
        _launch_staged,
        allowed=ALLOWED_WINOGRAD,
        stacks=True,
        fits=fits_node,
        cuts_panels=True,
        inner_loop="reference/reference_tile__buffer.cl",
    ),
)

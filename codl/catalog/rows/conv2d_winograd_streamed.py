"""Convolutions of stride 1 by minimal filtering whose filters are transformed when they are read."""

from functools import partial
from typing import Any

import numpy as np

from codl.catalog.rows.boxes import ITEMS_PER_UNIT, constants_like
from codl.catalog.rows.filtering import box_scalars, list_operands, names_of, sums_of, tile_scalars
from codl.catalog.spec import Batches, LaunchBatch, PackedArg, Parameters, ceil_div, define_row, spread
from codl.catalog.winograd_choice import Arrangement, choose_winograd
from codl.catalog.winograd_streamed import (
    ALLOWED_STREAMED,
    MOST_REGISTERS,
    TAPS,
    filter_floats,
    fits_streamed,
    pack_taps,
    share_tiles,
)
from codl.catalog.winograd_tile import cover, inputs_of, most_local_bytes, points_of, taps_of
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.regions import Boxes, IntArray, input_boxes
from codl.machine import DeviceInfo


def _accept(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    choices = choose_winograd(node, graph, info)
    is_first = next(iter(choices), None) is Arrangement.STREAMED
    return choices[Arrangement.STREAMED] if is_first else None


def _describe(node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters) -> Batches:
    tiles, depth = cover(out, parameters), sums_of(node, graph, parameters)
    mr, nr, points = parameters["MR"], parameters["NR"], points_of(parameters["TILE"])
    bands = ceil_div(tiles.count, mr)
    few = ceil_div(np.full(out.count, ITEMS_PER_UNIT * info.units), tiles.images)
    transformed, panels = ceil_div(tiles.count, few), tiles.panels * tiles.images
    local_bytes = most_local_bytes(info)
    item_tiles, busiest = share_tiles(bands, panels, parameters, local_bytes=local_bytes, units=info.units)
    one = np.ones_like(bands)
    first = np.stack([one, one, tiles.images * ceil_div(bands * mr, transformed)], axis=1)
    second = np.stack([one, tiles.panels, tiles.images * ceil_div(bands * mr, item_tiles)], axis=1)
    items, padded = spread(first.prod(axis=1), info.units), tiles.images * points * bands * mr
    moved = FLOAT_BYTES * padded * depth
    panel = nr * (1 + TAPS * depth)
    residual = FLOAT_BYTES * out.size if node.residual else 0 * out.size
    taken = busiest * points * (item_tiles // mr)

    def make(stage: int, tiles_of_item: IntArray, **facts: Any) -> LaunchBatch:
        return LaunchBatch(
            **list_operands(node, graph, tiles, _pack(node, graph, parameters, panel)),
            entry="conv2d_winograd_streamed__buffer",
            steals=True,
            scratch=padded * (-(-depth // parameters["DEPTH"]) * parameters["DEPTH"]),
            local=item_tiles * points * nr + filter_floats(parameters),
            scalars={
                **constants_like(out, stage=stage),
                **box_scalars(tiles),
                "item_tiles": tiles_of_item,
                **tile_scalars(node, graph, tiles),
            },
            **facts,
        )

    return (
        make(
            0,
            transformed,
            global_size=first,
            units={"transforms": items * transformed * depth, "items": items},
            read_bytes=FLOAT_BYTES * input_boxes(node, graph, out)[0].size,
            written_bytes=moved,
            flops=0 * out.size,
        ),
        make(
            1,
            item_tiles,
            global_size=second,
            busiest_flops=2 * (points * depth * nr) * (tiles.count * panels) // info.units,
            units={
                "steps": taken * depth,
                "tiles": taken,
                "filters": busiest * points * depth * (nr // parameters["VECTOR"]),
                "items": busiest,
            },
            read_bytes=FLOAT_BYTES * tiles.panels * panel + moved + residual,
            written_bytes=FLOAT_BYTES * out.size,
            flops=2 * taps_of(node, graph) * out.size,
        ),
    )


def _pack(node: Node, graph: Graph, parameters: Parameters, panel_floats: int) -> PackedArg:
    names, nr, inputs = names_of(node), parameters["NR"], inputs_of(node, graph, parameters["VECTOR"])
    return PackedArg(
        key=f"{names!r}/taps/nr{nr}/ic{inputs}",
        pack=partial(pack_taps, names=names, nr=nr, inputs=inputs),
        panel_floats=panel_floats,
    )


IMPLEMENTATIONS = (
    define_row(
        "conv2d",
        "conv2d_winograd_streamed__buffer",
        _accept,
        _describe,
        allowed=ALLOWED_STREAMED,
        stacks=True,
        fits=fits_streamed,
        most_registers=MOST_REGISTERS,
        inner_loop="reference/reference_tile__buffer.cl",
    ),
)

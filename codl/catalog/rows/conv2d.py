"""Convolutions with constant weights: implicit GEMM."""

from collections.abc import Mapping
from functools import partial
from math import prod

import numpy as np

from codl.catalog.gemm_tile import FEW_REGISTERS
from codl.catalog.register_tile import ALLOWED_TILES, choose_tile, pack_panels
from codl.catalog.rows.boxes import ITEMS_PER_UNIT, constants_like
from codl.catalog.rows.windows import (
    constant_names,
    find_panels,
    has_constant_weights,
    launch_windows,
    window_scalars,
)
from codl.catalog.spec import (
    Batches,
    PackedArg,
    Parameters,
    busiest_share,
    can_fetch,
    ceil_div,
    define_row,
    kernel_box,
    spread,
)
from codl.ir.graph import FLOAT_BYTES, FloatArray, Graph, Node, Shape
from codl.ir.ops import Conv2d
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo

ALLOWED: Mapping[str, tuple[int, ...]] = {**ALLOWED_TILES, "FETCH": (0, 1)}
"""Allowed values of the parameters."""
_LEAST_STEPS = 1024
"""Steps of K that make a work-item worth its start and its pixels' placing; shorter sums take more panels.

Source: 1x1 convolutions of 16 to 24 channels take 0.6 to 0.75 of the time of one panel a work-item.
"""
_FAR_BYTES = 1 << 20
"""Bytes of an image's inputs from which they are prefetched: fewer come from a core's own cache.

Source:
    2 cores of a Zen 3, Intel's driver, 3 x 3 of stride 2 over 1.6 to 79 MB of 64 to 256 channels: 0.92 to
    0.98 of the time without; over 0.3 to 1 MB 1.00 to 1.03.
"""
_MOST_REGISTERS = FEW_REGISTERS
"""Vector registers up to which that pays.

Source:
    2 cores of a Zen 4, Intel's driver, 28 x 28 and 14 x 14 outputs of stride 2: 1.05 and 0.98 to 1.00 of the
    time without.
"""
_LEAST_WALK = 64
"""Floats of a row of taps from which prefetching its first lines pays."""


def _accept(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    op = node.op
    if not isinstance(op, Conv2d) or not has_constant_weights(node, graph):
        return None
    _, outputs, out_height, out_width = graph.shape(node.output)
    tile = choose_tile(
        info.vector_width,
        rows=out_height * out_width,
        channels=outputs // op.groups,
        depth=prod(graph.shape(node.inputs[1])[1:]),
    )
    return {**tile, "FETCH": _choose_fetch(op, graph.shape(node.inputs[0]), info)}


def _choose_fetch(op: Conv2d, x: Shape, info: DeviceInfo) -> int:
    """Return whether the first lines of each row of taps are prefetched."""
    is_known = can_fetch(info) and info.vector_registers <= _MOST_REGISTERS
    is_far = FLOAT_BYTES * prod(x[1:]) >= _FAR_BYTES and op.kernel[0] > 1
    return int(is_known and is_far and op.kernel[1] * x[1] // op.groups >= _LEAST_WALK)


def _fits(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters) -> bool:
    """Return whether FETCH is as the row would choose it."""
    op = node.op
    assert isinstance(op, Conv2d)
    return parameters["FETCH"] == _choose_fetch(op, graph.shape(node.inputs[0]), info)


def _pack(constants: Mapping[str, FloatArray], *, names: tuple[str, ...], groups: int, nr: int) -> FloatArray:
    """Return [groups * ceil(OC/groups / nr), 1 + KH*KW*IC/groups, nr], the bias in row 0."""
    weight, *bias = (constants[name] for name in names)
    taps_first = weight.transpose(0, 2, 3, 1).reshape(len(weight), -1)
    return pack_panels(taps_first, bias[0] if bias else None, groups=groups, nr=nr)


def _describe(node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters) -> Batches:
    op = node.op
    assert isinstance(op, Conv2d)
    count, names = out.count, constant_names(node, op)
    x, shape = graph.shape(node.inputs[0]), graph.shape(node.output)
    group_outputs, group_inputs = shape[1] // op.groups, x[1] // op.groups
    panel_begin, panel_end, group_panels = find_panels(out, group_outputs, parameters["NR"])
    begin, end = kernel_box(out)
    extent = end - begin
    tiles = ceil_div(extent[:, 1] * extent[:, 2], parameters["MR"])
    panels = panel_end - panel_begin
    depth = op.kernel[0] * op.kernel[1] * group_inputs
    fair = tiles * extent[:, 0] * panels // (ITEMS_PER_UNIT * info.units)
    item_panels = np.clip(fair, 1, np.minimum(panels, -(-_LEAST_STEPS // depth)))
    parts = ceil_div(panels, item_panels)
    fair = tiles * extent[:, 0] * parts // (ITEMS_PER_UNIT * info.units)
    item_tiles = np.clip(fair, 1, ceil_div(np.full(count, _LEAST_STEPS), depth * item_panels))
    global_size = np.stack([ceil_div(tiles, item_tiles), parts, extent[:, 0]], axis=1)
    items = spread(global_size.prod(axis=1), info.units)
    busiest = items * item_tiles * item_panels
    return launch_windows(
        node,
        graph,
        out,
        entry="conv2d_gemm__buffer",
        packed=(
            PackedArg(
                key=f"{names!r}/ohwi/groups{op.groups}/nr{parameters['NR']}",
                pack=partial(_pack, names=names, groups=op.groups, nr=parameters["NR"]),
                panel_floats=(1 + depth) * parameters["NR"],
            ),
        ),
        panels=(panel_begin, panel_end),
        scalars={
            "item_tiles": item_tiles,
            "item_panels": item_panels,
            "panels": panels,
            **constants_like(
                out,
                group_panels=group_panels,
                group_outputs=group_outputs,
                group_inputs=group_inputs,
            ),
            **window_scalars(node, graph, out),
        },
        zeros=op.kernel[1] * group_inputs,
        global_size=global_size,
        steals=True,
        busiest_flops=busiest_share(
            2 * depth * parameters["MR"] * parameters["NR"] * item_panels,
            full_items=tiles * extent[:, 0] * (panels // item_panels),
            units=info.units,
        ),
        units={"steps": busiest * depth, "tiles": busiest, "items": items},
        flops=2 * depth * out.size,
    )


IMPLEMENTATIONS = (
    define_row(
        "conv2d",
        "conv2d_gemm__buffer",
        _accept,
        _describe,
        allowed=ALLOWED,
        fits=_fits,
        stacks=True,
        inner_loop="reference/reference_tile__buffer.cl",
    ),
)

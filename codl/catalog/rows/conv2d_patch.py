"""Convolutions of few input channels, such as the first of a network: each output row over a padded copy."""

from math import prod

import numpy as np

from codl.catalog.gemm_tile import ALLOWED_TILES, choose_tile
from codl.catalog.rows.boxes import constants_like
from codl.catalog.rows.windows import (
    fits_tile,
    has_constant_weights,
    is_narrow,
    launch_windows,
    pack_taps,
    window_scalars,
)
from codl.catalog.spec import Batches, Parameters, busiest_share, ceil_div, define_row, kernel_box, spread
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.ops import Conv2d
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo

_MOST_PATCH_BYTES = 256 << 10
"""Most bytes of a patch: a part of a core's cache."""


def _accept(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    op = node.op
    if not isinstance(op, Conv2d) or not has_constant_weights(node, graph):
        return None
    if op.groups != 1 or not is_narrow(node, graph) or op.kernel[1] == 1 or op.dilation != (1, 1):
        return None
    inputs, (_, outputs, _, width) = graph.shape(node.inputs[0])[1], graph.shape(node.output)
    patch_bytes = op.kernel[0] * ((width - 1) * op.stride[1] + op.kernel[1]) * inputs * FLOAT_BYTES
    if patch_bytes > min(info.local_memory_bytes, _MOST_PATCH_BYTES):
        return None
    return choose_tile(info, rows=width, channels=outputs, depth=inputs * prod(op.kernel))


def _describe(node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters) -> Batches:
    op = node.op
    assert isinstance(op, Conv2d)
    x, shape = graph.shape(node.inputs[0]), graph.shape(node.output)
    vectors, lanes = parameters["VECTORS"], parameters["VECTOR"]
    begin, end = kernel_box(out)
    extent = end - begin
    depth, panel = x[1] * prod(op.kernel), vectors * lanes
    panel_begin, panel_end = begin[:, 3] // panel, ceil_div(end[:, 3], panel)
    panels = panel_end - panel_begin
    line_pixels = (extent[:, 2] - 1) * op.stride[1] + op.kernel[1]
    items = extent[:, 1] * extent[:, 0]
    tiles = ceil_div(extent[:, 2], parameters["MR"]) * panels
    busiest = spread(items, info.units)
    return launch_windows(
        node,
        graph,
        out,
        entry="conv2d_patch__buffer",
        packed=(pack_taps(node, graph, parameters),),
        panels=(panel_begin, panel_end),
        scalars={
            "panels": panels,
            **constants_like(out, inputs=x[1], outputs=shape[1]),
            **window_scalars(node, graph, out, has_dilation=False),
        },
        has_row_end=False,
        local=op.kernel[0] * line_pixels * x[1],
        global_size=np.stack([extent[:, 1], np.ones(out.count, np.int64), extent[:, 0]], axis=1),
        steals=True,
        busiest_flops=busiest_share(
            2 * depth * parameters["MR"] * panel * tiles, full_items=items, units=info.units
        ),
        units={"steps": busiest * tiles * depth, "tiles": busiest * tiles, "items": busiest},
        flops=2 * depth * out.size,
    )


IMPLEMENTATIONS = (
    define_row("conv2d", "conv2d_patch__buffer", _accept, _describe, allowed=ALLOWED_TILES, fits=fits_tile),
)

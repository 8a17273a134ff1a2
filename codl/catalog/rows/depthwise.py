"""Depthwise convolutions: one filter a channel."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from codl.catalog.gemm_tile import choose_lanes, pack_panels
from codl.catalog.rows.boxes import ITEMS_PER_UNIT, constants_like
from codl.catalog.rows.windows import constant_names, has_constant_weights, launch_windows, window_scalars
from codl.catalog.spec import (
    Batches,
    PackedArg,
    Parameters,
    busiest_share,
    ceil_div,
    define_row,
    kernel_box,
    spread,
)
from codl.ir.graph import FloatArray, Graph, Node
from codl.ir.ops import Conv2d
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo, DeviceKind

HEIGHTS = {4: (6, 7, 8), 8: (6, 7, 8), 16: (7, 8)}
"""By lanes of a vector, the tile heights that were fastest; 14 pixels take 1.4 times as long as 8."""
_LINE, _LINE_HEIGHTS = 16, (6, 7)
"""Lanes of a cache line, and the tile heights whose sums stay in registers of half a line."""
_LINE_SHARE = 0.85
"""Share of the time that vectors of a line take where registers are half as wide.

Source: ten 3 x 3 of 144 to 1024 channels on Zen 3, Intel's driver and PoCL: 0.51 to 0.92, the more channels
there are the less, for pixels far apart crowd few places of a cache, and each line is read once, not twice.
"""


def _accept(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    op = node.op
    if not isinstance(op, Conv2d) or not has_constant_weights(node, graph):
        return None
    channels = graph.shape(node.inputs[0])[1]
    if not op.groups == channels == graph.shape(node.output)[1]:
        return None
    lanes = _choose_lanes(info, channels)
    heights = HEIGHTS[lanes] if lanes <= max(4, info.vector_width) else _LINE_HEIGHTS
    return {"MR": choose_height(heights, graph.shape(node.output)[3]), "NR": lanes, "VECTOR": lanes}


def _choose_lanes(info: DeviceInfo, channels: int) -> int:
    lanes = choose_lanes(info, channels)
    is_half_a_line = info.kind is DeviceKind.CPU and lanes == info.vector_width == _LINE // 2
    halves, lines = -(-channels // lanes), -(-channels // _LINE)
    return _LINE if is_half_a_line and channels >= _LINE and _LINE_SHARE * 2 * lines <= halves else lanes


def choose_height(heights: tuple[int, ...], width: int) -> int:
    """Return which tile height covers a row of pixels with the fewest to spare, rather a large one."""
    return min(heights, key=lambda height: (-(-width // height) * (height + 1), -height))


def _fits(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters) -> bool:
    """Return whether the tile is one vector wide, as the kernel wants it."""
    return parameters["NR"] == parameters["VECTOR"]


def pack_filters(node: Node, op: Conv2d, nr: int) -> PackedArg:
    """Return weight and bias of a depthwise convolution as panels of ``nr`` channels."""
    names = constant_names(node, op)
    return PackedArg(
        key=f"{names!r}/chw/nr{nr}",
        pack=partial(_pack, names=names, nr=nr),
        panel_floats=(1 + op.kernel[0] * op.kernel[1]) * nr,
    )


def _pack(constants: Mapping[str, FloatArray], *, names: tuple[str, ...], nr: int) -> FloatArray:
    """Return [ceil(C / nr), 1 + KH*KW, nr], the bias in row 0; the last panel ends with the last channel."""
    weight, *bias = (constants[name] for name in names)
    filters = weight.reshape(len(weight), -1)
    return pack_panels(filters, bias[0] if bias else None, groups=1, vectors=1, lanes=nr)


def _describe(node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters) -> Batches:
    op = node.op
    assert isinstance(op, Conv2d)
    count, nr = out.count, parameters["NR"]
    shape = graph.shape(node.output)
    begin, end = kernel_box(out)
    extent = end - begin
    panel_begin, panel_end = begin[:, 3] // nr, ceil_div(end[:, 3], nr)
    panels = panel_end - panel_begin
    rows = extent[:, 0] * extent[:, 1]
    parts = np.minimum(panels, ceil_div(np.full(count, ITEMS_PER_UNIT * info.units), rows))
    item_panels = ceil_div(panels, parts)
    global_size = np.stack([extent[:, 1], ceil_div(panels, item_panels), extent[:, 0]], axis=1)
    busiest = spread(global_size.prod(axis=1), info.units)
    tiles = ceil_div(extent[:, 2], parameters["MR"]) * item_panels
    taps = op.kernel[0] * op.kernel[1]
    least_taps = (
        max(1, op.kernel[0] - max(op.pads[0], op.pads[2])) * op.kernel[1]
    )  # rows outside are left out
    return launch_windows(
        node,
        graph,
        out,
        entry="depthwise_conv2d_rows__buffer",
        packed=(pack_filters(node, op, nr),),
        panels=(panel_begin, panel_end),
        scalars={
            "item_panels": item_panels,
            "panels": panels,
            **constants_like(out, channels=shape[1]),
            **window_scalars(node, graph, out),
        },
        has_row_end=False,
        zeros=nr,
        global_size=global_size,
        steals=True,
        busiest_flops=busiest_share(
            2 * least_taps * nr * parameters["MR"] * ceil_div(extent[:, 2], parameters["MR"]) * item_panels,
            full_items=rows * (panels // item_panels),
            units=info.units,
        ),
        units={"steps": busiest * tiles * taps, "tiles": busiest * tiles},
        flops=2 * taps * out.size,
    )


IMPLEMENTATIONS = (
    define_row(
        "depthwise_conv2d",
        "depthwise_conv2d_rows__buffer",
        _accept,
        _describe,
        allowed={"MR": (6, 7, 8, 10, 12, 14), "NR": (4, 8, 16), "VECTOR": (4, 8, 16)},
        fits=_fits,
    ),
)

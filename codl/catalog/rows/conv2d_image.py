"""Convolutions over images of four channels a texel, which GPUs with texture caches prefer to buffers."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from codl.catalog.epilogue import epilogue_scalars
from codl.catalog.images import (
    LANES,
    MOVES,
    can_use_images,
    choose_group,
    image_arg,
    move_from_image,
    move_to_image,
    round_up,
)
from codl.catalog.register_tile import pack_panels
from codl.catalog.rows.boxes import constants_like
from codl.catalog.rows.windows import box_scalars, constant_names, has_constant_weights, window_scalars
from codl.catalog.spec import LaunchBatch, PackedArg, Parameters, ceil_div, define_row, kernel_box, spread
from codl.ir.graph import FLOAT_BYTES, FloatArray, Graph, Node
from codl.ir.ops import Conv2d
from codl.ir.regions import Boxes, IntArray, input_boxes
from codl.machine import DeviceInfo

DIRECT, POINTWISE = "conv2d_direct__image", "conv2d_pointwise__image"
_ALLOWED = {"PIXELS": (1, 2, 4), "BLOCKS": (1, 2), "GROUP": (1, 8)}


def _accept(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    if not has_constant_weights(node, graph) or not can_use_images(node, graph, info):
        return None
    op = node.op
    if not isinstance(op, Conv2d) or op.groups != 1:
        return None
    return {"PIXELS": 4, "BLOCKS": 1, "GROUP": choose_group(info)}


def _accept_pointwise(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    is_pointwise = isinstance(node.op, Conv2d) and node.op.kernel == (1, 1) and not any(node.op.pads)
    return _accept(node, graph, info) if is_pointwise else None


def _fits(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters) -> bool:
    """Return whether work-groups have the side that suits the device."""
    return parameters["GROUP"] == choose_group(info)


def _pack(constants: Mapping[str, FloatArray], *, names: tuple[str, ...], blocks: int) -> FloatArray:
    """Return [panels, 1 + KH*KW*IC', blocks * 4], the bias in row 0, IC' = IC rounded up to whole texels."""
    weight, *bias = (constants[name] for name in names)
    padded = np.pad(weight, ((0, 0), (0, -weight.shape[1] % LANES), (0, 0), (0, 0)))
    taps_first = padded.transpose(0, 2, 3, 1).reshape(len(weight), -1)
    return pack_panels(taps_first, bias[0] if bias else None, groups=1, nr=LANES * blocks)


def _describe_direct(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    extent = out.extent
    columns = ceil_div(extent[:, 3], parameters["PIXELS"])
    begin, end = _find_panels(out, parameters)
    size = np.stack([columns, extent[:, 2], (end - begin) * extent[:, 0]], axis=1)
    scalars = window_scalars(node, graph, out)
    return _describe(node, graph, out, info, parameters, entry=DIRECT, size=size, scalars=scalars)


def _describe_pointwise(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    op, extent = node.op, out.extent
    assert isinstance(op, Conv2d)
    pixels = ceil_div(extent[:, 2] * extent[:, 3], parameters["PIXELS"])
    begin, end = _find_panels(out, parameters)
    size = np.stack([pixels, end - begin, extent[:, 0]], axis=1)
    scalars = constants_like(out, stride_h=op.stride[0], stride_w=op.stride[1])
    return _describe(node, graph, out, info, parameters, entry=POINTWISE, size=size, scalars=scalars)


def _find_panels(out: Boxes, parameters: Parameters) -> tuple[IntArray, IntArray]:
    channels = LANES * parameters["BLOCKS"]
    return out.begin[:, 1] // channels, ceil_div(out.end[:, 1], channels)


def _hull(some: Boxes, more: Boxes) -> Boxes:
    """Return the smallest boxes around pairs of boxes, of which those of ``some`` may be empty."""
    is_empty = some.is_empty[:, None]
    begin = np.where(is_empty, more.begin, np.minimum(some.begin, more.begin))
    return Boxes(begin, np.where(is_empty, more.end, np.maximum(some.end, more.end)))


def _describe(
    node: Node,
    graph: Graph,
    out: Boxes,
    info: DeviceInfo,
    parameters: Parameters,
    *,
    entry: str,
    size: IntArray,
    scalars: Mapping[str, Any],
) -> tuple[LaunchBatch, ...]:
    """Return moves and kernel; ``size`` counts work-items before they are rounded up to work-groups."""
    op, shape, x = node.op, graph.shape(node.output), node.inputs[0]
    assert isinstance(op, Conv2d)
    names, blocks = constant_names(node, op), parameters["BLOCKS"]
    in_blocks = -(-graph.shape(x)[1] // LANES)
    depth = op.kernel[0] * op.kernel[1] * LANES * in_blocks
    panel_begin, panel_end = _find_panels(out, parameters)
    panel_floats = LANES * blocks * (1 + depth)
    read = input_boxes(node, graph, out)[0]
    if node.residual == x:
        read = _hull(read, out)
    source = image_arg(x, graph.shape(x), read)
    residual = image_arg(node.residual, shape, out) if node.residual else source
    residual_floats = out.size if node.residual else 0
    group = (parameters["GROUP"], parameters["GROUP"], 1)
    items = spread(size.prod(axis=1), info.units)
    kernel = LaunchBatch(
        entry=entry,
        tensors=(image_arg(node.output, shape, out), source, residual),
        packed=(
            PackedArg(
                key=f"{names!r}/ohwi4/blocks{blocks}",
                pack=partial(_pack, names=names, blocks=blocks),
                panel_floats=panel_floats,
            ),
        ),
        panel_begin=panel_begin,
        panel_end=panel_end,
        global_size=round_up(size, group),
        local_size=group,
        scalars={
            **box_scalars(*kernel_box(out)),
            "panel_begin": panel_begin,
            "panels": np.maximum(panel_end - panel_begin, 1),
            **constants_like(out, in_blocks=in_blocks),
            **scalars,
            **epilogue_scalars(node.epilogue, out.count),
        },
        units={"steps": items * depth, "tiles": items},
        read_bytes=FLOAT_BYTES
        * np.asarray(read.size + (panel_end - panel_begin) * panel_floats + residual_floats, np.int64),
        written_bytes=FLOAT_BYTES * out.size,
        flops=2 * op.kernel[0] * op.kernel[1] * graph.shape(x)[1] * out.size,
    )
    moves = [move_to_image(x, graph.shape(x), read, info)]
    if node.residual and node.residual != x:
        moves.append(move_to_image(node.residual, shape, out, info))
    return (*moves, kernel, move_from_image(node.output, shape, out, info))


IMPLEMENTATIONS = (
    define_row(
        "conv2d",
        POINTWISE,
        _accept_pointwise,
        _describe_pointwise,
        other_sources=MOVES,
        allowed=_ALLOWED,
        fits=_fits,
    ),
    define_row(
        "conv2d", DIRECT, _accept, _describe_direct, other_sources=MOVES, allowed=_ALLOWED, fits=_fits
    ),
)

"""Rows for GPUs whose work-items take one or four channels of an output each: windows over images."""

from collections.abc import Mapping
from functools import partial
from itertools import chain

import numpy as np

from codl.catalog.epilogue import epilogue_scalars
from codl.catalog.groups import choose_assembly, make_row, takes_groups
from codl.catalog.register_tile import pack_panels
from codl.catalog.rows.boxes import (
    box_in,
    channel_dims,
    constants_like,
    is_plain,
    moved_bytes,
)
from codl.catalog.rows.lanes import LANES, launch_lanes
from codl.catalog.rows.resize import can_resize, pack_resize_taps
from codl.catalog.rows.windows import constant_names, has_constant_weights, window_scalars
from codl.catalog.spec import (
    LaunchBatch,
    PackedArg,
    Parameters,
    TensorArg,
    ceil_div,
    kernel_dims,
    plain_arg,
)
from codl.ir.graph import FloatArray, Graph, Node
from codl.ir.ops import (
    Conv2d,
    LocalResponseNorm,
    Pool2d,
    PoolKind,
    Resize2d,
    ResizeMode,
)
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo

DEPTHWISE, POOL = "depthwise_lanes__buffer", "pool2d_lanes__buffer"
RESPONSE, RESIZE = "response_norm_lanes__buffer", "resize2d_lanes__buffer"


def _accept_depthwise(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    op = node.op
    if not takes_groups(info) or not isinstance(op, Conv2d) or not has_constant_weights(node, graph):
        return None
    is_depthwise = op.groups == graph.shape(node.inputs[0])[1] == graph.shape(node.output)[1]
    return choose_assembly(info) if is_depthwise else None


def _pack_filters(constants: Mapping[str, FloatArray], *, names: tuple[str, ...]) -> FloatArray:
    """Return [ceil(C / 4), 1 + KH*KW, 4], the bias in row 0."""
    weight, *bias = (constants[name] for name in names)
    return pack_panels(weight.reshape(len(weight), -1), bias[0] if bias else None, groups=1, nr=LANES)


def _describe_depthwise(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    del parameters
    op, x = node.op, node.inputs[0]
    assert isinstance(op, Conv2d)
    taps, names = op.kernel[0] * op.kernel[1], constant_names(node, op)
    begin, extent = box_in(out, kernel_dims(4))
    panel_begin = begin[:, 3] // LANES
    batch = launch_lanes(
        DEPTHWISE,
        tuple(plain_arg(name, graph.shape(name)) for name in (node.output, x, node.residual or node.output)),
        (begin, extent),
        info,
        packed=(
            PackedArg(
                key=f"{names!r}/chw/lanes{LANES}",
                pack=partial(_pack_filters, names=names),
                panel_floats=(1 + taps) * LANES,
            ),
        ),
        panels=(panel_begin, ceil_div(begin[:, 3] + extent[:, 3], LANES)),
        scalars={
            "panel_begin": panel_begin,
            **window_scalars(node, graph, out),
            **epilogue_scalars(node.epilogue, out.count),
        },
        moved=moved_bytes(node, graph, out),
        work=2 * taps,
    )
    return (batch,)


def _accept_pool(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    del graph
    is_known = isinstance(node.op, Pool2d) and is_plain(node) and takes_groups(info)
    return choose_assembly(info) if is_known else None


def _describe_pool(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    del parameters
    op, x = node.op, graph.shape(node.inputs[0])
    assert isinstance(op, Pool2d)
    top, left, bottom, right = op.pads
    sizes = {
        "in_h": x[2],
        "in_w": x[3],
        "is_padding_counted": int(op.counts_padding),
        "padded_h": top + x[2] + bottom,
        "padded_w": left + x[3] + right,
    }
    pairs = (("kernel", op.kernel), ("stride", op.stride), ("dilation", op.dilation), ("pad", (top, left)))
    window = chain.from_iterable(((f"{name}_h", pair[0]), (f"{name}_w", pair[1])) for name, pair in pairs)
    batch = launch_lanes(
        POOL,
        tuple(plain_arg(name, graph.shape(name)) for name in (node.output, node.inputs[0])),
        box_in(out, kernel_dims(4)),
        info,
        scalars=constants_like(out, is_average=op.kind is PoolKind.AVERAGE, **sizes, **dict(window)),
        moved=moved_bytes(node, graph, out),
        work=op.kernel[0] * op.kernel[1],
    )
    return (batch,)


def _accept_response(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    if not isinstance(node.op, LocalResponseNorm) or not is_plain(node) or not takes_groups(info):
        return None
    return choose_assembly(info) if 2 <= len(graph.shape(node.output)) <= 4 else None


def _describe_response(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    del parameters
    op, shape = node.op, graph.shape(node.output)
    assert isinstance(op, LocalResponseNorm)
    dims, below = channel_dims(len(shape)), (op.size - 1) // 2
    numbers = {"bias": op.bias, "share": op.alpha / op.size, "power": op.beta}
    batch = launch_lanes(
        RESPONSE,
        tuple(
            TensorArg(name=name, dims=dims, origin=(0,) * len(shape))
            for name in (node.output, node.inputs[0])
        ),
        box_in(out, dims),
        info,
        scalars={
            **constants_like(out, channels=shape[1], below=below, above=op.size - 1 - below),
            **{name: np.full(out.count, value, np.float32) for name, value in numbers.items()},
        },
        moved=moved_bytes(node, graph, out),
        work=2 * op.size,
    )
    return (batch,)


def _accept_resize(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    is_known = takes_groups(info) and can_resize(node, graph)
    return choose_assembly(info) if is_known else None


def _describe_resize(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    del parameters
    op, shape = node.op, graph.shape(node.output)
    assert isinstance(op, Resize2d)
    is_linear = op.mode is ResizeMode.LINEAR
    batch = launch_lanes(
        RESIZE,
        tuple(plain_arg(name, graph.shape(name)) for name in (node.output, node.inputs[0])),
        box_in(out, kernel_dims(4)),
        info,
        packed=(pack_resize_taps(node, graph),),
        panels=(np.zeros(out.count, np.int64), np.ones(out.count, np.int64)),
        scalars=constants_like(out, out_height=shape[2], out_width=shape[3], is_linear=int(is_linear)),
        moved=moved_bytes(node, graph, out),
        work=4 if is_linear else 1,
    )
    return (batch,)


IMPLEMENTATIONS = (
    make_row("depthwise_conv2d", DEPTHWISE, _accept_depthwise, _describe_depthwise),
    make_row("pool2d", POOL, _accept_pool, _describe_pool),
    make_row("normalize", RESPONSE, _accept_response, _describe_response),
    make_row("resize", RESIZE, _accept_resize, _describe_resize),
)

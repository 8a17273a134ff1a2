"""Rows for GPUs whose work-items take one or four channels of an output each: pointwise, windows, sums."""

from collections.abc import Mapping
from functools import partial
from itertools import chain

import numpy as np

from codl.catalog.epilogue import epilogue_scalars
from codl.catalog.groups import GROUP, choose_assembly, make_row, size_grid, takes_groups
from codl.catalog.register_tile import pack_panels
from codl.catalog.rows.boxes import (
    box_in,
    channel_dims,
    constants_like,
    has_rank_up_to,
    has_residual,
    is_plain,
    moved_bytes,
)
from codl.catalog.rows.parts import Moving, Part, iterate_parts
from codl.catalog.rows.reshape import can_reshape, reshape_args, reshape_scalars
from codl.catalog.rows.resize import can_resize, pack_resize_taps
from codl.catalog.rows.windows import constant_names, has_constant_weights, window_scalars
from codl.catalog.spec import (
    KernelDims,
    LaunchBatch,
    PackedArg,
    Parameters,
    Scalar,
    TensorArg,
    broadcast_arg,
    ceil_div,
    kernel_dims,
    plain_arg,
    spread,
)
from codl.catalog.walking import POINTWISE_FUNCTIONS
from codl.ir.graph import NO_EPILOGUE, FloatArray, Graph, Node
from codl.ir.ops import (
    Affine,
    Binary,
    CombineRows,
    Conv2d,
    LocalResponseNorm,
    Normalize,
    Pool2d,
    PoolKind,
    Resize2d,
    ResizeMode,
    RowSum,
    Unary,
)
from codl.ir.regions import Boxes, IntArray
from codl.machine import DeviceInfo

LANES = 4
"""Channels that a work-item takes where it can."""
POINTWISE, DEPTHWISE = "pointwise_lanes__buffer", "depthwise_lanes__buffer"
POOL, SUM, RESHAPE = "pool2d_lanes__buffer", "sum_lanes__buffer", "reshape_lanes__buffer"
RESPONSE, RESIZE = "response_norm_lanes__buffer", "resize2d_lanes__buffer"
_MOST_ADDENDS = 16
"""Of a sum that one work-item adds up; several share longer ones (`codl/catalog/rows/lines.py`)."""
_OVER_ROWS: KernelDims = ((0, 1), (3, 1), (2, 1), (1, 1))
"""Kernel dimension w walks along the image's height."""


def box_scalars(begin: IntArray, extent: IntArray) -> dict[str, Scalar]:
    """Return first coordinates and lengths of boxes in kernel dimensions."""
    named: dict[str, Scalar] = {}
    for suffix, values in (("begin", begin), ("count", extent)):
        for place, letter in enumerate("nhwc"):
            named[f"{letter}_{suffix}"] = values[:, place]
    return named


def _launch(
    entry: str,
    tensors: tuple[TensorArg, ...],
    box: tuple[IntArray, IntArray],
    info: DeviceInfo,
    *,
    scalars: Mapping[str, Scalar],
    moved: tuple[IntArray, IntArray],
    work: int = 1,
    packed: tuple[PackedArg, ...] = (),
    panels: tuple[IntArray, IntArray] | None = None,
) -> LaunchBatch:
    """Return the launch of a kernel over boxes, (begin, extent), that takes ``work`` steps for an element."""
    begin, extent = box
    size = extent.prod(axis=1)
    places = ceil_div(ceil_div(size, LANES), GROUP)
    busiest = spread(places, info.units)
    return LaunchBatch(
        entry=entry,
        tensors=tensors,
        packed=packed,
        panel_begin=None if panels is None else panels[0],
        panel_end=None if panels is None else panels[1],
        global_size=size_grid(places),
        local_size=(GROUP, 1, 1),
        scalars={**box_scalars(begin, extent), **scalars},
        units={"items": busiest, "vectors": busiest * GROUP * work},
        read_bytes=moved[0],
        written_bytes=moved[1],
        flops=size * work,
    )


def _accept_pointwise(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    op = node.op
    if not takes_groups(info) or not has_rank_up_to(4, node, graph):
        return None
    if isinstance(op, Moving):
        return choose_assembly(info) if is_plain(node) else None
    if isinstance(op, Affine) and any(len(graph.shape(name)) != 1 for name in node.inputs[1:3]):
        return None
    is_known = isinstance(op, Binary | Normalize) or (
        isinstance(op, Unary | Affine) and not has_residual(node)
    )
    return choose_assembly(info) if is_known else None


def _describe_pointwise(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    del parameters
    op, shape = node.op, graph.shape(node.output)
    if isinstance(op, Moving):
        return tuple(_copy_part(part, info) for part in iterate_parts(op, node, graph, out))
    dims = kernel_dims(len(shape))
    target = plain_arg(node.output, shape)
    first, second, third = plain_arg(node.inputs[0], shape), target, target
    function = "COPY"
    if isinstance(op, Binary):
        first, second = (broadcast_arg(name, graph.shape(name), len(shape)) for name in node.inputs[:2])
        function = op.kind.name
    elif isinstance(op, Affine):
        dims, origin, function = channel_dims(len(shape)), (0,) * len(shape), "AFFINE"
        target, first = (
            TensorArg(name=name, dims=dims, origin=origin) for name in (node.output, node.inputs[0])
        )
        second, third = (plain_arg(name, graph.shape(name)) for name in node.inputs[1:3])
    elif isinstance(op, Normalize):
        function, factors = "AFFINE", node.inputs[1]
        second, third = (
            TensorArg(name=factors, dims=((0, 1), None, None, (1, 1)), origin=(0, 0, 0, place))
            for place in (0, 1)
        )
    residual = plain_arg(node.residual, shape) if node.residual else target
    batch = _launch(
        POINTWISE,
        (target, first, second, third, residual),
        box_in(out, dims),
        info,
        scalars={
            **constants_like(out, function=POINTWISE_FUNCTIONS.index(function)),
            **epilogue_scalars(node.epilogue, out.count),
        },
        moved=moved_bytes(node, graph, out),
    )
    return (batch,)


def _copy_part(part: Part, info: DeviceInfo) -> LaunchBatch:
    """Return the launch of one copy; an empty box is an empty launch."""
    moved = part.boxes.size * 4
    return _launch(
        POINTWISE,
        (part.dst, part.src, part.dst, part.dst, part.dst),
        box_in(part.boxes, part.dims),
        info,
        scalars={
            **constants_like(part.boxes, function=POINTWISE_FUNCTIONS.index("COPY")),
            **epilogue_scalars(NO_EPILOGUE, part.boxes.count),
        },
        moved=(moved, moved),
    )


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
    batch = _launch(
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
    batch = _launch(
        POOL,
        tuple(plain_arg(name, graph.shape(name)) for name in (node.output, node.inputs[0])),
        box_in(out, kernel_dims(4)),
        info,
        scalars=constants_like(out, is_average=op.kind is PoolKind.AVERAGE, **sizes, **dict(window)),
        moved=moved_bytes(node, graph, out),
        work=op.kernel[0] * op.kernel[1],
    )
    return (batch,)


def _accept_sum(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    is_known = isinstance(node.op, RowSum | CombineRows) and not has_residual(node) and takes_groups(info)
    if not is_known:
        return None
    x = graph.shape(node.inputs[0])
    length = x[3] if isinstance(node.op, RowSum) else x[2]
    return choose_assembly(info) if length <= _MOST_ADDENDS else None


def _describe_sum(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    del parameters
    x, dims, scale = graph.shape(node.inputs[0]), kernel_dims(4), 1.0
    length = x[3]
    if isinstance(node.op, CombineRows):
        dims, length, scale = _OVER_ROWS, x[2], node.op.scale
    batch = _launch(
        SUM,
        tuple(TensorArg(name=name, dims=dims, origin=(0,) * 4) for name in (node.output, node.inputs[0])),
        box_in(out, dims),
        info,
        scalars={
            **constants_like(out, length=length),
            "scale": np.full(out.count, scale, np.float32),
            **epilogue_scalars(node.epilogue, out.count),
        },
        moved=moved_bytes(node, graph, out),
        work=length,
    )
    return (batch,)


def _accept_reshape(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    is_known = takes_groups(info) and can_reshape(node, graph)
    return choose_assembly(info) if is_known else None


def _describe_reshape(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    del parameters
    target, source = reshape_args(node, graph)
    _, written = moved_bytes(node, graph, out)
    scalars = reshape_scalars(node, graph, out)
    box = box_in(out, target.dims)
    return (_launch(RESHAPE, (target, source), box, info, scalars=scalars, moved=(written, written)),)


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
    batch = _launch(
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
    batch = _launch(
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
    make_row("elementwise", POINTWISE, _accept_pointwise, _describe_pointwise),
    make_row("pool2d", POOL, _accept_pool, _describe_pool),
    make_row("reduce", SUM, _accept_sum, _describe_sum),
    make_row("layout", RESHAPE, _accept_reshape, _describe_reshape),
    make_row("normalize", RESPONSE, _accept_response, _describe_response),
    make_row("resize", RESIZE, _accept_resize, _describe_resize),
)

"""Rows for GPUs whose work-items take one or four channels of an output each: pointwise, reshapes, sums."""

from collections.abc import Mapping

import numpy as np

from codl.catalog.epilogue import epilogue_scalars
from codl.catalog.groups import GROUP, choose_assembly, make_row, size_grid, takes_groups
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
from codl.ir.graph import NO_EPILOGUE, Graph, Node
from codl.ir.ops import (
    Affine,
    Binary,
    CombineRows,
    Normalize,
    RowSum,
    Unary,
)
from codl.ir.regions import Boxes, IntArray
from codl.machine import DeviceInfo

LANES = 4
"""Channels that a work-item takes where it can."""
POINTWISE, SUM, RESHAPE = "pointwise_lanes__buffer", "sum_lanes__buffer", "reshape_lanes__buffer"
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


def launch_lanes(
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
    batch = launch_lanes(
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
    return launch_lanes(
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
    batch = launch_lanes(
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
    return (launch_lanes(RESHAPE, (target, source), box, info, scalars=scalars, moved=(written, written)),)


IMPLEMENTATIONS = (
    make_row("elementwise", POINTWISE, _accept_pointwise, _describe_pointwise),
    make_row("reduce", SUM, _accept_sum, _describe_sum),
    make_row("layout", RESHAPE, _accept_reshape, _describe_reshape),
)

"""Rows for normalizations: of instances in three nodes, of layers, and over neighbouring channels."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from codl.catalog.epilogue import epilogue_scalars
from codl.catalog.rows.boxes import (
    LANES,
    BoxLaunch,
    channel_dims,
    column_dims,
    constants_like,
    has_rank_up_to,
    has_residual,
    innermost_axis,
    innermost_length,
    is_plain,
    lanes_for,
    moved_bytes,
    share_box,
    share_columns,
    share_lines,
)
from codl.catalog.spec import (
    Batches,
    KernelDims,
    Parameters,
    Scalar,
    TensorArg,
    define_row,
    kernel_dims,
    plain_arg,
)
from codl.ir.graph import Graph, Node
from codl.ir.ops import CombineMoments, LayerNorm, LocalResponseNorm, Normalize, Op, RowMoments
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo

ROWS, COMBINE = "moments_rows__buffer", "moments_combine__buffer"
NORMALIZE, RESPONSE = "normalize_channels__buffer", "response_norm_window__buffer"
LAYER = "layer_norm__buffer"
_MOMENT_PASSES = 2
_POWER_WORK = 20
"""A power costs about as much as this many plain elements."""


def _accepts_channels(node: Node, graph: Graph, info: DeviceInfo, *, kind: type[Op]) -> Parameters | None:
    """Return the parameters of rows over images whose work-items walk along channels."""
    is_known = isinstance(node.op, kind) and (kind is Normalize or is_plain(node))
    return lanes_for(info, graph.shape(node.output)[1]) if is_known else None


def _describe_rows(node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters) -> Batches:
    width = graph.shape(node.inputs[0])[3]
    work = _MOMENT_PASSES * width
    return _describe(
        ROWS,
        node,
        graph,
        out,
        _share_pairs(out, info, work=work),
        operands=[plain_arg(name, graph.shape(name)) for name in node.inputs],
        scalars=constants_like(out, width=width),
        info=info,
        parameters=parameters,
        work=work,
    )


def _describe_combine(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> Batches:
    op, height = node.op, graph.shape(node.inputs[0])[2]
    assert isinstance(op, CombineMoments)
    work = _MOMENT_PASSES * height
    return _describe(
        COMBINE,
        node,
        graph,
        out,
        _share_pairs(out, info, work=work),
        operands=[plain_arg(name, graph.shape(name)) for name in node.inputs],
        scalars={
            **constants_like(out, height=height),
            **_numbers(out, length=op.row_length, epsilon=op.epsilon),
        },
        info=info,
        parameters=parameters,
        work=work,
    )


def _share_pairs(out: Boxes, info: DeviceInfo, *, work: int) -> BoxLaunch:
    """Return a launch whose work-items take both of a pair: moments, or factor and summand."""
    return share_columns(out, kernel_dims(4), 3, info, work=work)


def _describe_normalize(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> Batches:
    shape = graph.shape(node.output)
    x, factors = node.inputs[:2]
    pair = TensorArg(name=factors, dims=((0, 1), None, (3, 1), (1, 1)), origin=(0, 0, 0, 0))
    return _describe(
        NORMALIZE,
        node,
        graph,
        out,
        share_box(out, kernel_dims(4), info),
        operands=[plain_arg(x, shape), pair, plain_arg(node.residual or node.output, shape)],
        scalars=epilogue_scalars(node.epilogue, out.count),
        info=info,
        parameters=parameters,
        work=2 if has_residual(node) else 1,
    )


def _accepts_layer(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    if not isinstance(node.op, LayerNorm) or not is_plain(node) or not has_rank_up_to(4, node, graph):
        return None
    return lanes_for(info, innermost_length(graph.shape(node.output)))


def _describe_layer(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> Batches:
    op, shape = node.op, graph.shape(node.output)
    assert isinstance(op, LayerNorm)
    rank, length = len(shape), shape[op.axis]
    is_innermost, steps = op.axis == innermost_axis(rank), (_MOMENT_PASSES + 1) * length
    dims = kernel_dims(rank) if is_innermost else column_dims(rank, op.axis)
    if is_innermost:
        launch = share_lines(out, dims, info, work=steps)
    else:
        launch = share_columns(out, dims, op.axis, info, work=steps)
    x, *weights = node.inputs
    along: KernelDims = (None, None, None, (0, 1))
    return _describe(
        LAYER,
        node,
        graph,
        out,
        launch,
        operands=[
            TensorArg(name=x, dims=dims, origin=(0,) * rank),
            *(TensorArg(name=name, dims=along, origin=(0,)) for name in (weights[0], weights[-1])),
        ],
        target=TensorArg(name=node.output, dims=dims, origin=(0,) * rank),
        scalars={
            **constants_like(out, is_innermost=is_innermost, length=length, has_shift=op.has_shift),
            **_numbers(out, epsilon=op.epsilon),
        },
        info=info,
        parameters=parameters,
        work=_MOMENT_PASSES + 1,
    )


def _accepts_response(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    if not isinstance(node.op, LocalResponseNorm) or not is_plain(node):
        return None
    shape = graph.shape(node.output)
    return lanes_for(info, shape[1]) if 2 <= len(shape) <= 4 else None


def _describe_response(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> Batches:
    op, shape = node.op, graph.shape(node.output)
    assert isinstance(op, LocalResponseNorm)
    dims, origin = channel_dims(len(shape)), (0,) * len(shape)
    below, work = (op.size - 1) // 2, op.size + _POWER_WORK
    return _describe(
        RESPONSE,
        node,
        graph,
        out,
        share_box(out, dims, info, work=work),
        operands=[TensorArg(name=node.inputs[0], dims=dims, origin=origin)],
        target=TensorArg(name=node.output, dims=dims, origin=origin),
        scalars={
            **constants_like(out, channels=shape[1], below=below, above=op.size - 1 - below),
            **_numbers(out, bias=op.bias, share=op.alpha / op.size, power=op.beta),
        },
        info=info,
        parameters=parameters,
        work=work,
    )


def _numbers(out: Boxes, **values: float) -> dict[str, Scalar]:
    """Return float scalars that are equal for all candidates."""
    return {name: np.full(out.count, value, np.float32) for name, value in values.items()}


def _describe(
    entry: str,
    node: Node,
    graph: Graph,
    out: Boxes,
    launch: BoxLaunch,
    *,
    operands: Sequence[TensorArg],
    target: TensorArg | None = None,
    scalars: dict[str, Scalar],
    info: DeviceInfo,
    parameters: Parameters,
    work: int,
) -> Batches:
    """Return the launch of a kernel that walks the output's boxes with ``work`` steps for each element."""
    return launch.describe(
        entry,
        (target or plain_arg(node.output, graph.shape(node.output)), *operands),
        info,
        moved=moved_bytes(node, graph, out),
        lanes=parameters["VECTOR"],
        scalars=scalars,
        work=work,
        flops=np.asarray(2 * work * out.size),
    )


IMPLEMENTATIONS = tuple(
    define_row("normalize", name, accepts, describe, allowed={"VECTOR": LANES})
    for name, accepts, describe in (
        (ROWS, partial(_accepts_channels, kind=RowMoments), _describe_rows),
        (COMBINE, partial(_accepts_channels, kind=CombineMoments), _describe_combine),
        (NORMALIZE, partial(_accepts_channels, kind=Normalize), _describe_normalize),
        (LAYER, _accepts_layer, _describe_layer),
        (RESPONSE, _accepts_response, _describe_response),
    )
)

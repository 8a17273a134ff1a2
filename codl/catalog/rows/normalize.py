"""Rows for normalizations: of instances in three nodes, of layers, and over neighbouring channels."""

from collections.abc import Sequence

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
    Implementation,
    LaunchBatch,
    Parameters,
    Scalar,
    TensorArg,
    kernel_dims,
    plain_arg,
)
from codl.ir.graph import Graph, Node
from codl.ir.ops import CombineMoments, LayerNorm, LocalResponseNorm, Normalize, RowMoments
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo

ROWS, COMBINE = "moments_rows__buffer", "moments_combine__buffer"
NORMALIZE, RESPONSE = "normalize_channels__buffer", "response_norm_window__buffer"
LAYER = "layer_norm__buffer"
_MOMENT_PASSES = 2
_POWER_WORK = 20
"""A power costs about as much as this many plain elements."""


def _accepts_rows(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    is_known = isinstance(node.op, RowMoments) and is_plain(node)
    return lanes_for(info, graph.shape(node.output)[1]) if is_known else None


def _describe_rows(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    _, _, _, width = graph.shape(node.inputs[0])
    work = _MOMENT_PASSES * width
    return (
        _batch(
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
        ),
    )


def _accepts_combine(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    is_known = isinstance(node.op, CombineMoments) and is_plain(node)
    return lanes_for(info, graph.shape(node.output)[1]) if is_known else None


def _describe_combine(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    op = node.op
    assert isinstance(op, CombineMoments)
    _, _, height, _ = graph.shape(node.inputs[0])
    work = _MOMENT_PASSES * height
    return (
        _batch(
            COMBINE,
            node,
            graph,
            out,
            _share_pairs(out, info, work=work),
            operands=[plain_arg(name, graph.shape(name)) for name in node.inputs],
            scalars={
                **constants_like(out, height=height),
                "length": np.full(out.count, op.row_length, np.float32),
                "epsilon": np.full(out.count, op.epsilon, np.float32),
            },
            info=info,
            parameters=parameters,
            work=work,
        ),
    )


def _share_pairs(out: Boxes, info: DeviceInfo, *, work: int) -> BoxLaunch:
    """Return a launch whose work-items take both of a pair: moments, or factor and summand."""
    return share_columns(out, kernel_dims(4), 3, info, work=work)


def _accepts_normalize(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    return lanes_for(info, graph.shape(node.output)[1]) if isinstance(node.op, Normalize) else None


def _describe_normalize(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    shape = graph.shape(node.output)
    x, factors = node.inputs[:2]
    pair = TensorArg(name=factors, dims=((0, 1), None, (3, 1), (1, 1)), origin=(0, 0, 0, 0))
    return (
        _batch(
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
        ),
    )


def _accepts_layer(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    if not isinstance(node.op, LayerNorm) or not is_plain(node) or not has_rank_up_to(4, node, graph):
        return None
    return lanes_for(info, innermost_length(graph.shape(node.output)))


def _describe_layer(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
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
    along = ((None, None, None, (0, 1)), (0,))
    return (
        _batch(
            LAYER,
            node,
            graph,
            out,
            launch,
            operands=[
                TensorArg(name=x, dims=dims, origin=(0,) * rank),
                *(TensorArg(name=name, dims=along[0], origin=along[1]) for name in (weights[0], weights[-1])),
            ],
            target=TensorArg(name=node.output, dims=dims, origin=(0,) * rank),
            scalars={
                **constants_like(out, is_innermost=is_innermost, length=length, has_shift=op.has_shift),
                "epsilon": np.full(out.count, op.epsilon, np.float32),
            },
            info=info,
            parameters=parameters,
            work=_MOMENT_PASSES + 1,
        ),
    )


def _accepts_response(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    if not isinstance(node.op, LocalResponseNorm) or not is_plain(node):
        return None
    shape = graph.shape(node.output)
    return lanes_for(info, shape[1]) if 2 <= len(shape) <= 4 else None


def _describe_response(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    op, shape = node.op, graph.shape(node.output)
    assert isinstance(op, LocalResponseNorm)
    dims = channel_dims(len(shape))
    below = (op.size - 1) // 2
    work = op.size + _POWER_WORK
    numbers = {"bias": op.bias, "share": op.alpha / op.size, "power": op.beta}
    origin = (0,) * len(shape)
    return (
        _batch(
            RESPONSE,
            node,
            graph,
            out,
            share_box(out, dims, info, work=work),
            operands=[TensorArg(name=node.inputs[0], dims=dims, origin=origin)],
            target=TensorArg(name=node.output, dims=dims, origin=origin),
            scalars={
                **constants_like(out, channels=shape[1], below=below, above=op.size - 1 - below),
                **{name: np.full(out.count, value, np.float32) for name, value in numbers.items()},
            },
            info=info,
            parameters=parameters,
            work=work,
        ),
    )


def _batch(
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
) -> LaunchBatch:
    """Return the launch of a kernel that walks the output's boxes with ``work`` steps for each element."""
    read, written = moved_bytes(node, graph, out)
    return LaunchBatch(
        entry=entry,
        tensors=(target or plain_arg(node.output, graph.shape(node.output)), *operands),
        global_size=launch.global_size,
        scalars={**launch.scalars, **scalars},
        units=launch.units(info, parameters["VECTOR"], work),
        read_bytes=read,
        written_bytes=written,
        flops=np.asarray(2 * work * out.size),
    )


IMPLEMENTATIONS = tuple(
    Implementation(
        name=name,
        source=f"normalize/{name}.cl",
        allowed={"VECTOR": LANES},
        accepts=accepts,
        describe=describe,
    )
    for name, accepts, describe in (
        (ROWS, _accepts_rows, _describe_rows),
        (COMBINE, _accepts_combine, _describe_combine),
        (NORMALIZE, _accepts_normalize, _describe_normalize),
        (LAYER, _accepts_layer, _describe_layer),
        (RESPONSE, _accepts_response, _describe_response),
    )
)

"""Rows for means: the two halves of global average pooling by one kernel, and ReduceMean over any axes."""

from math import prod

import numpy as np

from codl.catalog.epilogue import epilogue_scalars
from codl.catalog.rows.boxes import (
    LANES,
    constants_like,
    has_rank_up_to,
    has_residual,
    innermost_length,
    lanes_for,
    moved_bytes,
    share_box,
)
from codl.catalog.spec import (
    Implementation,
    KernelDims,
    LaunchBatch,
    Parameters,
    TensorArg,
    kernel_dims,
    plain_arg,
)
from codl.ir.graph import Graph, Node
from codl.ir.ops import CombineRows, ReduceMean, RowSum
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo

SUM, MEAN = "reduce_axis_sum__buffer", "reduce_mean__buffer"
_OVER_ROWS: KernelDims = ((0, 1), (3, 1), (2, 1), (1, 1))
"""Kernel dimension w walks along the image's height."""


def _accepts_sum(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    if not isinstance(node.op, RowSum | CombineRows) or has_residual(node):
        return None
    return lanes_for(info, graph.shape(node.output)[1])


def _describe_sum(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    x = graph.shape(node.inputs[0])
    if isinstance(node.op, CombineRows):
        dims, length, scale = _OVER_ROWS, x[2], node.op.scale
    else:
        dims, length, scale = kernel_dims(4), x[3], 1.0
    launch = share_box(out, dims, info, work=length)
    read, written = moved_bytes(node, graph, out)
    batch = LaunchBatch(
        entry=SUM,
        tensors=tuple(
            TensorArg(name=name, dims=dims, origin=(0, 0, 0, 0)) for name in (node.output, node.inputs[0])
        ),
        global_size=launch.global_size,
        scalars={
            **launch.scalars,
            **constants_like(out, width=length),
            "scale": np.full(out.count, scale, np.float32),
            **epilogue_scalars(node.epilogue, out.count),
        },
        units=launch.units(info, parameters["VECTOR"], length),
        read_bytes=read,
        written_bytes=written,
        flops=np.asarray(out.size * length),
    )
    return (batch,)


def _accepts_mean(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    if not isinstance(node.op, ReduceMean) or has_residual(node) or not has_rank_up_to(4, node, graph):
        return None
    return lanes_for(info, innermost_length(graph.shape(node.inputs[0])))


def _describe_mean(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    op, x = node.op, graph.shape(node.inputs[0])
    assert isinstance(op, ReduceMean)
    dims = kernel_dims(len(x))
    lengths = [x[entry[0]] if entry is not None and entry[0] in op.axes else 1 for entry in dims]
    addends, inner = prod(lengths), dims[3]
    launch = share_box(out, dims, info, work=addends)
    read, written = moved_bytes(node, graph, out)
    batch = LaunchBatch(
        entry=MEAN,
        tensors=(plain_arg(node.output, graph.shape(node.output)), plain_arg(node.inputs[0], x)),
        global_size=launch.global_size,
        scalars={
            **launch.scalars,
            **constants_like(
                out, **{f"length_{letter}": n for letter, n in zip("nhwc", lengths, strict=True)}
            ),
            **constants_like(out, is_inner=int(inner is not None and inner[0] in op.axes)),
            "scale": np.full(out.count, 1 / addends, np.float32),
            **epilogue_scalars(node.epilogue, out.count),
        },
        units=launch.units(info, parameters["VECTOR"], addends),
        read_bytes=read,
        written_bytes=written,
        flops=np.asarray(out.size * addends),
    )
    return (batch,)


IMPLEMENTATIONS = tuple(
    Implementation(
        name=name,
        source=f"reduce/{name}.cl",
        allowed={"VECTOR": LANES},
        accepts=accepts,
        describe=describe,
    )
    for name, accepts, describe in ((SUM, _accepts_sum, _describe_sum), (MEAN, _accepts_mean, _describe_mean))
)

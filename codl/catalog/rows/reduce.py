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
from codl.catalog.spec import Batches, KernelDims, Parameters, TensorArg, define_row, kernel_dims, plain_arg
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


def _describe_sum(node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters) -> Batches:
    x = graph.shape(node.inputs[0])
    if isinstance(node.op, CombineRows):
        dims, length, scale = _OVER_ROWS, x[2], node.op.scale
    else:
        dims, length, scale = kernel_dims(4), x[3], 1.0
    return share_box(out, dims, info, work=length).describe(
        SUM,
        tuple(TensorArg(name=name, dims=dims, origin=(0,) * 4) for name in (node.output, node.inputs[0])),
        info,
        moved=moved_bytes(node, graph, out),
        lanes=parameters["VECTOR"],
        scalars={
            **constants_like(out, width=length),
            "scale": np.full(out.count, scale, np.float32),
            **epilogue_scalars(node.epilogue, out.count),
        },
        work=length,
        flops=np.asarray(out.size * length),
    )


def _accepts_mean(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    if not isinstance(node.op, ReduceMean) or has_residual(node) or not has_rank_up_to(4, node, graph):
        return None
    return lanes_for(info, innermost_length(graph.shape(node.inputs[0])))


def _describe_mean(node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters) -> Batches:
    op, x = node.op, graph.shape(node.inputs[0])
    assert isinstance(op, ReduceMean)
    dims = kernel_dims(len(x))
    lengths = [x[entry[0]] if entry is not None and entry[0] in op.axes else 1 for entry in dims]
    addends, inner = prod(lengths), dims[3]
    sizes = {f"length_{letter}": length for letter, length in zip("nhwc", lengths, strict=True)}
    return share_box(out, dims, info, work=addends).describe(
        MEAN,
        (plain_arg(node.output, graph.shape(node.output)), plain_arg(node.inputs[0], x)),
        info,
        moved=moved_bytes(node, graph, out),
        lanes=parameters["VECTOR"],
        scalars={
            **constants_like(out, **sizes, is_inner=int(inner is not None and inner[0] in op.axes)),
            "scale": np.full(out.count, 1 / addends, np.float32),
            **epilogue_scalars(node.epilogue, out.count),
        },
        work=addends,
        flops=np.asarray(out.size * addends),
    )


IMPLEMENTATIONS = tuple(
    define_row("reduce", name, accepts, describe, allowed={"VECTOR": LANES})
    for name, accepts, describe in ((SUM, _accepts_sum, _describe_sum), (MEAN, _accepts_mean, _describe_mean))
)

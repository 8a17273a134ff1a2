"""Rows for the two halves of global average pooling; one kernel computes both."""

import numpy as np

from codl.catalog.epilogue import epilogue_scalars
from codl.catalog.rows.boxes import (
    LANES,
    constants_like,
    has_residual,
    lanes_for,
    moved_bytes,
    share_box,
)
from codl.catalog.spec import Implementation, KernelDims, LaunchBatch, Parameters, TensorArg, kernel_dims
from codl.ir.graph import Graph, Node
from codl.ir.ops import CombineRows, RowSum
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo

_OVER_ROWS: KernelDims = ((0, 1), (3, 1), (2, 1), (1, 1))
"""Kernel dimension w walks along the image's height."""


def _accepts(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    if not isinstance(node.op, RowSum | CombineRows) or has_residual(node):
        return None
    return lanes_for(info, graph.shape(node.output)[1])


def _describe(
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
        entry=IMPLEMENTATIONS[0].name,
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


IMPLEMENTATIONS = (
    Implementation(
        name="reduce_axis_sum__buffer",
        source="reduce/reduce_axis_sum__buffer.cl",
        allowed={"VECTOR": LANES},
        accepts=_accepts,
        describe=_describe,
    ),
)

"""Rows for pooling over windows."""

import numpy as np

from codl.catalog.rows.boxes import LANES, constants_like, is_plain, lanes_for, moved_bytes, share_box
from codl.catalog.spec import Implementation, LaunchBatch, Parameters, kernel_dims, plain_arg
from codl.ir.graph import Graph, Node
from codl.ir.ops import Pool2d, PoolKind
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo


def _accepts(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    if not isinstance(node.op, Pool2d) or not is_plain(node):
        return None
    return {**lanes_for(info, graph.shape(node.output)[1]), "AVERAGE": int(node.op.kind is PoolKind.AVERAGE)}


def _describe(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    op, x, shape = node.op, graph.shape(node.inputs[0]), graph.shape(node.output)
    assert isinstance(op, Pool2d)
    top, left, bottom, right = op.pads
    taps = op.kernel[0] * op.kernel[1]
    launch = share_box(out, kernel_dims(4), info, work=taps)
    read, written = moved_bytes(node, graph, out)
    batch = LaunchBatch(
        entry=IMPLEMENTATIONS[0].name,
        tensors=(plain_arg(node.output, shape), plain_arg(node.inputs[0], x)),
        global_size=launch.global_size,
        scalars={
            **launch.scalars,
            **constants_like(
                out,
                height=x[2],
                width=x[3],
                is_padding_counted=int(op.counts_padding),
                padded_height=top + x[2] + bottom,
                padded_width=left + x[3] + right,
                kernel_height=op.kernel[0],
                kernel_width=op.kernel[1],
                stride_height=op.stride[0],
                stride_width=op.stride[1],
                dilation_height=op.dilation[0],
                dilation_width=op.dilation[1],
                pad_top=top,
                pad_left=left,
            ),
        },
        units=launch.units(info, parameters["VECTOR"], taps),
        read_bytes=read,
        written_bytes=written,
        flops=np.asarray(out.size * taps),
    )
    return (batch,)


IMPLEMENTATIONS = (
    Implementation(
        name="pool2d_direct__buffer",
        source="pool2d/pool2d_direct__buffer.cl",
        allowed={"VECTOR": LANES, "AVERAGE": (0, 1)},
        accepts=_accepts,
        describe=_describe,
        stacks=True,
    ),
)

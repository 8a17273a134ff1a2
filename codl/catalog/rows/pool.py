"""Rows for pooling over windows."""

import numpy as np

from codl.catalog.rows.boxes import LANES, constants_like, is_plain, lanes_for, moved_bytes, share_box
from codl.catalog.spec import Batches, Parameters, define_row, kernel_dims, plain_arg
from codl.ir.graph import Graph, Node
from codl.ir.ops import Pool2d, PoolKind
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo

POOL = "pool2d_direct__buffer"


def _accepts(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    if not isinstance(node.op, Pool2d) or not is_plain(node):
        return None
    return {**lanes_for(info, graph.shape(node.output)[1]), "AVERAGE": int(node.op.kind is PoolKind.AVERAGE)}


def _describe(node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters) -> Batches:
    op, x, shape = node.op, graph.shape(node.inputs[0]), graph.shape(node.output)
    assert isinstance(op, Pool2d)
    top, left, bottom, right = op.pads
    taps = op.kernel[0] * op.kernel[1]
    return share_box(out, kernel_dims(4), info, work=taps).describe(
        POOL,
        (plain_arg(node.output, shape), plain_arg(node.inputs[0], x)),
        info,
        moved=moved_bytes(node, graph, out),
        lanes=parameters["VECTOR"],
        scalars=constants_like(
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
        work=taps,
        flops=np.asarray(out.size * taps),
    )


_ALLOWED = {"VECTOR": LANES, "AVERAGE": (0, 1)}
IMPLEMENTATIONS = (define_row("pool2d", POOL, _accepts, _describe, allowed=_ALLOWED, stacks=True),)

"""The row for Resize2d: what each row and column is made of comes as a small table."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from codl.catalog.rows.boxes import LANES, constants_like, is_plain, lanes_for, moved_bytes, share_box
from codl.catalog.spec import Batches, PackedArg, Parameters, define_row, kernel_dims, plain_arg
from codl.ir.graph import FloatArray, Graph, Node, Shape
from codl.ir.ops import Resize2d, ResizeMode
from codl.ir.ops.resizing import MOST_POSITIONS, find_taps
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo

RESIZE = "resize2d_taps__buffer"
_LINEAR_WORK = 4
"""Elements that a blend reads."""


def can_resize(node: Node, graph: Graph) -> bool:
    """Return whether a node is a Resize2d of an image whose positions are exact in float32."""
    is_known = isinstance(node.op, Resize2d) and is_plain(node)
    return is_known and max(graph.shape(node.inputs[0])[2:]) < MOST_POSITIONS


def _accepts(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    return lanes_for(info, graph.shape(node.output)[1]) if can_resize(node, graph) else None


def _pack_taps(
    constants: Mapping[str, FloatArray], *, op: Resize2d, image: Shape, out_image: Shape
) -> FloatArray:
    """Return [1, 3, OH + OW]: low, high, weight of high, of each output row and then of each column."""
    sides = [find_taps(op, axis=axis, length=image[axis], out_length=out_image[axis]) for axis in range(2)]
    table = [
        np.concatenate(column)
        for column in zip(*((taps.low, taps.high, taps.weight) for taps in sides), strict=True)
    ]
    return np.array([table], np.float32)


def pack_resize_taps(node: Node, graph: Graph) -> PackedArg:
    """Return which elements of the input each row and column of the output blends."""
    op, image, out_image = node.op, graph.shape(node.inputs[0])[2:], graph.shape(node.output)[2:]
    assert isinstance(op, Resize2d)
    return PackedArg(
        key=f"taps/{op}/{image}/{out_image}",
        pack=partial(_pack_taps, op=op, image=image, out_image=out_image),
        panel_floats=3 * sum(out_image),
    )


def _describe(node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters) -> Batches:
    op, x, shape = node.op, graph.shape(node.inputs[0]), graph.shape(node.output)
    assert isinstance(op, Resize2d)
    is_linear = op.mode is ResizeMode.LINEAR
    work = _LINEAR_WORK if is_linear else 1
    return share_box(out, kernel_dims(4), info, work=work).describe(
        RESIZE,
        (plain_arg(node.output, shape), plain_arg(node.inputs[0], x)),
        info,
        packed=(pack_resize_taps(node, graph),),
        panel_begin=np.zeros(out.count, np.int64),
        panel_end=np.ones(out.count, np.int64),
        moved=moved_bytes(node, graph, out),
        lanes=parameters["VECTOR"],
        scalars=constants_like(out, out_height=shape[2], out_width=shape[3], is_linear=int(is_linear)),
        work=work,
        flops=np.asarray(out.size * (6 if is_linear else 0)),
    )


IMPLEMENTATIONS = (define_row("resize", RESIZE, _accepts, _describe, allowed={"VECTOR": LANES}),)

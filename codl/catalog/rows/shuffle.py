"""The row for channel shuffles of the usual numbers of groups; others are copies of boxes."""

from codl.catalog.rows.boxes import constants_like, is_plain, share_box
from codl.catalog.spec import Batches, Parameters, define_row, kernel_dims, plain_arg
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.ops import ChannelShuffle
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo

SHUFFLE = "layout_shuffle__buffer"
_GROUPS = (2, 3, 4, 8)
TURNED = 4
"""Channels of each group that the kernel turns at once."""


def _accepts(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    op = node.op
    if not isinstance(op, ChannelShuffle) or not is_plain(node) or len(graph.shape(node.output)) != 4:
        return None
    return {"GROUPS": op.groups} if op.groups in _GROUPS else None


def _describe(node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters) -> Batches:
    shape, moved = graph.shape(node.output), out.size * FLOAT_BYTES
    return share_box(out, kernel_dims(4), info).describe(
        SHUFFLE,
        (plain_arg(node.output, shape), plain_arg(node.inputs[0], shape)),
        info,
        moved=(moved, moved),
        lanes=TURNED,
        scalars=constants_like(out, size=shape[1] // parameters["GROUPS"]),
    )


IMPLEMENTATIONS = (define_row("layout", SHUFFLE, _accepts, _describe, allowed={"GROUPS": _GROUPS}),)

"""The row for Pad: a tensor between elements that are constant or repeat it."""

import numpy as np

from codl.catalog.rows.boxes import constants_like, has_rank_up_to, is_plain, moved_bytes, share_box
from codl.catalog.spec import Batches, Parameters, Scalar, define_row, kernel_dims, plain_arg
from codl.ir.graph import Graph, Node
from codl.ir.ops import Pad, PadMode
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo

PAD = "layout_pad__buffer"
_MODES = {PadMode.CONSTANT: 0, PadMode.REFLECT: 1, PadMode.EDGE: 2}
_LANES = 8
"""VECTOR of the kernel."""


def _accepts(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    is_known = isinstance(node.op, Pad) and is_plain(node) and has_rank_up_to(4, node, graph)
    return {} if is_known else None


def _describe(node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters) -> Batches:
    op, x, shape = node.op, graph.shape(node.inputs[0]), graph.shape(node.output)
    assert isinstance(op, Pad)
    dims = kernel_dims(len(shape))
    places: dict[str, Scalar] = {}
    for word, values, absent in (("before", op.before, 0), ("length", x, 1)):
        named = {
            f"{word}_{letter}": absent if entry is None else values[entry[0]]
            for letter, entry in zip("nhwc", dims, strict=True)
        }
        places |= constants_like(out, **named)
    return share_box(out, dims, info).describe(
        PAD,
        (plain_arg(node.output, shape), plain_arg(node.inputs[0], x)),
        info,
        moved=moved_bytes(node, graph, out),
        lanes=_LANES,
        scalars={
            **places,
            **constants_like(out, mode=_MODES[op.mode]),
            "value": np.full(out.count, op.value, np.float32),
        },
    )


IMPLEMENTATIONS = (define_row("layout", PAD, _accepts, _describe),)

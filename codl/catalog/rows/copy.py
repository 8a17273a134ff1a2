"""The row that moves boxes of values as they are, also from a private region to its publication."""

import numpy as np

from codl.catalog.rows.boxes import FLOAT_BYTES, has_rank_up_to, is_plain, share_box
from codl.catalog.rows.parts import Moving, Part, iterate_parts
from codl.catalog.spec import Implementation, LaunchBatch, Parameters, kernel_dims, plain_arg
from codl.ir.graph import Graph, Node, Shape
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo

COPY = "layout_copy__buffer"
_LANES = 8
"""VECTOR of the kernel: moving values gains nothing from wider vectors."""


def copy_batch(name: str, shape: Shape, boxes: Boxes, info: DeviceInfo) -> tuple[Implementation, LaunchBatch]:
    """Return the launch that copies ``boxes`` of a tensor from one storage to another.

    Its operands are the destination and the source, both the tensor ``name``;
    the row takes no parameters.
    """
    arg = plain_arg(name, shape)
    return IMPLEMENTATIONS[0], _describe_part(Part(dst=arg, src=arg, boxes=boxes), info)


def _accepts(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    del info
    is_known = isinstance(node.op, Moving)
    return {} if is_known and is_plain(node) and has_rank_up_to(4, node, graph) else None


def _describe(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    del parameters
    assert isinstance(node.op, Moving)
    return tuple(_describe_part(part, info) for part in iterate_parts(node.op, node, graph, out))


def _describe_part(part: Part, info: DeviceInfo) -> LaunchBatch:
    """Return the launch of one copy; an empty box is an empty launch."""
    boxes = part.boxes
    launch = share_box(boxes, kernel_dims(boxes.begin.shape[1]), info)
    moved = boxes.size * FLOAT_BYTES
    return LaunchBatch(
        entry=COPY,
        tensors=(part.dst, part.src),
        global_size=launch.global_size,
        scalars=launch.scalars,
        units=launch.units(info, _LANES),
        read_bytes=moved,
        written_bytes=moved,
        flops=np.zeros(boxes.count, np.int64),
    )


IMPLEMENTATIONS = (
    Implementation(name=COPY, source=f"layout/{COPY}.cl", accepts=_accepts, describe=_describe),
)

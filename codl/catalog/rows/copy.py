"""The row that moves boxes of values as they are, also from a private region to its publication."""

import numpy as np

from codl.catalog.rows.boxes import (
    ITEMS_PER_UNIT,
    LEAST_ITEM,
    BoxLaunch,
    box_in,
    has_rank_up_to,
    is_plain,
    share_box,
)
from codl.catalog.rows.parts import Moving, Part, iterate_parts
from codl.catalog.spec import Implementation, KernelDims, LaunchBatch, Parameters, define_row, plain_arg
from codl.ir.graph import FLOAT_BYTES, Graph, Node, Shape
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo

COPY = "layout_copy__buffer"
_LANES = 8
"""VECTOR of the kernel: moving values gains nothing from wider vectors."""
_LINE = 16
"""Floats of a cache line."""


def copy_batch(name: str, shape: Shape, boxes: Boxes, info: DeviceInfo) -> tuple[Implementation, LaunchBatch]:
    """Return the launch that copies ``boxes`` of a tensor from one storage to another.

    Its operands are the destination and the source, both the tensor ``name``;
    the row takes no parameters.
    """
    arg = plain_arg(name, shape)
    (batch,) = _describe_part(Part(dst=arg, src=arg, boxes=boxes, dims=arg.dims), info)
    return COPY_ROW, batch


def concat_batches(node: Node, graph: Graph, out: Boxes, info: DeviceInfo) -> tuple[LaunchBatch, ...]:
    """Return one launch of this row for each input of a concatenation: some of them may be left out."""
    return _describe(node, graph, out, info, {})


def _accepts(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    is_known = isinstance(node.op, Moving)
    return {} if is_known and is_plain(node) and has_rank_up_to(4, node, graph) else None


def _describe(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    assert isinstance(node.op, Moving)
    parts = iterate_parts(node.op, node, graph, out)
    return tuple(batch for part in parts for batch in _describe_part(part, info))


def _describe_part(part: Part, info: DeviceInfo) -> tuple[LaunchBatch, ...]:
    """Return the launch of one copy; an empty box is an empty launch."""
    launch = (_share_blocks if part.is_turned else share_box)(part.boxes, part.dims, info)
    moved = part.boxes.size * FLOAT_BYTES
    tensors = part.dst, part.src
    return launch.describe(COPY, tensors, info, moved=(moved, moved), lanes=_LANES, scalars={})


def _share_blocks(boxes: Boxes, dims: KernelDims, info: DeviceInfo) -> BoxLaunch:
    """Return work-items of one cache line of channels: the next rows use the rest of the source's lines."""
    begin, extent = box_in(boxes, dims)
    rows = np.maximum(extent[:, :3].prod(axis=1), 1)
    columns = np.clip(extent[:, 3], 1, _LINE)
    fair = extent.prod(axis=1) // (ITEMS_PER_UNIT * max(1, info.units))
    item_rows = np.clip(np.maximum(fair, LEAST_ITEM) // columns, 1, rows)
    return BoxLaunch(begin=begin, extent=extent, item_rows=item_rows, item_channels=columns)


COPY_ROW = define_row("layout", COPY, _accepts, _describe)
IMPLEMENTATIONS = (COPY_ROW,)

"""The row for Concat along the axis that is innermost in memory: four tensors a launch, side by side."""

from itertools import accumulate

import numpy as np

from codl.catalog.rows.boxes import constants_like, has_rank_up_to, is_plain, share_box
from codl.catalog.spec import Batches, Parameters, define_row, kernel_dims, plain_arg
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.ops import Concat
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo

CONCAT = "layout_concat__buffer"
_TENSORS = 4
"""Tensors that a launch takes."""
_LANES = 8
"""VECTOR of the kernel: moving values gains nothing from wider vectors."""


def _accepts(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    if not isinstance(node.op, Concat) or not is_plain(node) or not has_rank_up_to(4, node, graph):
        return None
    return {} if kernel_dims(len(graph.shape(node.output)))[3] == (node.op.axis, 1) else None


def _describe(node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters) -> Batches:
    assert isinstance(node.op, Concat)
    axis = node.op.axis
    starts = accumulate((graph.shape(name)[axis] for name in node.inputs), initial=0)
    parts = tuple(zip(node.inputs, starts, strict=False))
    return tuple(
        batch
        for first in range(0, len(parts), _TENSORS)
        for batch in _describe_group(node, graph, out, info, axis=axis, parts=parts[first : first + _TENSORS])
    )


def _describe_group(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, *, axis: int, parts: tuple[tuple[str, int], ...]
) -> Batches:
    """Return the launch that fills what belongs to ``parts``, tensors with their first channel."""
    shape, (last, last_start) = graph.shape(node.output), parts[-1]
    end = last_start + graph.shape(last)[axis]
    begins = [start for _, start in parts] + [end] * (_TENSORS + 1 - len(parts))
    names = [name for name, _ in parts] + [last] * (_TENSORS - len(parts))
    low, high = (np.minimum(np.maximum(edge[:, axis], begins[0]), end) for edge in (out.begin, out.end))
    boxes = out.with_axis(axis, low, high)
    moved = boxes.size * FLOAT_BYTES
    return share_box(boxes, kernel_dims(len(shape)), info).describe(
        CONCAT,
        (plain_arg(node.output, shape), *(plain_arg(name, graph.shape(name)) for name in names)),
        info,
        moved=(moved, moved),
        lanes=_LANES,
        scalars=constants_like(out, **{f"begin_{index}": begin for index, begin in enumerate(begins)}),
    )


IMPLEMENTATIONS = (define_row("layout", CONCAT, _accepts, _describe, stacks=True),)

"""Rows for softmax: one for the axis that is innermost in memory, one for the others."""

from functools import partial

import numpy as np

from codl.catalog.rows.boxes import (
    LANES,
    BoxLaunch,
    column_dims,
    constants_like,
    has_rank_up_to,
    innermost_axis,
    innermost_length,
    is_plain,
    lanes_for,
    moved_bytes,
    share_columns,
    share_lines,
)
from codl.catalog.spec import Batches, KernelDims, Parameters, TensorArg, define_row, kernel_dims
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.ops import Softmax
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo

ROWS, COLUMNS = "softmax_rows__buffer", "softmax_columns__buffer"
_PASSES = 3
"""The greatest, the sum, the shares."""
_STEP_WORK = 8
"""An exponential costs about as much as this many plain elements."""


def _accepts(node: Node, graph: Graph, info: DeviceInfo, *, innermost: bool) -> Parameters | None:
    if not isinstance(node.op, Softmax) or not is_plain(node) or not has_rank_up_to(4, node, graph):
        return None
    shape = graph.shape(node.output)
    if (node.op.axis == innermost_axis(len(shape))) != innermost:
        return None
    return lanes_for(info, innermost_length(shape))


def _describe_rows(node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters) -> Batches:
    """Every row is summed over its whole length, so no row is shared between work-items."""
    assert isinstance(node.op, Softmax)
    shape = graph.shape(node.output)
    dims = kernel_dims(len(shape))
    launch = share_lines(out, dims, info, work=_STEP_WORK * shape[node.op.axis])
    return _describe(node, graph, out, info, parameters, entry=ROWS, dims=dims, launch=launch)


def _describe_columns(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> Batches:
    """Kernel dimension w walks along the axis; a work-item takes it whole."""
    assert isinstance(node.op, Softmax)
    shape, axis = graph.shape(node.output), node.op.axis
    dims = column_dims(len(shape), axis)
    launch = share_columns(out, dims, axis, info, work=_STEP_WORK * shape[axis])
    return _describe(node, graph, out, info, parameters, entry=COLUMNS, dims=dims, launch=launch)


def _describe(
    node: Node,
    graph: Graph,
    out: Boxes,
    info: DeviceInfo,
    parameters: Parameters,
    *,
    entry: str,
    dims: KernelDims,
    launch: BoxLaunch,
) -> Batches:
    assert isinstance(node.op, Softmax)
    shape, moved = graph.shape(node.output), moved_bytes(node, graph, out)
    origin = (0,) * len(shape)
    return launch.describe(
        entry,
        tuple(TensorArg(name=name, dims=dims, origin=origin) for name in (node.output, node.inputs[0])),
        info,
        moved=moved,
        lanes=parameters["VECTOR"],
        scalars=constants_like(out, length=shape[node.op.axis]),
        work=_PASSES,
        flops=np.asarray(moved[0] // FLOAT_BYTES * _PASSES * _STEP_WORK),
    )


IMPLEMENTATIONS = tuple(
    define_row("softmax", name, partial(_accepts, innermost=innermost), describe, allowed={"VECTOR": LANES})
    for name, describe, innermost in ((ROWS, _describe_rows, True), (COLUMNS, _describe_columns, False))
)

"""Rows over two nodes: a convolution, and the maxima of 2 x 2 of its values behind it."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from codl.catalog.epilogue import PLAIN_ACTIVATIONS
from codl.catalog.rows import conv2d_patch, conv2d_winograd
from codl.catalog.spec import Implementation, LaunchBatch, Parameters, kernel_box, plain_arg
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.ops import Epilogue, Pool2d, PoolKind, ResidualOrder
from codl.ir.regions import Boxes, input_boxes
from codl.machine import DeviceInfo

_SIDE = 2
_MOST_ROW_BYTES = 256 << 10
"""Most bytes of the values of two output rows: a part of a core's cache."""


def find_halved(node: Node, graph: Graph) -> Node | None:
    """Return the node whose values are read by ``node`` alone, which takes their maxima by 2 x 2."""
    producer = graph.producers.get(node.inputs[0])
    if producer is None or producer.output in graph.outputs or not _is_halving(node, graph):
        return None
    is_read_once = len(graph.consumers[producer.output]) == 1
    return producer if is_read_once and producer.epilogue.residual is ResidualOrder.NONE else None


def _is_halving(node: Node, graph: Graph) -> bool:
    """Return whether a node takes maxima of 2 x 2 beside each other, none of them cut by the image's end."""
    op = node.op
    if not isinstance(op, Pool2d) or op.kind is not PoolKind.MAX or node.epilogue != Epilogue():
        return False
    sides = zip(graph.shape(node.inputs[0])[2:], graph.shape(node.output)[2:], strict=True)
    is_whole = all(_SIDE * result <= side for side, result in sides)
    return (
        is_whole and op.kernel == op.stride == (_SIDE, _SIDE) and op.dilation == (1, 1) and not any(op.pads)
    )


def _accept(node: Node, graph: Graph, info: DeviceInfo, *, row: Implementation) -> Parameters | None:
    """Return the parameters of the convolution's own row."""
    convolution = find_halved(node, graph)
    return None if convolution is None else row.accepts(convolution, graph, info)


def _fits(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters, *, row: Implementation) -> bool:
    convolution = find_halved(node, graph)
    return convolution is not None and row.fits is not None and row.fits(convolution, graph, info, parameters)


def _describe(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters, *, row: Implementation
) -> tuple[LaunchBatch, ...]:
    convolution, (values,) = find_halved(node, graph), input_boxes(node, graph, out)
    assert convolution is not None
    result = plain_arg(node.output, graph.shape(node.output))
    *first, last = (
        replace(batch, entry=_name(row), tensors=(result, batch.tensors[1], result))
        for batch in row.describe(convolution, graph, values, info, parameters)
    )
    return *first, replace(last, written_bytes=FLOAT_BYTES * out.size)


def _accept_patch(node: Node, graph: Graph, info: DeviceInfo, *, row: Implementation) -> Parameters | None:
    convolution, parameters = find_halved(node, graph), _accept(node, graph, info, row=row)
    if (
        convolution is None
        or parameters is None
        or convolution.epilogue.activation.kind not in PLAIN_ACTIVATIONS
    ):
        return None
    _, outputs, _, width = graph.shape(convolution.output)
    most = min(_MOST_ROW_BYTES, info.local_memory_bytes // _SIDE)
    is_small = FLOAT_BYTES * _SIDE * width * outputs <= most
    return parameters if is_small and outputs >= parameters["VECTOR"] else None


def _describe_patch(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters, *, row: Implementation
) -> tuple[LaunchBatch, ...]:
    (batch,) = _describe(node, graph, out, info, parameters, row=row)
    assert batch.local is not None
    begin, end = kernel_box(out)
    values = _SIDE * _SIDE * (end - begin)[:, 2] * graph.shape(node.output)[1]
    size = batch.global_size // np.array([_SIDE, 1, 1])
    return (replace(batch, global_size=size, local=batch.local + values),)


def _name(row: Implementation) -> str:
    return row.name.replace("__", "_pool__")


def _pool(row: Implementation, *, accept: Any = _accept, describe: Any = _describe) -> Implementation:
    """Return the row that takes the maxima of a row's values."""
    return replace(
        row,
        name=_name(row),
        source=f"conv2d/{_name(row)}.cl",
        accepts=partial(accept, row=row),
        fits=partial(_fits, row=row),
        describe=partial(describe, row=row),
        inner_loop=None,
    )


IMPLEMENTATIONS: tuple[Implementation, ...] = (
    *map(_pool, conv2d_winograd.IMPLEMENTATIONS),
    *(_pool(row, accept=_accept_patch, describe=_describe_patch) for row in conv2d_patch.IMPLEMENTATIONS),
)

"""Rows for functions of single elements: Unary, Binary with broadcasting, Affine by channel."""

from functools import partial
from math import prod

import numpy as np

from codl.catalog.epilogue import epilogue_scalars
from codl.catalog.rows.boxes import (
    LANES,
    channel_dims,
    constants_like,
    has_rank_up_to,
    has_residual,
    innermost_length,
    lanes_for,
    moved_bytes,
    share_box,
)
from codl.catalog.spec import (
    Batches,
    PackedArg,
    Parameters,
    TensorArg,
    broadcast_arg,
    define_row,
    kernel_dims,
    plain_arg,
)
from codl.ir.graph import FloatArray, Graph, Node, Shape
from codl.ir.ops import Affine, Binary, BinaryKind, Unary
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo

BINARY_CODES = {kind: code for code, kind in enumerate(BinaryKind)}
"""By which kernels know a function of two values."""
_LONGEST_PATTERN = 16
"""LONGEST_PATTERN of kernels/common/pattern.h."""
UNARY, BINARY, AFFINE = "elementwise_unary__buffer", "elementwise_binary__buffer", "affine_channels__buffer"


def _accepts_unary(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    if not isinstance(node.op, Unary) or not has_rank_up_to(4, node, graph) or has_residual(node):
        return None
    return lanes_for(info, prod(graph.shape(node.output)))


def _describe_unary(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> Batches:
    shape = graph.shape(node.output)
    return share_box(out, kernel_dims(len(shape)), info).describe(
        UNARY,
        (plain_arg(node.output, shape), plain_arg(node.inputs[0], shape)),
        info,
        moved=moved_bytes(node, graph, out),
        lanes=parameters["VECTOR"],
        scalars=epilogue_scalars(node.epilogue, out.count),
        flops=out.size,
    )


def _accepts_binary(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    if not isinstance(node.op, Binary) or not has_rank_up_to(4, node, graph):
        return None
    shape = graph.shape(node.output)
    is_repeated = any(graph.shape(name) != shape for name in node.inputs)
    return lanes_for(
        info, _line_length(shape, prod(graph.shape(node.inputs[1]))) if is_repeated else prod(shape)
    )


def _line_length(shape: Shape, values: int) -> int:
    """Return the length of lines where an operand of ``values`` elements repeats."""
    channels = innermost_length(shape)
    return prod(shape) if values == channels <= _LONGEST_PATTERN else channels


def _describe_binary(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> Batches:
    assert isinstance(node.op, Binary)
    shape = graph.shape(node.output)
    operands = [broadcast_arg(name, graph.shape(name), len(shape)) for name in node.inputs[:2]]
    return share_box(out, kernel_dims(len(shape)), info).describe(
        BINARY,
        (plain_arg(node.output, shape), *operands, plain_arg(node.residual or node.output, shape)),
        info,
        moved=moved_bytes(node, graph, out),
        lanes=parameters["VECTOR"],
        scalars={
            **constants_like(out, function=BINARY_CODES[node.op.kind]),
            **epilogue_scalars(node.epilogue, out.count),
        },
        flops=out.size * (2 if has_residual(node) else 1),
    )


def _accepts_affine(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    if not isinstance(node.op, Affine) or not has_rank_up_to(4, node, graph) or has_residual(node):
        return None
    if any(name not in graph.constants for name in node.inputs[1:3]):
        return None
    shape = graph.shape(node.output)
    return lanes_for(info, prod(shape) if shape[1] <= _LONGEST_PATTERN else shape[1])


def _describe_affine(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> Batches:
    shape = graph.shape(node.output)
    dims, origin = channel_dims(len(shape)), (0,) * len(shape)
    return share_box(out, dims, info).describe(
        AFFINE,
        tuple(TensorArg(name=name, dims=dims, origin=origin) for name in (node.output, node.inputs[0])),
        info,
        packed=tuple(
            PackedArg(key=f"{name!r}/channels", pack=partial(_pack_channels, name), panel_floats=1)
            for name in node.inputs[1:3]
        ),
        panel_begin=out.begin[:, 1],
        panel_end=out.end[:, 1],
        moved=moved_bytes(node, graph, out),
        lanes=parameters["VECTOR"],
        scalars=epilogue_scalars(node.epilogue, out.count),
        flops=np.asarray(2 * out.size),
    )


def _pack_channels(name: str, constants: dict[str, FloatArray]) -> FloatArray:
    """Return a constant [C] as panels of one channel each."""
    return np.ascontiguousarray(constants[name].reshape(-1, 1))


IMPLEMENTATIONS = tuple(
    define_row("elementwise", name, accepts, describe, allowed={"VECTOR": LANES}, stacks=stacks)
    for name, accepts, describe, stacks in (
        (UNARY, _accepts_unary, _describe_unary, True),
        (BINARY, _accepts_binary, _describe_binary, False),
        (AFFINE, _accepts_affine, _describe_affine, True),
    )
)

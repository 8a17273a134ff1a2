"""One shape rule for each operator: which shapes its inputs and its output must have.

A declared or inferred shape is a claim. A rule computes what follows from the inputs and the attributes;
where the output's lengths are chosen freely within limits, it returns the nearest lengths that keep every
read inside the input.
"""

from collections.abc import Callable, Mapping
from typing import Any

from codl.ir.graph import Node, Shape, Tensor
from codl.ir.ops import (
    Affine,
    Binary,
    ChannelShuffle,
    CombineMoments,
    CombineRows,
    Concat,
    Conv2d,
    ConvTranspose2d,
    DepthToSpace,
    HostCall,
    LocalResponseNorm,
    MatMul,
    Normalize,
    Op,
    Pad,
    Pool2d,
    ReduceMean,
    Reshape,
    Resize2d,
    RowMoments,
    RowSum,
    Slice,
    Softmax,
    SpaceToDepth,
    Transpose,
    Unary,
)
from codl.ir.shapes import moves, pointwise, windows
from codl.ir.shapes.claims import MisfitError, Shapes

ShapeRule = Callable[[Any, Shapes, Shape], Shapes]
"""(operator, input shapes without a residual's, output shape) -> the shapes they must have, output last."""


def _host_call(_: HostCall, shapes: Shapes, out: Shape) -> Shapes:
    """Return what is there: ONNX Runtime's values are compared with it when they come."""
    return *shapes, out


SHAPES: dict[type[Op], ShapeRule] = {
    Conv2d: windows.conv2d,
    ConvTranspose2d: windows.conv_transpose2d,
    MatMul: windows.matmul,
    Pool2d: windows.pool2d,
    Unary: pointwise.unary,
    Binary: pointwise.binary,
    Affine: pointwise.affine,
    Normalize: pointwise.normalize,
    RowSum: pointwise.row_sum,
    CombineRows: pointwise.combine_rows,
    RowMoments: pointwise.row_moments,
    CombineMoments: pointwise.combine_moments,
    ReduceMean: pointwise.reduce_mean,
    Softmax: pointwise.softmax,
    LocalResponseNorm: pointwise.local_response_norm,
    Concat: moves.concat,
    Reshape: moves.reshape,
    Transpose: moves.transpose,
    ChannelShuffle: moves.channel_shuffle,
    SpaceToDepth: moves.space_to_depth,
    DepthToSpace: moves.depth_to_space,
    Slice: moves.slice_,
    Pad: moves.pad,
    Resize2d: moves.resize2d,
    HostCall: _host_call,
}
"""Operator -> its rule."""


def find_shape_problem(node: Node, tensors: Mapping[str, Tensor]) -> str | None:
    """Return a sentence if the tensors of a node do not have the shapes that its operator asks for.

    Args:
        node: Its inputs and its output are all among ``tensors``.
        tensors: Of the graph, by name.
    """
    names = node.inputs if node.residual is None else node.inputs[:-1]
    inputs, output = [tensors[name].shape for name in names], tensors[node.output].shape
    title = f"node {node.name!r} ({node.kind})"
    try:
        expected = SHAPES[type(node.op)](node.op, inputs, output)
    except MisfitError as misfit:
        return f"{title}: {misfit}"
    for name, got, wanted in zip((*names, node.output), (*inputs, output), expected, strict=True):
        if got != wanted:
            return f"{title}: got {name!r} of shape {list(got)}, expected {list(wanted)}"
    return None

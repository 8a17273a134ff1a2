"""One region rule for each operator: which boxes of its inputs some boxes of its output need."""

from collections.abc import Callable, Sequence
from typing import Any

from codl.ir.boxes import Boxes
from codl.ir.graph import Shape
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
from codl.ir.rules import moves, pointwise, reductions, sampling, whole, windows

Rule = Callable[[Any, Sequence[Shape], Shape, Boxes], tuple[Boxes, ...]]
"""(operator, input shapes without a residual's, output shape, output boxes) -> boxes of each input."""

RULES: dict[type[Op], Rule] = {
    Conv2d: windows.conv2d,
    ConvTranspose2d: windows.conv_transpose2d,
    MatMul: windows.matmul,
    Pool2d: windows.pool2d,
    Unary: pointwise.unary,
    Binary: pointwise.binary,
    Affine: pointwise.affine,
    Normalize: pointwise.normalize,
    RowSum: reductions.along_width,
    CombineRows: reductions.combine_rows,
    RowMoments: reductions.along_width,
    CombineMoments: reductions.combine_moments,
    ReduceMean: reductions.reduce_mean,
    Softmax: reductions.softmax,
    LocalResponseNorm: reductions.local_response_norm,
    Concat: moves.concat,
    Reshape: moves.reshape,
    Transpose: moves.transpose,
    ChannelShuffle: moves.channel_shuffle,
    SpaceToDepth: moves.space_to_depth,
    DepthToSpace: moves.depth_to_space,
    Slice: sampling.slice_,
    Pad: sampling.pad,
    Resize2d: sampling.resize2d,
    HostCall: whole.host_call,
}

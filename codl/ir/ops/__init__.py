"""Operators as data: one frozen dataclass each, attributes only.

Inputs are listed by the node that carries the operator; their order is given in
each docstring. Constants (weights, bias) are inputs like any other, so one
region rule also says which slice of a weight a device needs.
"""

from codl.ir.ops.epilogue import (
    FUNCTIONS,
    Activation,
    ActivationKind,
    Epilogue,
    Function,
    ResidualOrder,
)
from codl.ir.ops.host import HostCall
from codl.ir.ops.moves import (
    ChannelShuffle,
    Concat,
    DepthToSpace,
    Pad,
    PadMode,
    Reshape,
    Slice,
    SpaceToDepth,
    Transpose,
)
from codl.ir.ops.operator import MisfitError, Op
from codl.ir.ops.pointwise import (
    Affine,
    Binary,
    BinaryKind,
    Normalize,
    Unary,
)
from codl.ir.ops.reductions import (
    CombineMoments,
    CombineRows,
    LocalResponseNorm,
    ReduceMean,
    RowMoments,
    RowSum,
    Softmax,
)
from codl.ir.ops.resizing import Coordinates, Resize2d, ResizeMode, Rounding
from codl.ir.ops.windows import (
    Conv2d,
    ConvTranspose2d,
    MatMul,
    Pads,
    Pair,
    Pool2d,
    PoolKind,
)

__all__ = [
    "FUNCTIONS",
    "Activation",
    "ActivationKind",
    "Affine",
    "Binary",
    "BinaryKind",
    "ChannelShuffle",
    "CombineMoments",
    "CombineRows",
    "Concat",
    "Conv2d",
    "ConvTranspose2d",
    "Coordinates",
    "DepthToSpace",
    "Epilogue",
    "Function",
    "HostCall",
    "LocalResponseNorm",
    "MatMul",
    "MisfitError",
    "Normalize",
    "Op",
    "Pad",
    "PadMode",
    "Pads",
    "Pair",
    "Pool2d",
    "PoolKind",
    "ReduceMean",
    "Reshape",
    "ResidualOrder",
    "Resize2d",
    "ResizeMode",
    "Rounding",
    "RowMoments",
    "RowSum",
    "Slice",
    "Softmax",
    "SpaceToDepth",
    "Transpose",
    "Unary",
]

"""Operators as data: one frozen dataclass each, attributes only.

Inputs are listed by the node that carries the operator; their order is given in
each docstring. Constants (weights, bias) are inputs like any other, so one
region rule also says which slice of a weight a device needs.
"""

from dataclasses import dataclass
from enum import StrEnum

Pair = tuple[int, int]
"""(vertical, horizontal)"""
Pads = tuple[int, int, int, int]
"""(top, left, bottom, right)"""


class ActivationKind(StrEnum):
    """Pointwise functions of one value; `alpha` and `beta` are named as in ONNX."""

    IDENTITY = "identity"
    RELU = "relu"
    CLIP = "clip"
    """min = alpha, max = beta"""
    LEAKY_RELU = "leaky_relu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """A pointwise function, as an operator of its own or in an epilogue."""

    kind: ActivationKind = ActivationKind.IDENTITY
    alpha: float = 0.0
    beta: float = 0.0


class ResidualOrder(StrEnum):
    """Where an epilogue adds the residual tensor."""

    NONE = "none"
    BEFORE = "before"
    """activation(value + residual)"""
    AFTER = "after"
    """activation(value) + residual"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Epilogue:
    """What a producing kernel does to a value before it stores it.

    When `residual` is not NONE, the residual tensor is the node's last input and
    has the output's shape.
    """

    activation: Activation = Activation()
    residual: ResidualOrder = ResidualOrder.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv2d:
    """2-D convolution. Inputs: x [N, IC, H, W], weight [OC, IC/groups, KH, KW], bias [OC] (optional)."""

    kernel: Pair
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    pads: Pads = (0, 0, 0, 0)
    groups: int = 1
    has_bias: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MatMul:
    """Matrix product. Inputs: a [..., M, K], b [K, N] or [..., K, N], bias [N] (optional).

    ONNX Gemm becomes this one: alpha, beta and transB are folded into its constants.
    """

    has_bias: bool = False


class PoolKind(StrEnum):
    """What a pooling window keeps."""

    MAX = "max"
    AVERAGE = "average"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool2d:
    """Pooling over windows. Input: x [N, C, H, W]. Rounding is already applied: the output shape tells."""

    kind: PoolKind
    kernel: Pair
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    pads: Pads = (0, 0, 0, 0)
    counts_padding: bool = False
    """Average only: padded zeros count as elements (ONNX count_include_pad)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSum:
    """Partial moment of global average pooling: x [N, C, H, W] -> sum over W, [N, C, H, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CombineRows:
    """Second half of global average pooling: x [N, C, H, 1] -> sum over H times `scale`, [N, C, 1, 1]."""

    scale: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary:
    """Pointwise function of one tensor; which one is the node's epilogue. Input: x, any shape."""


class BinaryKind(StrEnum):
    """Pointwise functions of two values."""

    ADD = "add"
    MUL = "mul"


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """Pointwise function of two tensors with ONNX (multidirectional) broadcasting. Inputs: a, b."""

    kind: BinaryKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Affine:
    """Per-channel x * scale + shift. Inputs: x [N, C, ...], scale [C], shift [C]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Concat:
    """Concatenation of all inputs along `axis` (non-negative)."""

    axis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reshape:
    """Same values in ONNX order under another shape. Input: x."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Softmax:
    """Softmax along `axis` (non-negative). Input: x, any shape."""

    axis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceToDepth:
    """[N, C, H, W] -> [N, C*b*b, H/b, W/b], block offset outermost in the channels, as ONNX orders it."""

    block: int


Op = (
    Conv2d
    | MatMul
    | Pool2d
    | RowSum
    | CombineRows
    | Unary
    | Binary
    | Affine
    | Concat
    | Reshape
    | Softmax
    | SpaceToDepth
)

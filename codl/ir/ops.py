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
    ELU = "elu"
    SIGMOID = "sigmoid"
    HARD_SIGMOID = "hard_sigmoid"
    HARD_SWISH = "hard_swish"
    TANH = "tanh"


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
    SUB = "sub"
    DIV = "div"
    PRELU = "prelu"
    """a where a >= 0, a * b elsewhere"""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthToSpace:
    """[N, C, H, W] -> [N, C/(b*b), H*b, W*b]."""

    block: int
    is_column_major: bool = False
    """ONNX mode CRD: the block offset is innermost in the channels; otherwise (DCR) outermost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvTranspose2d:
    """2-D transposed convolution. Inputs: x [N, IC, H, W], weight [IC, OC/groups, KH, KW], bias [OC] or none.

    Output padding is already applied: the output shape tells.
    """

    kernel: Pair
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    pads: Pads = (0, 0, 0, 0)
    groups: int = 1
    has_bias: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RowMoments:
    """Partial moments: x [N, C, H, W] -> [N, C, H, 2], mean and sum of squared deviations of each row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CombineMoments:
    """Inputs: moments [N, C, H, 2], scale [C], shift [C] -> [N, C, 1, 2], a factor and a summand.

    The factor is scale / sqrt(variance + epsilon), the summand shift - mean * factor; rows are merged in
    ascending order.

    Source:
        Chan, Golub and LeVeque, Updating Formulae for Computing Sample Variances, 1979.
    """

    epsilon: float
    row_length: int
    """Elements that each row's moments were taken over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Normalize:
    """Inputs: x [N, C, H, W], factors [N, C, 1, 2] -> x * factor + summand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalResponseNorm:
    """ONNX LRN over `size` neighbouring channels: x / (bias + alpha / size * sum of squares) ^ beta."""

    size: int
    alpha: float
    beta: float
    bias: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """out[i] = x[begin + i * step] along each axis; steps may be negative. Split makes one an output."""

    begin: tuple[int, ...]
    step: tuple[int, ...]


class PadMode(StrEnum):
    """What a padded element holds."""

    CONSTANT = "constant"
    REFLECT = "reflect"
    EDGE = "edge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pad:
    """out[i] = x[i - before] along each axis; negative `before` crops."""

    before: tuple[int, ...]
    mode: PadMode = PadMode.CONSTANT
    value: float = 0.0


class ResizeMode(StrEnum):
    """How a resized element is made."""

    NEAREST = "nearest"
    LINEAR = "linear"


class Coordinates(StrEnum):
    """ONNX coordinate_transformation_mode of Resize."""

    HALF_PIXEL = "half_pixel"
    PYTORCH_HALF_PIXEL = "pytorch_half_pixel"
    ALIGN_CORNERS = "align_corners"
    ASYMMETRIC = "asymmetric"


class Rounding(StrEnum):
    """ONNX nearest_mode of Resize."""

    PREFER_FLOOR = "round_prefer_floor"
    PREFER_CEIL = "round_prefer_ceil"
    FLOOR = "floor"
    CEIL = "ceil"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize2d:
    """Resizing of height and width, x [N, C, H, W] -> [N, C, OH, OW]."""

    mode: ResizeMode
    scale: tuple[float, float]
    """(vertical, horizontal), as given or output / input."""
    coordinates: Coordinates = Coordinates.HALF_PIXEL
    rounding: Rounding = Rounding.PREFER_FLOOR


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceMean:
    """Mean over `axes` (non-negative, ascending), which stay with length 1. Input: x, any shape."""

    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transpose:
    """Output axis i is input axis `order[i]`. Input: x, any shape."""

    order: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelShuffle:
    """[N, C, H, W]: channels seen as [groups, C/groups], transposed."""

    groups: int


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
    | DepthToSpace
    | ConvTranspose2d
    | RowMoments
    | CombineMoments
    | Normalize
    | LocalResponseNorm
    | Slice
    | Pad
    | Resize2d
    | ReduceMean
    | Transpose
    | ChannelShuffle
)

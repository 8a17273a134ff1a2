"""Convolutions, poolings and matrix products."""

from dataclasses import dataclass
from enum import StrEnum

Pair = tuple[int, int]
"""(vertical, horizontal)"""
Pads = tuple[int, int, int, int]
"""(top, left, bottom, right)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv2d:
    """2-D convolution. Inputs: x [N, IC, H, W], weight [OC, IC/groups, KH, KW], bias [OC] (optional).

    A kernel may compute the outputs of a cell of `tile` rows and columns together, from all that any of them
    reads, as minimal filtering does. Cells lie on the grid of the whole tensor.
    """

    kernel: Pair
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    pads: Pads = (0, 0, 0, 0)
    groups: int = 1
    has_bias: bool = False
    tile: Pair = (1, 1)


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

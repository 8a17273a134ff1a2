"""Operators that look along whole axes, or across channels."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSum:
    """Partial moment of global average pooling: x [N, C, H, W] -> sum over W, [N, C, H, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CombineRows:
    """Second half of global average pooling: x [N, C, H, 1] -> sum over H times `scale`, [N, C, 1, 1]."""

    scale: float


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
class ReduceMean:
    """Mean over `axes` (non-negative, ascending), which stay with length 1. Input: x, any shape."""

    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Softmax:
    """Softmax along `axis` (non-negative). Input: x, any shape."""

    axis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalResponseNorm:
    """ONNX LRN over `size` neighbouring channels: x / (bias + alpha / size * sum of squares) ^ beta."""

    size: int
    alpha: float
    beta: float
    bias: float

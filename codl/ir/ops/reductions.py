"""Operators that reduce whole axes, or windows of neighbouring channels."""

from dataclasses import dataclass

import numpy as np

from codl.ir.boxes import Boxes, Shape
from codl.ir.ops.operator import Needs, Op, Shapes, check, check_axes, take, with_rank

__all__ = [
    "CombineMoments",
    "CombineRows",
    "LayerNorm",
    "LocalResponseNorm",
    "ReduceMean",
    "RowMoments",
    "RowSum",
    "Softmax",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSum(Op):
    """Partial moment of global average pooling: x [N, C, H, W] -> sum over W, [N, C, H, 1]."""

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """One sum for each row."""
        x = with_rank(take(shapes, 1)[0], 4)
        return x, (*x[:3], 1)

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Return whole rows."""
        return (out.with_axis(3, 0, shapes[0][3]),)


@dataclass(frozen=True, slots=True, kw_only=True)
class CombineRows(Op):
    """Second half of global average pooling: x [N, C, H, 1] -> sum over H times `scale`, [N, C, 1, 1]."""

    scale: float

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """One sum for each channel."""
        x = with_rank(take(shapes, 1)[0], 4)
        return (*x[:3], 1), (*x[:2], 1, 1)

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Return the sums of all rows."""
        return (out.with_axis(2, 0, shapes[0][2]),)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowMoments(Op):
    """Partial moments: x [N, C, H, W] -> [N, C, H, 2], mean and sum of squared deviations of each row."""

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """Two moments for each row."""
        x = with_rank(take(shapes, 1)[0], 4)
        return x, (*x[:3], 2)

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Return whole rows."""
        return (out.with_axis(3, 0, shapes[0][3]),)


@dataclass(frozen=True, slots=True, kw_only=True)
class CombineMoments(Op):
    """Inputs: moments [N, C, H, 2], scale [C], shift [C] -> [N, C, 1, 2], a factor and a summand.

    The factor is scale / sqrt(variance + epsilon), the summand shift - mean * factor; rows are merged in
    ascending order.

    Source:
        Chan, Golub and LeVeque, Updating Formulae for Computing Sample Variances, 1979.
    """

    epsilon: float
    row_length: int
    """Elements that each row's moments were taken over."""

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """A factor and a summand for each channel."""
        x = with_rank(take(shapes, 3)[0], 4)
        check(self.row_length > 0, got=f"rows of {self.row_length}", expected="1 or more")
        return (*x[:3], 2), x[1:2], x[1:2], (*x[:2], 1, 2)

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Return both moments of all rows; of scale and shift the channels."""
        channels = Boxes(out.begin[:, 1:2], out.end[:, 1:2])
        return out.with_axis(2, 0, shapes[0][2]).with_axis(3, 0, 2), channels, channels


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceMean(Op):
    """Mean over `axes` (non-negative, ascending), which stay with length 1. Input: x, any shape."""

    axes: tuple[int, ...]

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """Averaged axes stay with length 1."""
        (x,) = take(shapes, 1)
        check_axes(self.axes, x)
        return x, tuple([1 if axis in self.axes else length for axis, length in enumerate(x)])

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Return the averaged axes whole."""
        need = out
        for axis in self.axes:
            need = need.with_axis(axis, 0, shapes[0][axis])
        return (need,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Softmax(Op):
    """Softmax along `axis` (non-negative). Input: x, any shape."""

    axis: int

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """Nothing changes the shape; the axis exists."""
        (x,) = take(shapes, 1)
        check_axes((self.axis,), x)
        return x, x

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Return the axis whole."""
        return (out.with_axis(self.axis, 0, shapes[0][self.axis]),)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerNorm(Op):
    """(x - mean) / sqrt(variance + epsilon) * scale + shift along `axis` (non-negative).

    Inputs: x, any shape; scale and shift (optional), as long as the axis.
    """

    axis: int
    epsilon: float
    has_shift: bool = False

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """Nothing changes the shape; a scale and a shift for each place of the axis, which exists."""
        x = take(shapes, 2 + self.has_shift)[0]
        check_axes((self.axis,), x)
        return x, *[x[self.axis : self.axis + 1]] * (1 + self.has_shift), x

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Return the axis whole; of scale and shift its part."""
        axis = slice(self.axis, self.axis + 1)
        part = Boxes(out.begin[:, axis], out.end[:, axis])
        return (out.with_axis(self.axis, 0, shapes[0][self.axis]), *[part] * (1 + self.has_shift))


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalResponseNorm(Op):
    """ONNX LRN over `size` neighbouring channels: x / (bias + alpha / size * sum of squares) ^ beta."""

    size: int
    alpha: float
    beta: float
    bias: float

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """Nothing changes the shape; there are channels."""
        (x,) = take(shapes, 1)
        check_axes((1,), x)
        check(self.size > 0, got=f"{self.size} channels", expected="1 or more")
        return x, x

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Return the channels under the windows; an even window reaches further up than down."""
        below = (self.size - 1) // 2
        low = np.maximum(out.begin[:, 1] - below, 0)
        high = np.minimum(out.end[:, 1] + self.size - 1 - below, shapes[0][1])
        return (out.with_axis(1, low, high),)

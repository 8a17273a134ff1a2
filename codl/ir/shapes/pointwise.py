"""Shape rules of functions of single elements, and of reductions of whole axes."""

from codl.ir.graph import Shape
from codl.ir.ops import (
    Affine,
    Binary,
    CombineMoments,
    CombineRows,
    LocalResponseNorm,
    Normalize,
    ReduceMean,
    RowMoments,
    RowSum,
    Softmax,
    Unary,
)
from codl.ir.shapes.claims import Shapes, broadcast, check, check_axes, take, with_rank


def unary(_: Unary, shapes: Shapes, __: Shape) -> Shapes:
    """Nothing changes the shape."""
    (x,) = take(shapes, 1)
    return x, x


def binary(_: Binary, shapes: Shapes, __: Shape) -> Shapes:
    """Both broadcast."""
    a, b = take(shapes, 2)
    return a, b, broadcast(a, b)


def affine(_: Affine, shapes: Shapes, __: Shape) -> Shapes:
    """A scale and a shift for each channel."""
    x = take(shapes, 3)[0]
    check_axes((1,), x)
    return x, x[1:2], x[1:2], x


def normalize(_: Normalize, shapes: Shapes, __: Shape) -> Shapes:
    """A factor and a summand for each channel of each image."""
    x = with_rank(take(shapes, 2)[0], 4)
    return x, (*x[:2], 1, 2), x


def row_sum(_: RowSum, shapes: Shapes, __: Shape) -> Shapes:
    """One sum for each row."""
    x = with_rank(take(shapes, 1)[0], 4)
    return x, (*x[:3], 1)


def combine_rows(_: CombineRows, shapes: Shapes, __: Shape) -> Shapes:
    """One sum for each channel."""
    x = with_rank(take(shapes, 1)[0], 4)
    return (*x[:3], 1), (*x[:2], 1, 1)


def row_moments(_: RowMoments, shapes: Shapes, __: Shape) -> Shapes:
    """Two moments for each row."""
    x = with_rank(take(shapes, 1)[0], 4)
    return x, (*x[:3], 2)


def combine_moments(op: CombineMoments, shapes: Shapes, __: Shape) -> Shapes:
    """A factor and a summand for each channel."""
    x = with_rank(take(shapes, 3)[0], 4)
    check(op.row_length > 0, got=f"rows of {op.row_length}", expected="1 or more")
    return (*x[:3], 2), x[1:2], x[1:2], (*x[:2], 1, 2)


def reduce_mean(op: ReduceMean, shapes: Shapes, _: Shape) -> Shapes:
    """Averaged axes stay with length 1."""
    (x,) = take(shapes, 1)
    check_axes(op.axes, x)
    return x, tuple([1 if axis in op.axes else length for axis, length in enumerate(x)])


def softmax(op: Softmax, shapes: Shapes, _: Shape) -> Shapes:
    """Nothing changes the shape; the axis exists."""
    (x,) = take(shapes, 1)
    check_axes((op.axis,), x)
    return x, x


def local_response_norm(op: LocalResponseNorm, shapes: Shapes, _: Shape) -> Shapes:
    """Nothing changes the shape; there are channels."""
    (x,) = take(shapes, 1)
    check_axes((1,), x)
    check(op.size > 0, got=f"{op.size} channels", expected="1 or more")
    return x, x

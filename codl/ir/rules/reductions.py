"""Region rules of operators that look along whole axes, or across channels."""

from collections.abc import Sequence

import numpy as np

from codl.ir.boxes import Boxes
from codl.ir.graph import Shape
from codl.ir.ops import (
    CombineMoments,
    CombineRows,
    LocalResponseNorm,
    ReduceMean,
    RowMoments,
    RowSum,
    Softmax,
)


def along_width(_: RowSum | RowMoments, shapes: Sequence[Shape], __: Shape, out: Boxes) -> tuple[Boxes, ...]:
    """Return whole rows."""
    return (out.with_axis(3, 0, shapes[0][3]),)


def combine_rows(_: CombineRows, shapes: Sequence[Shape], __: Shape, out: Boxes) -> tuple[Boxes, ...]:
    """Return the sums of all rows."""
    return (out.with_axis(2, 0, shapes[0][2]),)


def combine_moments(_: CombineMoments, shapes: Sequence[Shape], __: Shape, out: Boxes) -> tuple[Boxes, ...]:
    """Return both moments of all rows; of scale and shift the channels."""
    channels = Boxes(out.begin[:, 1:2], out.end[:, 1:2])
    return out.with_axis(2, 0, shapes[0][2]).with_axis(3, 0, 2), channels, channels


def reduce_mean(op: ReduceMean, shapes: Sequence[Shape], _: Shape, out: Boxes) -> tuple[Boxes, ...]:
    """Return the averaged axes whole."""
    need = out
    for axis in op.axes:
        need = need.with_axis(axis, 0, shapes[0][axis])
    return (need,)


def softmax(op: Softmax, shapes: Sequence[Shape], _: Shape, out: Boxes) -> tuple[Boxes, ...]:
    """Return the axis whole."""
    return (out.with_axis(op.axis, 0, shapes[0][op.axis]),)


def local_response_norm(
    op: LocalResponseNorm, shapes: Sequence[Shape], _: Shape, out: Boxes
) -> tuple[Boxes, ...]:
    """Return the channels under the windows; an even window reaches further up than down."""
    below = (op.size - 1) // 2
    low = np.maximum(out.begin[:, 1] - below, 0)
    high = np.minimum(out.end[:, 1] + op.size - 1 - below, shapes[0][1])
    return (out.with_axis(1, low, high),)

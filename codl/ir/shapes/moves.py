"""Shape rules of operators that move, pick, repeat or resample elements."""

from math import isfinite, prod

from codl.ir.graph import Shape
from codl.ir.ops import (
    ChannelShuffle,
    Concat,
    DepthToSpace,
    Pad,
    PadMode,
    Reshape,
    Resize2d,
    Slice,
    SpaceToDepth,
    Transpose,
)
from codl.ir.resampling import MOST_POSITIONS
from codl.ir.shapes.claims import Shapes, check, check_axes, check_groups, take, with_rank


def concat(op: Concat, shapes: Shapes, _: Shape) -> Shapes:
    """Inputs agree along all other axes; their lengths along this one add up."""
    check(len(shapes) > 0, got="no inputs", expected="1 or more")
    axis, first = op.axis, shapes[0]
    check_axes((axis,), first)
    parts = [with_rank(shape, len(first))[axis] for shape in shapes]
    before, after = first[:axis], first[axis + 1 :]
    return [(*before, length, *after) for length in (*parts, sum(parts))]


def reshape(_: Reshape, shapes: Shapes, out: Shape) -> Shapes:
    """Any shape of as many elements."""
    (x,) = take(shapes, 1)
    check(
        prod(x) == prod(out),
        got=f"shape {list(x)}, {prod(x)} elements, as {list(out)}, {prod(out)} elements",
        expected="as many elements",
    )
    return x, out


def transpose(op: Transpose, shapes: Shapes, _: Shape) -> Shapes:
    """The lengths of the axes in their new order."""
    (x,) = take(shapes, 1)
    check_axes(op.order, with_rank(x, len(op.order)))
    return x, tuple([x[axis] for axis in op.order])


def channel_shuffle(op: ChannelShuffle, shapes: Shapes, _: Shape) -> Shapes:
    """Nothing changes the shape; the groups divide the channels."""
    x = with_rank(take(shapes, 1)[0], 4)
    check_groups(op.groups, x[1])
    return x, x


def space_to_depth(op: SpaceToDepth, shapes: Shapes, _: Shape) -> Shapes:
    """Whole blocks of pixels become channels."""
    (x,), b = take(shapes, 1), op.block
    batch, channels, height, width = with_rank(x, 4)
    check(
        b > 0 and height % b == 0 and width % b == 0,
        got=f"blocks of {b} in shape {list(x)}",
        expected="whole blocks",
    )
    return x, (batch, channels * b * b, height // b, width // b)


def depth_to_space(op: DepthToSpace, shapes: Shapes, _: Shape) -> Shapes:
    """Whole blocks of channels become pixels."""
    (x,), b = take(shapes, 1), op.block
    batch, channels, height, width = with_rank(x, 4)
    check(b > 0 and channels % (b * b) == 0, got=f"blocks of {b} in shape {list(x)}", expected="whole blocks")
    return x, (batch, channels // (b * b), height * b, width * b)


def slice_(op: Slice, shapes: Shapes, out: Shape) -> Shapes:
    """Any number of elements that all lie in the input."""
    (x,) = take(shapes, 1)
    for length, begin, step, count in zip(
        with_rank(x, len(op.begin)),
        op.begin,
        with_rank(op.step, len(x)),
        with_rank(out, len(x)),
        strict=True,
    ):
        last = begin + (count - 1) * step
        check(
            step != 0 and 0 <= begin < length and 0 <= last < length,
            got=f"elements {begin} to {last} of shape {list(x)}",
            expected="elements inside",
        )
    return x, out


def pad(op: Pad, shapes: Shapes, out: Shape) -> Shapes:
    """A mirrored tensor is mirrored once at each end; other padded elements need no limit."""
    (x,) = take(shapes, 1)
    for length, before, count in zip(
        with_rank(x, len(op.before)), op.before, with_rank(out, len(x)), strict=True
    ):
        after = count - before - length
        check(
            op.mode is not PadMode.REFLECT or max(before, after) < length,
            got=f"mirrored pads of {before} and {after} for shape {list(x)}",
            expected="fewer than there are elements",
        )
    return x, out


def resize2d(op: Resize2d, shapes: Shapes, out: Shape) -> Shapes:
    """Any height and width."""
    x = with_rank(take(shapes, 1)[0], 4)
    check(
        max(x[2:]) <= MOST_POSITIONS,
        got=f"shape {list(x)}",
        expected=f"up to {MOST_POSITIONS} rows and columns",
    )
    check(
        all(isfinite(scale) and scale > 0 for scale in op.scale), got=f"scale {op.scale}", expected="above 0"
    )
    return x, (*x[:2], *with_rank(out, 4)[2:])

"""Region rules of operators that move elements between axes."""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from codl.ir.boxes import Boxes, IntArray
from codl.ir.graph import Shape
from codl.ir.ops import ChannelShuffle, Concat, DepthToSpace, Reshape, SpaceToDepth, Transpose


def concat(op: Concat, shapes: Sequence[Shape], _: Shape, out: Boxes) -> tuple[Boxes, ...]:
    """Return, of each input, what lies in its part of the axis."""
    lengths = [shape[op.axis] for shape in shapes]
    starts = accumulate(lengths, initial=0)
    begin, end = out.begin[:, op.axis], out.end[:, op.axis]
    return tuple(
        out.with_axis(op.axis, np.clip(begin - start, 0, length), np.clip(end - start, 0, length))
        for start, length in zip(starts, lengths, strict=False)
    )


def reshape(_: Reshape, shapes: Sequence[Shape], shape: Shape, out: Boxes) -> tuple[Boxes, ...]:
    """Keep leading axes on which both shapes agree; flattened [C, ...] tails map columns to channels."""
    x = shapes[0]
    need = Boxes.whole(x, out.count)
    for axis in range(min(len(x), len(shape))):
        if x[axis] != shape[axis]:
            break
        need = need.with_axis(axis, out.begin[:, axis], out.end[:, axis])
    else:
        return (need,)
    if axis == len(shape) - 1:
        inner = int(np.prod(x[axis + 1 :], dtype=np.int64))
        low, high = out.begin[:, axis], out.end[:, axis]
        need = need.with_axis(axis, low // inner, -(-high // inner))
    return (need,)


def transpose(op: Transpose, _: Sequence[Shape], __: Shape, out: Boxes) -> tuple[Boxes, ...]:
    """Return the boxes with their axes put back."""
    back = np.argsort(op.order)
    return (Boxes(out.begin[:, back], out.end[:, back]),)


def channel_shuffle(op: ChannelShuffle, shapes: Sequence[Shape], _: Shape, out: Boxes) -> tuple[Boxes, ...]:
    """Return the smallest interval of channels: output c reads (c % groups) * (C / groups) + c // groups."""
    groups, size = op.groups, shapes[0][1] // op.groups
    low_group, low_place = _split(out.begin[:, 1], groups)
    high_group, high_place = _split(out.end[:, 1] - 1, groups)
    wraps = high_place > low_place
    starts_later = wraps & (low_group > 0)
    low = np.where(starts_later, low_place + 1, low_group * size + low_place)
    ends_sooner = wraps & (high_group < groups - 1)
    high = np.where(ends_sooner, (groups - 1) * size + high_place - 1, high_group * size + high_place)
    return (out.with_axis(1, low, high + 1),)


def _split(channel: IntArray, groups: int) -> tuple[IntArray, IntArray]:
    """Return the input group and the place within it of shuffled channels."""
    return channel % groups, channel // groups


def space_to_depth(op: SpaceToDepth, shapes: Sequence[Shape], _: Shape, out: Boxes) -> tuple[Boxes, ...]:
    """Rows and columns scale by the block; channels wrap around with each block offset, or hold them all."""
    channels, b = shapes[0][1], op.block
    need = out.with_axis(2, out.begin[:, 2] * b, out.end[:, 2] * b)
    need = need.with_axis(3, out.begin[:, 3] * b, out.end[:, 3] * b)
    low, high = out.begin[:, 1], out.end[:, 1]
    if op.is_column_major:
        return (need.with_axis(1, low // b**2, (high - 1) // b**2 + 1),)
    same_block = low // channels == (high - 1) // channels
    first = np.where(same_block, low % channels, 0)
    last = np.where(same_block, (high - 1) % channels + 1, channels)
    return (need.with_axis(1, first, last),)


def depth_to_space(op: DepthToSpace, _: Sequence[Shape], shape: Shape, out: Boxes) -> tuple[Boxes, ...]:
    """Rows and columns shrink by the block; where they lie in it decides on the channels."""
    need, b = out, op.block
    first_offset, last_offset = np.zeros(out.count, np.int64), np.zeros(out.count, np.int64)
    for axis in (2, 3):
        low, last = out.begin[:, axis], out.end[:, axis] - 1
        need = need.with_axis(axis, low // b, last // b + 1)
        same_block = low // b == last // b
        first_offset = first_offset * b + np.where(same_block, low % b, 0)
        last_offset = last_offset * b + np.where(same_block, last % b, b - 1)
    low, last = out.begin[:, 1], out.end[:, 1] - 1
    if op.is_column_major:
        low, last = low * b * b + first_offset, last * b * b + last_offset
    else:
        low, last = first_offset * shape[1] + low, last_offset * shape[1] + last
    return (need.with_axis(1, low, last + 1),)

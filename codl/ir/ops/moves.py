"""Operators that move, repeat or resample elements."""

from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from math import prod

import numpy as np

from codl.ir.boxes import Boxes, IntArray, Shape
from codl.ir.ops.operator import Needs, Op, Shapes, check, check_axes, check_groups, take, with_rank

__all__ = [
    "MOST_ROWS",
    "ChannelShuffle",
    "Concat",
    "DepthToSpace",
    "Embedding",
    "Pad",
    "PadMode",
    "Reshape",
    "Slice",
    "SpaceToDepth",
    "Transpose",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Concat(Op):
    """Concatenation of all inputs along `axis` (non-negative)."""

    axis: int

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """Inputs agree along all other axes; their lengths along this one add up."""
        check(len(shapes) > 0, got="no inputs", expected="1 or more")
        axis, first = self.axis, shapes[0]
        check_axes((axis,), first)
        parts = [with_rank(shape, len(first))[axis] for shape in shapes]
        before, after = first[:axis], first[axis + 1 :]
        return [(*before, length, *after) for length in (*parts, sum(parts))]

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Return, of each input, what lies in its part of the axis."""
        lengths = [shape[self.axis] for shape in shapes]
        starts = accumulate(lengths, initial=0)
        begin, end = out.begin[:, self.axis], out.end[:, self.axis]
        return tuple(
            out.with_axis(self.axis, np.clip(begin - start, 0, length), np.clip(end - start, 0, length))
            for start, length in zip(starts, lengths, strict=False)
        )


MOST_ROWS = 1 << 24
"""Of a table: every smaller whole number is a float32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding(Op):
    """Rows of a table, one for each id; negative ids count from its end.

    Inputs: ids, [N] or [B, N], whole numbers as floats; table, [rows, columns]. Output: [..., columns].
    """

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """The ids' shape, and behind it the columns."""
        ids, table = take(shapes, 2)
        check(len(ids) in (1, 2), got=f"ids of shape {list(ids)}", expected="1 or 2 axes")
        rows, columns = with_rank(table, 2)
        check(rows <= MOST_ROWS, got=f"{rows} rows", expected=f"at most {MOST_ROWS}")
        return ids, table, (*ids, columns)

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Return the ids of its rows; of the table all rows, and its columns."""
        table = Boxes.whole(shapes[1], out.count)
        return (
            Boxes(out.begin[:, :-1], out.end[:, :-1]),
            table.with_axis(1, out.begin[:, -1], out.end[:, -1]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reshape(Op):
    """Same values in ONNX order under another shape. Input: x."""

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """Any shape of as many elements."""
        (x,) = take(shapes, 1)
        check(
            prod(x) == prod(output),
            got=f"shape {list(x)}, {prod(x)} elements, as {list(output)}, {prod(output)} elements",
            expected="as many elements",
        )
        return x, output

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Keep leading axes on which both shapes agree; flattened [C, ...] tails map columns to channels."""
        x = shapes[0]
        need = Boxes.whole(x, out.count)
        for axis in range(min(len(x), len(output))):
            if x[axis] != output[axis]:
                break
            need = need.with_axis(axis, out.begin[:, axis], out.end[:, axis])
        else:
            return (need,)
        if axis == len(output) - 1:
            inner = int(np.prod(x[axis + 1 :], dtype=np.int64))
            low, high = out.begin[:, axis], out.end[:, axis]
            need = need.with_axis(axis, low // inner, -(-high // inner))
        return (need,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transpose(Op):
    """Output axis i is input axis `order[i]`. Input: x, any shape."""

    order: tuple[int, ...]

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """The lengths of the axes in their new order."""
        (x,) = take(shapes, 1)
        check_axes(self.order, with_rank(x, len(self.order)))
        return x, tuple([x[axis] for axis in self.order])

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Return the boxes with their axes put back."""
        back = np.argsort(self.order)
        return (Boxes(out.begin[:, back], out.end[:, back]),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelShuffle(Op):
    """[N, C, H, W]: channels seen as [groups, C/groups], transposed."""

    groups: int

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """Nothing changes the shape; the groups divide the channels."""
        x = with_rank(take(shapes, 1)[0], 4)
        check_groups(self.groups, x[1])
        return x, x

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Return the smallest interval of channels.

        Output c reads channel (c % groups) * (C / groups) + c // groups.
        """
        groups, size = self.groups, shapes[0][1] // self.groups
        low_group, low_place = _split(out.begin[:, 1], groups)
        high_group, high_place = _split(out.end[:, 1] - 1, groups)
        wraps = high_place > low_place
        starts_later = wraps & (low_group > 0)
        low = np.where(starts_later, low_place + 1, low_group * size + low_place)
        ends_sooner = wraps & (high_group < groups - 1)
        high = np.where(ends_sooner, (groups - 1) * size + high_place - 1, high_group * size + high_place)
        return (out.with_axis(1, low, high + 1),)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceToDepth(Op):
    """[N, C, H, W] -> [N, C*b*b, H/b, W/b]."""

    block: int
    is_column_major: bool = False
    """As of `DepthToSpace`; ONNX has mode CRD of this one from opset 28 on."""

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """Whole blocks of pixels become channels."""
        (x,), b = take(shapes, 1), self.block
        batch, channels, height, width = with_rank(x, 4)
        check(
            b > 0 and height % b == 0 and width % b == 0,
            got=f"blocks of {b} in shape {list(x)}",
            expected="whole blocks",
        )
        return x, (batch, channels * b * b, height // b, width // b)

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Rows and columns scale by the block; channels wrap around with each block offset."""
        channels, b = shapes[0][1], self.block
        need = out.with_axis(2, out.begin[:, 2] * b, out.end[:, 2] * b)
        need = need.with_axis(3, out.begin[:, 3] * b, out.end[:, 3] * b)
        low, high = out.begin[:, 1], out.end[:, 1]
        if self.is_column_major:
            return (need.with_axis(1, low // b**2, (high - 1) // b**2 + 1),)
        same_block = low // channels == (high - 1) // channels
        first = np.where(same_block, low % channels, 0)
        last = np.where(same_block, (high - 1) % channels + 1, channels)
        return (need.with_axis(1, first, last),)


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthToSpace(Op):
    """[N, C, H, W] -> [N, C/(b*b), H*b, W*b]."""

    block: int
    is_column_major: bool = False
    """ONNX mode CRD: the block offset is innermost in the channels; otherwise (DCR) outermost."""

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """Whole blocks of channels become pixels."""
        (x,), b = take(shapes, 1), self.block
        batch, channels, height, width = with_rank(x, 4)
        check(
            b > 0 and channels % (b * b) == 0,
            got=f"blocks of {b} in shape {list(x)}",
            expected="whole blocks",
        )
        return x, (batch, channels // (b * b), height * b, width * b)

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Rows and columns shrink by the block; where they lie in it decides on the channels."""
        need, b = out, self.block
        first_offset, last_offset = np.zeros(out.count, np.int64), np.zeros(out.count, np.int64)
        for axis in (2, 3):
            low, last = out.begin[:, axis], out.end[:, axis] - 1
            need = need.with_axis(axis, low // b, last // b + 1)
            same_block = low // b == last // b
            first_offset = first_offset * b + np.where(same_block, low % b, 0)
            last_offset = last_offset * b + np.where(same_block, last % b, b - 1)
        low, last = out.begin[:, 1], out.end[:, 1] - 1
        if self.is_column_major:
            low, last = low * b * b + first_offset, last * b * b + last_offset
        else:
            low, last = first_offset * output[1] + low, last_offset * output[1] + last
        return (need.with_axis(1, low, last + 1),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(Op):
    """out[i] = x[begin + i * step] along each axis; steps may be negative. Split makes one an output."""

    begin: tuple[int, ...]
    step: tuple[int, ...]

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """Any number of elements that all lie in the input."""
        (x,) = take(shapes, 1)
        for length, begin, step, count in zip(
            with_rank(x, len(self.begin)),
            self.begin,
            with_rank(self.step, len(x)),
            with_rank(output, len(x)),
            strict=True,
        ):
            last = begin + (count - 1) * step
            check(
                step != 0 and 0 <= begin < length and 0 <= last < length,
                got=f"elements {begin} to {last} of shape {list(x)}",
                expected="elements inside",
            )
        return x, output

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Return the boxes between the first and the last element picked, whichever lies in front."""
        begin, step = np.array(self.begin, np.int64), np.array(self.step, np.int64)
        first, last = begin + out.begin * step, begin + (out.end - 1) * step
        return (Boxes(np.minimum(first, last), np.maximum(first, last) + 1),)


class PadMode(StrEnum):
    """What a padded element holds."""

    CONSTANT = "constant"
    REFLECT = "reflect"
    EDGE = "edge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pad(Op):
    """out[i] = x[i - before] along each axis; negative `before` crops."""

    before: tuple[int, ...]
    mode: PadMode = PadMode.CONSTANT
    value: float = 0.0

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """A mirrored tensor is mirrored once at each end; other padded elements need no limit."""
        (x,) = take(shapes, 1)
        for length, before, count in zip(
            with_rank(x, len(self.before)), self.before, with_rank(output, len(x)), strict=True
        ):
            after = count - before - length
            check(
                self.mode is not PadMode.REFLECT or max(before, after) < length,
                got=f"mirrored pads of {before} and {after} for shape {list(x)}",
                expected="fewer than there are elements",
            )
        return x, output

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Return what lies inside the tensor, or what the padding repeats of it."""
        before, length = np.array(self.before, np.int64), np.array(shapes[0], np.int64)
        first, last = out.begin - before, out.end - 1 - before
        match self.mode:
            case PadMode.CONSTANT:
                low, high = np.clip(first, 0, length), np.clip(last + 1, 0, length)
                return (Boxes(low, np.maximum(low, high)),)
            case PadMode.EDGE:
                return (Boxes(np.clip(first, 0, length - 1), np.clip(last, 0, length - 1) + 1),)
            case PadMode.REFLECT:
                return (_reflect(first, last, length),)


def _split(channel: IntArray, groups: int) -> tuple[IntArray, IntArray]:
    """Return the input group and the place within it of shuffled channels."""
    return channel % groups, channel // groups


def _reflect(first: IntArray, last: IntArray, length: IntArray) -> Boxes:
    """Return the smallest boxes of a mirrored tensor; each side is mirrored once.

    Positions mirror as a triangle wave, which turns at 0 and on both sides at the last element.
    """
    top = length - 1
    from_first, from_last = top - np.abs(top - np.abs(first)), top - np.abs(top - np.abs(last))
    turns_low = (first <= 0) & (last >= 0)
    turns_high = ((first <= top) & (last >= top)) | ((first <= -top) & (last >= -top))
    low = np.where(turns_low, 0, np.minimum(from_first, from_last))
    high = np.where(turns_high, top, np.maximum(from_first, from_last))
    return Boxes(low, high + 1)

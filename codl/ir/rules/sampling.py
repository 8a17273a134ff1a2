"""Region rules of operators that pick, repeat or blend elements along an axis."""

from collections.abc import Sequence

import numpy as np

from codl.ir.boxes import Boxes, IntArray
from codl.ir.graph import Shape
from codl.ir.ops import Pad, PadMode, Resize2d, Slice
from codl.ir.resampling import find_taps


def slice_(op: Slice, _: Sequence[Shape], __: Shape, out: Boxes) -> tuple[Boxes, ...]:
    """Return the boxes between the first and the last element picked, whichever lies in front."""
    begin, step = np.array(op.begin, np.int64), np.array(op.step, np.int64)
    first, last = begin + out.begin * step, begin + (out.end - 1) * step
    return (Boxes(np.minimum(first, last), np.maximum(first, last) + 1),)


def pad(op: Pad, shapes: Sequence[Shape], _: Shape, out: Boxes) -> tuple[Boxes, ...]:
    """Return what lies inside the tensor, or what the padding repeats of it."""
    before, length = np.array(op.before, np.int64), np.array(shapes[0], np.int64)
    first, last = out.begin - before, out.end - 1 - before
    match op.mode:
        case PadMode.CONSTANT:
            low, high = np.clip(first, 0, length), np.clip(last + 1, 0, length)
            return (Boxes(low, np.maximum(low, high)),)
        case PadMode.EDGE:
            return (Boxes(np.clip(first, 0, length - 1), np.clip(last, 0, length - 1) + 1),)
        case PadMode.REFLECT:
            return (_reflect(first, last, length),)


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


def resize2d(op: Resize2d, shapes: Sequence[Shape], shape: Shape, out: Boxes) -> tuple[Boxes, ...]:
    """Return the boxes from the first to the last element that the outputs blend."""
    need = out
    for axis in (0, 1):
        out_length = shape[2 + axis]
        taps = find_taps(op, axis=axis, length=shapes[0][2 + axis], out_length=out_length)
        first = np.minimum(out.begin[:, 2 + axis], out_length - 1)
        last = np.clip(out.end[:, 2 + axis] - 1, 0, out_length - 1)
        need = need.with_axis(2 + axis, taps.low[first], taps.high[last] + 1)
    return (need,)

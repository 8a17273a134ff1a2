"""Resizing of images: shapes, what an output position reads, and with which weight."""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from math import isfinite

import numpy as np
import numpy.typing as npt

from codl.ir.boxes import Boxes, IntArray, Shape
from codl.ir.ops.operator import Needs, Op, Shapes, check, take, with_rank

__all__ = ["Coordinates", "Resize2d", "ResizeMode", "Rounding"]


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
class Resize2d(Op):
    """Resizing of height and width, x [N, C, H, W] -> [N, C, OH, OW]."""

    mode: ResizeMode
    scale: tuple[float, float]
    """(vertical, horizontal), as given or output / input."""
    coordinates: Coordinates = Coordinates.HALF_PIXEL
    rounding: Rounding = Rounding.PREFER_FLOOR

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """Any height and width."""
        x = with_rank(take(shapes, 1)[0], 4)
        check(
            max(x[2:]) <= MOST_POSITIONS,
            got=f"shape {list(x)}",
            expected=f"up to {MOST_POSITIONS} rows and columns",
        )
        check(
            all(isfinite(scale) and scale > 0 for scale in self.scale),
            got=f"scale {self.scale}",
            expected="above 0",
        )
        return x, (*x[:2], *with_rank(output, 4)[2:])

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Return the boxes from the first to the last element that the outputs blend."""
        need = out
        for axis in (0, 1):
            out_length = output[2 + axis]
            taps = find_taps(self, axis=axis, length=shapes[0][2 + axis], out_length=out_length)
            first = np.minimum(out.begin[:, 2 + axis], out_length - 1)
            last = np.clip(out.end[:, 2 + axis] - 1, 0, out_length - 1)
            need = need.with_axis(2 + axis, taps.low[first], taps.high[last] + 1)
        return (need,)


Doubles = npt.NDArray[np.float64]

MOST_POSITIONS = 1 << 24
"""Of an axis that is resized: kernels read positions as float32, which holds no larger odd number."""
_HALF_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Taps:
    """For each output position of an axis: value = (1 - weight) * x[low] + weight * x[high]."""

    low: IntArray
    high: IntArray
    """Equals `low` where the weight is 0, so everywhere for nearest."""
    weight: npt.NDArray[np.float32]
    """Of `high`, in [0, 1)."""


@lru_cache(maxsize=256)
def find_taps(op: Resize2d, *, axis: int, length: int, out_length: int) -> Taps:
    """Return what each output position of one axis reads; the arrays are shared: never write to them.

    Coordinates are computed in float32, step by step as ONNX Runtime does: where a nearest neighbour
    is a close decision, it is the same one.

    Args:
        op: The resizing.
        axis: 0 for height, 1 for width.
        length: Input positions.
        out_length: Output positions.

    Source:
        ONNX operator Resize, coordinate_transformation_mode and nearest_mode.
    """
    position = _original_position(op, axis=axis, length=length, out_length=out_length)
    if op.mode is ResizeMode.NEAREST:
        low = np.clip(_round(op.rounding, position.astype(np.float64)).astype(np.int64), 0, length - 1)
        return Taps(low=low, high=low, weight=np.zeros(out_length, np.float32))
    inside = np.clip(position, np.float32(0), np.float32(length - 1))
    low = inside.astype(np.int64)
    weight = inside - low.astype(np.float32)
    return Taps(low=low, high=low + (weight > 0), weight=weight)


def _original_position(op: Resize2d, *, axis: int, length: int, out_length: int) -> npt.NDArray[np.float32]:
    """Return the input coordinate of each output position, float32, possibly outside the tensor."""
    x, scale, half = np.arange(out_length, dtype=np.float32), np.float32(op.scale[axis]), np.float32(0.5)
    if scale == 1:
        return x
    match op.coordinates:
        case Coordinates.ASYMMETRIC:
            return np.asarray(x / scale)
        case Coordinates.ALIGN_CORNERS:
            return x * np.float32(length - 1) / np.float32(max(1, out_length - 1))
        case Coordinates.PYTORCH_HALF_PIXEL if out_length == 1:
            return x
        case Coordinates.HALF_PIXEL | Coordinates.PYTORCH_HALF_PIXEL:
            return np.asarray((x + half) / scale - half)


def _round(rounding: Rounding, position: Doubles) -> Doubles:
    """Return the neighbour of each position; doubles, so that adding a half is exact.

    Source:
        ONNX Runtime takes a position within 1e-6 of a half for a half: found by testing 250,000 positions.
    """
    below = np.floor(position)
    is_half = np.abs(position - below - 0.5) <= _HALF_TOLERANCE
    match rounding:
        case Rounding.FLOOR:
            return below
        case Rounding.CEIL:
            return np.ceil(position)
        case Rounding.PREFER_FLOOR:
            return np.where(is_half, below, np.floor(position + 0.5))
        case Rounding.PREFER_CEIL:
            return np.where(is_half, below + 1, np.floor(position + 0.5))

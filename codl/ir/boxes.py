"""Boxes of tensors, one as a value and many as arrays.

A box has one half-open interval for each ONNX axis. `Region` is one box as a
value; `Boxes` are many boxes of equal rank as two integer arrays.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Region:
    """A box: one half-open interval [begin, end) for each axis."""

    begin: tuple[int, ...]
    end: tuple[int, ...]

    @classmethod
    def whole(cls, shape: Shape) -> "Region":
        """Return the box that covers a tensor of ``shape``."""
        return _find_whole(tuple(shape))

    @property
    def shape(self) -> Shape:
        """Extent along each axis; zeros for an empty box."""
        return tuple(max(0, e - b) for b, e in zip(self.begin, self.end, strict=True))

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def is_empty(self) -> bool:
        """Whether the box holds no element."""
        for low, high in zip(self.begin, self.end, strict=True):  # noqa: SIM110 - asked 1000 times a plan
            if high <= low:
                return True
        return False

    def cut(self, axis: int, begin: int, end: int) -> "Region":
        """Return this box with the interval of ``axis`` narrowed to [begin, end)."""
        lows, highs = list(self.begin), list(self.end)
        lows[axis], highs[axis] = max(begin, lows[axis]), min(end, highs[axis])
        return Region(tuple(lows), tuple(highs))

    def intersect(self, other: "Region") -> "Region":
        """Return the common box, possibly empty."""
        return Region(
            tuple(map(max, self.begin, other.begin)),
            tuple(map(min, self.end, other.end)),
        )

    def hull(self, other: "Region") -> "Region":
        """Return the smallest box around both; an empty box adds nothing."""
        if self.is_empty:
            return other
        if other.is_empty:
            return self
        return Region(
            tuple(map(min, self.begin, other.begin)),
            tuple(map(max, self.end, other.end)),
        )

    def contains(self, other: "Region") -> bool:
        """Return whether every element of ``other`` lies in this box."""
        if self is other or other.is_empty:
            return True
        for low, begin, end, high in zip(self.begin, other.begin, other.end, self.end, strict=True):
            if begin < low or high < end:
                return False
        return True

    def subtract(self, other: "Region") -> Iterator["Region"]:
        """Yield disjoint boxes that cover this box without ``other``."""
        common = self.intersect(other)
        if common.is_empty:
            if not self.is_empty:
                yield self
            return
        lows, highs = list(self.begin), list(self.end)
        for axis, (low, high) in enumerate(zip(common.begin, common.end, strict=True)):
            begin, end = lows[axis], highs[axis]
            if begin < low:
                highs[axis] = low
                yield Region(tuple(lows), tuple(highs))
            if high < end:
                lows[axis], highs[axis] = high, end
                yield Region(tuple(lows), tuple(highs))
            lows[axis], highs[axis] = low, high


def _fold(fold: np.ufunc, columns: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Reduce each row by a function, column by column: rows are short and many."""
    if not columns.shape[1]:
        return np.asarray(fold.reduce(columns, axis=1))
    return np.asarray(reduce(fold, columns.T))


@lru_cache(maxsize=4096)
def _find_whole(shape: Shape) -> Region:
    return Region((0,) * len(shape), shape)


@dataclass(frozen=True, slots=True)
class Boxes:
    """Many boxes of one rank: `begin` and `end` are integer arrays [count, rank]."""

    begin: IntArray
    end: IntArray

    @classmethod
    def of(cls, regions: Sequence[Region]) -> "Boxes":
        """Return the boxes of ``regions`` (at least one, equal ranks)."""
        return cls(
            np.array([r.begin for r in regions], dtype=np.int64),
            np.array([r.end for r in regions], dtype=np.int64),
        )

    @classmethod
    def whole(cls, shape: Shape, count: int) -> "Boxes":
        """Return ``count`` boxes that each cover a tensor of ``shape``."""
        end = np.empty((count, len(shape)), np.int64)
        for axis, length in enumerate(shape):  # lengths of a stack are arrays
            end[:, axis] = length
        return cls(np.zeros((count, len(shape)), np.int64), end)

    @property
    def count(self) -> int:
        """Number of boxes."""
        return len(self.begin)

    @property
    def extent(self) -> IntArray:
        """Lengths [count, rank], never negative."""
        return np.asarray(np.maximum(self.end - self.begin, 0))

    @property
    def is_empty(self) -> npt.NDArray[np.bool_]:
        """For each box, whether it holds no element."""
        return _fold(np.logical_or, self.end <= self.begin)

    @property
    def size(self) -> IntArray:
        """Number of elements of each box."""
        return _fold(np.multiply, self.extent)

    def region(self, index: int) -> Region:
        """Return one box as a value."""
        return Region(tuple(self.begin[index].tolist()), tuple(self.end[index].tolist()))

    def with_axis(self, axis: int, begin: Any, end: Any) -> "Boxes":
        """Return the boxes with the interval of one axis replaced."""
        lows, highs = self.begin.copy(), self.end.copy()
        lows[:, axis], highs[:, axis] = begin, end
        return Boxes(lows, highs)

"""Attention: every row of a sequence takes a mean of values, weighted by how its query meets the keys."""

from dataclasses import dataclass
from math import isfinite

import numpy as np

from codl.ir.boxes import Boxes, Shape
from codl.ir.ops.operator import Needs, Op, Shapes, broadcast, broadcast_boxes, check, take, with_rank

__all__ = ["MOST_DEPTH", "Attention"]

MOST_DEPTH = 128
"""Channels of a head at most: kernels keep a tile of rows of them in registers and local memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention(Op):
    """softmax(scale * query @ key^T + mask) @ value, for each head.

    Inputs: query [N, QR, C], key [N, KR, C], value [N, KR, C]; mask (optional), which broadcasts to
    [N, heads, QR, KR]. Output: [N, QR, heads * width]. Heads lie next to each other along the channels, from
    `begins` on, so that parts of one packed product are read where they lie.
    """

    heads: int
    depth: int
    """Channels of a head in query and key."""
    width: int
    """Channels of a head in value and output."""
    scale: float
    begins: tuple[int, int, int] = (0, 0, 0)
    """First channel of query, key and value in their tensors."""
    row_axis: int = 1
    """0 where tensors are [QR, N, C], rows before batch."""
    has_mask: bool = False

    @property
    def batch_axis(self) -> int:
        """The axis of the batch."""
        return 1 - self.row_axis

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """Keys and values have as many rows; all heads lie inside the channels; the mask broadcasts."""
        query, key, value, *mask = take(shapes, 3 + self.has_mask)
        check(self.row_axis in (0, 1), got=f"row axis {self.row_axis}", expected="0 or 1")
        check(
            self.heads > 0 and 0 < self.depth <= MOST_DEPTH and 0 < self.width <= MOST_DEPTH,
            got=f"{self.heads} heads of {self.depth} and {self.width} channels",
            expected=f"1 or more of 1 to {MOST_DEPTH}",
        )
        check(isfinite(self.scale), got=f"scale {self.scale}", expected="a finite one")
        sizes = (self.depth, self.depth, self.width)
        for shape, begin, size in zip((query, key, value), self.begins, sizes, strict=True):
            check(
                begin >= 0 and begin + self.heads * size <= with_rank(shape, 3)[2],
                got=f"{self.heads} heads of {size} channels from {begin} on in shape {list(shape)}",
                expected="heads inside",
            )
        batch, rows, keys = query[self.batch_axis], query[self.row_axis], key[self.row_axis]
        scores = (batch, self.heads, rows, keys)
        for shape in mask:
            check(
                broadcast(shape, scores) == scores,
                got=f"mask of shape {list(shape)}",
                expected=f"one that broadcasts to {list(scores)}",
            )
        return (
            query,
            self._order(batch, keys, key[2]),
            self._order(batch, keys, value[2]),
            *mask,
            self._order(batch, rows, self.heads * self.width),
        )

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Return the queries' rows, and all keys and values, of the heads that the channels lie in."""
        low, high = out.begin[:, 2], out.end[:, 2]
        first, last = low // self.width, (high - 1) // self.width + 1
        keys = shapes[1][self.row_axis]
        query, key, value = self.begins
        all_rows = out.with_axis(self.row_axis, 0, keys)
        needs = (
            out.with_axis(2, query + first * self.depth, query + last * self.depth),
            all_rows.with_axis(2, key + first * self.depth, key + last * self.depth),
            all_rows.with_axis(2, value + low, value + high),
        )
        if not self.has_mask:
            return needs
        none = np.zeros(out.count, np.int64)
        begin = (out.begin[:, self.batch_axis], first, out.begin[:, self.row_axis], none)
        end = (out.end[:, self.batch_axis], last, out.end[:, self.row_axis], none + keys)
        scores = Boxes(np.stack(begin, axis=1), np.stack(end, axis=1))
        return (*needs, broadcast_boxes(shapes[3], scores))

    def _order(self, batch: int, rows: int, channels: int) -> Shape:
        return (batch, rows, channels) if self.row_axis == 1 else (rows, batch, channels)

"""Regions: boxes of tensors, and which input boxes an output box needs.

A box has one half-open interval for each ONNX axis. `Region` is one box as a
value; `Boxes` are many boxes of equal rank as two integer arrays, and the rules
work on those only: a single region is an array of one.

Zero padding is clipped away here; real neighbour rows that a slice needs are
its halo, and are part of the answer.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from codl.ir.graph import Graph, Node, Shape
from codl.ir.ops import (
    Affine,
    Binary,
    CombineRows,
    Concat,
    Conv2d,
    MatMul,
    Op,
    Pool2d,
    Reshape,
    ResidualOrder,
    RowSum,
    Softmax,
    SpaceToDepth,
    Unary,
)

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Region:
    """A box: one half-open interval [begin, end) for each axis."""

    begin: tuple[int, ...]
    end: tuple[int, ...]

    @classmethod
    def whole(cls, shape: Shape) -> "Region":
        """Return the box that covers a tensor of ``shape``."""
        return cls((0,) * len(shape), tuple(shape))

    @property
    def shape(self) -> Shape:
        """Extent along each axis; zeros for an empty box."""
        return tuple(max(0, e - b) for b, e in zip(self.begin, self.end, strict=True))

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def is_empty(self) -> bool:
        """Whether the box holds no element."""
        return any(e <= b for b, e in zip(self.begin, self.end, strict=True))

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
        return other.is_empty or self.intersect(other) == other

    def subtract(self, other: "Region") -> Iterator["Region"]:
        """Yield disjoint boxes that cover this box without ``other``."""
        common = self.intersect(other)
        if common.is_empty:
            if not self.is_empty:
                yield self
            return
        rest = self
        for axis in range(len(self.begin)):
            if rest.begin[axis] < common.begin[axis]:
                yield rest.cut(axis, rest.begin[axis], common.begin[axis])
            if common.end[axis] < rest.end[axis]:
                yield rest.cut(axis, common.end[axis], rest.end[axis])
            rest = rest.cut(axis, common.begin[axis], common.end[axis])


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
        end = np.broadcast_to(np.array(shape, dtype=np.int64), (count, len(shape)))
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
        return np.asarray((self.end <= self.begin).any(axis=1))

    @property
    def size(self) -> IntArray:
        """Number of elements of each box."""
        return np.asarray(self.extent.prod(axis=1))

    def region(self, index: int) -> Region:
        """Return one box as a value."""
        return Region(tuple(self.begin[index].tolist()), tuple(self.end[index].tolist()))

    def with_axis(self, axis: int, begin: Any, end: Any) -> "Boxes":
        """Return the boxes with the interval of one axis replaced."""
        lows, highs = self.begin.copy(), self.end.copy()
        lows[:, axis], highs[:, axis] = begin, end
        return Boxes(lows, highs)


def input_window(
    begin: IntArray, end: IntArray, *, length: int, kernel: int, stride: int, dilation: int, pad: int
) -> tuple[IntArray, IntArray]:
    """Return the input positions that outputs [begin, end) of a sliding window read, clipped to the tensor.

    Two slices of a cut overlap by the window's reach minus the stride: this is
    the halo that both devices read.

    Args:
        begin: First output of each slice.
        end: One past the last output of each slice; larger than ``begin``.
        length: Input positions of the whole tensor, without padding.
        kernel: Window taps.
        stride: Step between neighbouring windows.
        dilation: Step between neighbouring taps.
        pad: Zeros before the first input. Those behind need no argument: the clip does it.

    Returns:
        First and one past the last input of each slice. A window wholly in the padding reads nothing.

    Source:
        ONNX operator Conv, output shape rule; CoDL, equation 1.
    """
    low = begin * stride - pad
    high = (end - 1) * stride - pad + dilation * (kernel - 1) + 1
    low, high = np.clip(low, 0, length), np.clip(high, 0, length)
    return low, np.maximum(low, high)


def input_boxes(node: Node, graph: Graph, out: Boxes) -> tuple[Boxes, ...]:
    """Return, for each input of ``node``, the boxes it needs to compute the output boxes ``out``.

    Args:
        node: The operator with its epilogue.
        graph: Where the shapes of the node's tensors are found.
        out: Boxes [count, rank of the output]. An empty one needs nothing.

    Returns:
        One `Boxes` of equal count for each input, in the node's order, constants
        included. Where the exact need is not a box, a box around it: not always the
        smallest, since gaps between dilated taps and inside reshaped tails count as needed.
    """
    shapes = tuple(graph.shape(name) for name in node.inputs)
    has_residual = node.epilogue.residual is not ResidualOrder.NONE
    own = shapes[:-1] if has_residual else shapes
    needs = _RULES[type(node.op)](node.op, own, graph.shape(node.output), out)
    if has_residual:
        needs = (*needs, out)
    empty = out.is_empty[:, None]
    if not empty.any():
        return needs
    return tuple(Boxes(np.where(empty, 0, b.begin), np.where(empty, 0, b.end)) for b in needs)


def input_regions(node: Node, graph: Graph, out: Region) -> tuple[Region, ...]:
    """Return what `input_boxes` says about a single output region."""
    return tuple(boxes.region(0) for boxes in input_boxes(node, graph, Boxes.of([out])))


def find_splittable_axes(node: Node, graph: Graph) -> tuple[int, ...]:
    """Return the output axes along which a cut saves work: some input shrinks with the output.

    Cutting along another axis would be correct too, but every device would read
    and compute from all of the input.
    """
    shape = graph.shape(node.output)
    whole = Region.whole(shape)
    full = sum(r.size for r in input_regions(node, graph, whole))
    axes = []
    for axis, length in enumerate(shape):
        if length < 2:
            continue
        part = sum(r.size for r in input_regions(node, graph, whole.cut(axis, 0, 1)))
        if part < full:
            axes.append(axis)
    return tuple(axes)


# ---------------------------------------------------------------------------
# One rule for each operator: (op, input shapes, output shape, output boxes) -> input boxes.


def _conv2d(op: Conv2d, shapes: Sequence[Shape], _: Shape, out: Boxes) -> tuple[Boxes, ...]:
    x, weight = shapes[0], shapes[1]
    group_outputs, group_inputs = weight[0] // op.groups, weight[1]
    need = _slide(op, x, out)
    first_group = out.begin[:, 1] // group_outputs
    last_group = (out.end[:, 1] - 1) // group_outputs
    need = need.with_axis(1, first_group * group_inputs, (last_group + 1) * group_inputs)
    kernels = Boxes.whole(weight, out.count).with_axis(0, out.begin[:, 1], out.end[:, 1])
    if not op.has_bias:
        return need, kernels
    return need, kernels, Boxes(out.begin[:, 1:2], out.end[:, 1:2])


def _slide(op: Conv2d | Pool2d, x: Shape, out: Boxes) -> Boxes:
    """Return the boxes of ``x`` under the windows of ``out``; batch and channels as in ``out``."""
    need = out
    for axis in (0, 1):
        low, high = input_window(
            out.begin[:, 2 + axis],
            out.end[:, 2 + axis],
            length=x[2 + axis],
            kernel=op.kernel[axis],
            stride=op.stride[axis],
            dilation=op.dilation[axis],
            pad=op.pads[axis],
        )
        need = need.with_axis(2 + axis, low, high)
    return need


def _pool2d(op: Pool2d, shapes: Sequence[Shape], _: Shape, out: Boxes) -> tuple[Boxes, ...]:
    return (_slide(op, shapes[0], out),)


def _matmul(op: MatMul, shapes: Sequence[Shape], shape: Shape, out: Boxes) -> tuple[Boxes, ...]:
    rank = len(shape)
    a = _broadcast(shapes[0], out.with_axis(rank - 1, 0, shapes[0][-1]), free_axes=2)
    b = _broadcast(shapes[1], out.with_axis(rank - 2, 0, shapes[1][-2]), free_axes=2)
    if not op.has_bias:
        return a, b
    return a, b, Boxes(out.begin[:, -1:], out.end[:, -1:])


def _row_sum(_: RowSum, shapes: Sequence[Shape], __: Shape, out: Boxes) -> tuple[Boxes, ...]:
    return (out.with_axis(3, 0, shapes[0][3]),)


def _combine_rows(_: CombineRows, shapes: Sequence[Shape], __: Shape, out: Boxes) -> tuple[Boxes, ...]:
    return (out.with_axis(2, 0, shapes[0][2]),)


def _pointwise(_: Unary | Binary, shapes: Sequence[Shape], __: Shape, out: Boxes) -> tuple[Boxes, ...]:
    return tuple(_broadcast(shape, out) for shape in shapes)


def _broadcast(shape: Shape, out: Boxes, *, free_axes: int = 0) -> Boxes:
    """Return the boxes of a tensor of ``shape`` broadcast (ONNX rules) against ``out``.

    The last ``free_axes`` axes are taken as they are: they are no broadcast axes.
    """
    rank, skipped = len(shape), out.begin.shape[1] - len(shape)
    begin, end = out.begin[:, skipped:].copy(), out.end[:, skipped:].copy()
    for axis in range(rank - free_axes):
        if shape[axis] == 1:
            begin[:, axis], end[:, axis] = 0, 1
    return Boxes(begin, end)


def _affine(_: Affine, __: Sequence[Shape], ___: Shape, out: Boxes) -> tuple[Boxes, ...]:
    channels = Boxes(out.begin[:, 1:2], out.end[:, 1:2])
    return out, channels, channels


def _concat(op: Concat, shapes: Sequence[Shape], _: Shape, out: Boxes) -> tuple[Boxes, ...]:
    needs, start = [], 0
    for shape in shapes:
        length = shape[op.axis]
        low = np.clip(out.begin[:, op.axis] - start, 0, length)
        high = np.clip(out.end[:, op.axis] - start, 0, length)
        needs.append(out.with_axis(op.axis, low, high))
        start += length
    return tuple(needs)


def _reshape(_: Reshape, shapes: Sequence[Shape], shape: Shape, out: Boxes) -> tuple[Boxes, ...]:
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


def _softmax(op: Softmax, shapes: Sequence[Shape], _: Shape, out: Boxes) -> tuple[Boxes, ...]:
    return (out.with_axis(op.axis, 0, shapes[0][op.axis]),)


def _space_to_depth(op: SpaceToDepth, shapes: Sequence[Shape], _: Shape, out: Boxes) -> tuple[Boxes, ...]:
    """Rows and columns scale by the block; channels wrap around with each block offset."""
    channels, b = shapes[0][1], op.block
    need = out.with_axis(2, out.begin[:, 2] * b, out.end[:, 2] * b)
    need = need.with_axis(3, out.begin[:, 3] * b, out.end[:, 3] * b)
    low, high = out.begin[:, 1], out.end[:, 1]
    same_block = low // channels == (high - 1) // channels
    first = np.where(same_block, low % channels, 0)
    last = np.where(same_block, (high - 1) % channels + 1, channels)
    return (need.with_axis(1, first, last),)


_RULES: dict[type[Op], Callable[[Any, Sequence[Shape], Shape, Boxes], tuple[Boxes, ...]]] = {
    Conv2d: _conv2d,
    MatMul: _matmul,
    Pool2d: _pool2d,
    RowSum: _row_sum,
    CombineRows: _combine_rows,
    Unary: _pointwise,
    Binary: _pointwise,
    Affine: _affine,
    Concat: _concat,
    Reshape: _reshape,
    Softmax: _softmax,
    SpaceToDepth: _space_to_depth,
}

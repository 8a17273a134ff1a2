"""Convolutions, poolings and matrix products."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from codl.ir.boxes import Boxes, IntArray, Shape
from codl.ir.ops.operator import (
    Needs,
    Op,
    Shapes,
    broadcast,
    broadcast_boxes,
    check,
    check_groups,
    take,
    with_rank,
)

__all__ = ["Conv2d", "ConvTranspose2d", "MatMul", "Pads", "Pair", "Pool2d", "PoolKind"]

Pair = tuple[int, int]
"""(vertical, horizontal)"""
Pads = tuple[int, int, int, int]
"""(top, left, bottom, right)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv2d(Op):
    """2-D convolution. Inputs: x [N, IC, H, W], weight [OC, IC/groups, KH, KW], bias [OC] (optional).

    A kernel may compute the outputs of a cell of `tile` rows and columns together, from all that any of them
    reads, as minimal filtering does. Cells lie on the grid of the whole tensor.
    """

    kernel: Pair
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    pads: Pads = (0, 0, 0, 0)
    groups: int = 1
    has_bias: bool = False
    tile: Pair = (1, 1)

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """Every window lies in the padded image; each output channel has a kernel and a bias."""
        x, weight, *_bias = take(shapes, 2 + self.has_bias)
        (batch, _channels, *image), (outputs, inputs, *_kernel) = with_rank(x, 4), with_rank(weight, 4)
        check_groups(self.groups, outputs)
        check(min(self.tile) > 0, got=f"tile {self.tile}", expected="1 or more")
        lengths = [room // stride + 1 for room, stride in zip(_find_room(self, x), self.stride, strict=True)]
        bias = ((outputs,),) if self.has_bias else ()
        return (
            (batch, inputs * self.groups, *image),
            (outputs, inputs, *self.kernel),
            *bias,
            (batch, outputs, *lengths),
        )

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Return the windows of whole tiles over the groups' channels, the channels' kernels, their bias."""
        x, weight = shapes[0], shapes[1]
        need = _with_groups(
            _slide(self, x, _widen(out, self.tile)), out, inputs=weight[1], outputs=weight[0] // self.groups
        )
        kernels = Boxes.whole(weight, out.count).with_axis(0, out.begin[:, 1], out.end[:, 1])
        return (need, kernels, *_bias(self, out))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvTranspose2d(Op):
    """2-D transposed convolution. Inputs: x [N, IC, H, W], weight [IC, OC/groups, KH, KW], bias [OC] or none.

    Output padding is already applied: the output shape includes it.
    """

    kernel: Pair
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    pads: Pads = (0, 0, 0, 0)
    groups: int = 1
    has_bias: bool = False

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """Output padding adds less than a stride, or than a step between taps."""
        x, weight, *_bias = take(shapes, 2 + self.has_bias)
        (batch, channels, *image), (_inputs, outputs, *_kernel) = with_rank(x, 4), with_rank(weight, 4)
        check_groups(self.groups, channels)
        _check_window(self)
        lengths = []
        for axis, length in enumerate(image):
            reach = (length - 1) * self.stride[axis] + (self.kernel[axis] - 1) * self.dilation[axis] + 1
            least = reach - self.pads[axis] - self.pads[2 + axis]
            most = least + max(self.stride[axis], self.dilation[axis]) - 1
            lengths.append(_clamp(with_rank(output, 4)[2 + axis], max(1, least), most))
        outputs *= self.groups
        bias = ((outputs,),) if self.has_bias else ()
        kernels = (channels, outputs // self.groups, *self.kernel)
        return x, kernels, *bias, (batch, outputs, *lengths)

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Return the pixels whose windows reach the output, and the kernels between the groups' channels.

        Input pixel i writes to the outputs i * stride - pad + tap * dilation.
        """
        x, weight = shapes[0], shapes[1]
        inputs, outputs = x[1] // self.groups, weight[1]
        need = _with_groups(out, out, inputs=inputs, outputs=outputs)
        kernels = Boxes.whole(weight, out.count).with_axis(0, need.begin[:, 1], need.end[:, 1])
        is_one_group = need.end[:, 1] - need.begin[:, 1] == inputs
        low, high = out.begin[:, 1] % outputs, (out.end[:, 1] - 1) % outputs + 1
        kernels = kernels.with_axis(1, np.where(is_one_group, low, 0), np.where(is_one_group, high, outputs))
        for axis in (0, 1):
            reach, stride, pad = (
                self.dilation[axis] * (self.kernel[axis] - 1),
                self.stride[axis],
                self.pads[axis],
            )
            low = -((reach - pad - out.begin[:, 2 + axis]) // stride)
            high = (out.end[:, 2 + axis] - 1 + pad) // stride + 1
            low, high = clip(low, x[2 + axis]), clip(high, x[2 + axis])
            need = need.with_axis(2 + axis, low, np.maximum(low, high))
        return (need, kernels, *_bias(self, out))


@dataclass(frozen=True, slots=True, kw_only=True)
class MatMul(Op):
    """Matrix product. Inputs: a [..., M, K], b [K, N] or [..., K, N], bias [N] (optional).

    ONNX Gemm becomes this one: alpha, beta and transB are folded into its constants.
    """

    has_bias: bool = False

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """Rows of a, columns of b; leading axes broadcast."""
        a, b, *_bias = take(shapes, 2 + self.has_bias)
        check(min(len(a), len(b)) > 1, got=f"shapes {list(a)} and {list(b)}", expected="matrices")
        leading, columns = broadcast(a[:-2], b[:-2]), b[-1]
        bias = ((columns,),) if self.has_bias else ()
        return a, (*b[:-2], a[-1], columns), *bias, (*leading, a[-2], columns)

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Return the rows of a, the columns of b and of the bias; leading axes broadcast."""
        rank = len(output)
        a = broadcast_boxes(shapes[0], out.with_axis(rank - 1, 0, shapes[0][-1]), free_axes=2)
        b = broadcast_boxes(shapes[1], out.with_axis(rank - 2, 0, shapes[1][-2]), free_axes=2)
        if not self.has_bias:
            return a, b
        return a, b, Boxes(out.begin[:, -1:], out.end[:, -1:])


class PoolKind(StrEnum):
    """What a pooling window keeps."""

    MAX = "max"
    AVERAGE = "average"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool2d(Op):
    """Pooling over windows. Input: x [N, C, H, W]. Rounding is already applied to the output shape."""

    kind: PoolKind
    kernel: Pair
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    pads: Pads = (0, 0, 0, 0)
    counts_padding: bool = False
    """Average only: padded zeros count as elements (ONNX count_include_pad)."""

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """The last window may lie in the padding alone, begin there, or not exist: rounding decides."""
        (x,) = take(shapes, 1)
        lengths = []
        for axis, room in enumerate(_find_room(self, with_rank(x, 4))):
            stride, reached = self.stride[axis], self.pads[axis] + x[2 + axis] - 1
            least = min(room // stride, reached // stride) + 1
            most = min(-(-room // stride), (reached + self.pads[2 + axis]) // stride) + 1
            lengths.append(_clamp(with_rank(output, 4)[2 + axis], least, most))
        return x, (*x[:2], *lengths)

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Return the windows; channels as in the output."""
        return (_slide(self, shapes[0], out),)


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
    low, high = clip(low, length), clip(high, length)
    return low, np.maximum(low, high)


def clip(positions: IntArray, length: int) -> IntArray:
    """Return positions moved into [0, length]: what `numpy.clip` does, in a third of the time."""
    return np.asarray(np.minimum(np.maximum(positions, 0), length))


def _widen(out: Boxes, tile: Pair) -> Boxes:
    """Return the boxes rounded out to whole tiles of the grid; they may reach beyond the tensor."""
    for axis, cell in enumerate(tile, start=2):
        if cell == 1:
            continue
        out = out.with_axis(axis, out.begin[:, axis] // cell * cell, -(-out.end[:, axis] // cell) * cell)
    return out


def _slide(op: Conv2d | Pool2d, x: Shape, out: Boxes) -> Boxes:
    """Return the boxes of ``x`` under the windows of ``out``; batch and channels as in ``out``."""
    begin, end = out.begin.copy(), out.end.copy()
    for axis in (0, 1):
        begin[:, 2 + axis], end[:, 2 + axis] = input_window(
            out.begin[:, 2 + axis],
            out.end[:, 2 + axis],
            length=x[2 + axis],
            kernel=op.kernel[axis],
            stride=op.stride[axis],
            dilation=op.dilation[axis],
            pad=op.pads[axis],
        )
    return Boxes(begin, end)


def _with_groups(need: Boxes, out: Boxes, *, inputs: int, outputs: int) -> Boxes:
    """Return ``need`` over all input channels of the groups that the output channels lie in.

    A group has ``inputs`` input and ``outputs`` output channels.
    """
    first, last = out.begin[:, 1] // outputs, (out.end[:, 1] - 1) // outputs
    return need.with_axis(1, first * inputs, (last + 1) * inputs)


def _bias(op: Conv2d | ConvTranspose2d, out: Boxes) -> tuple[Boxes, ...]:
    return (Boxes(out.begin[:, 1:2], out.end[:, 1:2]),) if op.has_bias else ()


def _check_window(op: Conv2d | ConvTranspose2d | Pool2d) -> None:
    check(
        min(*op.kernel, *op.stride, *op.dilation) > 0 and min(op.pads) >= 0,
        got=f"kernel {op.kernel}, stride {op.stride}, dilation {op.dilation}, pads {op.pads}",
        expected="positive ones and pads of 0 or more",
    )


def _find_room(op: Conv2d | Pool2d, x: Shape) -> list[int]:
    """Return how far a window can move over the padded rows and columns."""
    _check_window(op)
    room = [
        op.pads[axis] + x[2 + axis] + op.pads[2 + axis] - (op.kernel[axis] - 1) * op.dilation[axis] - 1
        for axis in (0, 1)
    ]
    check(
        min(room) >= 0,
        got=f"kernel {op.kernel} of dilation {op.dilation} over shape {list(x)} with pads {op.pads}",
        expected="a kernel that fits",
    )
    return room


def _clamp(length: int, least: int, most: int) -> int:
    return max(least, min(length, most))

"""Region rules of convolutions, poolings and matrix products."""

from collections.abc import Sequence

import numpy as np

from codl.ir.boxes import Boxes, IntArray
from codl.ir.graph import Shape
from codl.ir.ops import Conv2d, ConvTranspose2d, MatMul, Pair, Pool2d
from codl.ir.rules.pointwise import broadcast


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


def conv2d(op: Conv2d, shapes: Sequence[Shape], _: Shape, out: Boxes) -> tuple[Boxes, ...]:
    """Return the windows of whole tiles over the groups' channels, the channels' kernels, their bias."""
    x, weight = shapes[0], shapes[1]
    need = _with_groups(
        _slide(op, x, _widen(out, op.tile)), out, inputs=weight[1], outputs=weight[0] // op.groups
    )
    kernels = Boxes.whole(weight, out.count).with_axis(0, out.begin[:, 1], out.end[:, 1])
    return (need, kernels, *_bias(op, out))


def pool2d(op: Pool2d, shapes: Sequence[Shape], _: Shape, out: Boxes) -> tuple[Boxes, ...]:
    """Return the windows; channels as in the output."""
    return (_slide(op, shapes[0], out),)


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

    Args:
        need: Boxes of x.
        out: Boxes of the output.
        inputs: Input channels of a group.
        outputs: Output channels of a group.
    """
    first, last = out.begin[:, 1] // outputs, (out.end[:, 1] - 1) // outputs
    return need.with_axis(1, first * inputs, (last + 1) * inputs)


def _bias(op: Conv2d | ConvTranspose2d, out: Boxes) -> tuple[Boxes, ...]:
    return (Boxes(out.begin[:, 1:2], out.end[:, 1:2]),) if op.has_bias else ()


def conv_transpose2d(op: ConvTranspose2d, shapes: Sequence[Shape], _: Shape, out: Boxes) -> tuple[Boxes, ...]:
    """Return the pixels whose windows reach the output, and the kernels between the groups' channels.

    Input pixel i writes to the outputs i * stride - pad + tap * dilation.
    """
    x, weight = shapes[0], shapes[1]
    inputs, outputs = x[1] // op.groups, weight[1]
    need = _with_groups(out, out, inputs=inputs, outputs=outputs)
    kernels = Boxes.whole(weight, out.count).with_axis(0, need.begin[:, 1], need.end[:, 1])
    is_one_group = need.end[:, 1] - need.begin[:, 1] == inputs
    low, high = out.begin[:, 1] % outputs, (out.end[:, 1] - 1) % outputs + 1
    kernels = kernels.with_axis(1, np.where(is_one_group, low, 0), np.where(is_one_group, high, outputs))
    for axis in (0, 1):
        reach, stride, pad = op.dilation[axis] * (op.kernel[axis] - 1), op.stride[axis], op.pads[axis]
        low = -((reach - pad - out.begin[:, 2 + axis]) // stride)
        high = (out.end[:, 2 + axis] - 1 + pad) // stride + 1
        low, high = clip(low, x[2 + axis]), clip(high, x[2 + axis])
        need = need.with_axis(2 + axis, low, np.maximum(low, high))
    return (need, kernels, *_bias(op, out))


def matmul(op: MatMul, shapes: Sequence[Shape], shape: Shape, out: Boxes) -> tuple[Boxes, ...]:
    """Return the rows of a, the columns of b and of the bias; leading axes broadcast."""
    rank = len(shape)
    a = broadcast(shapes[0], out.with_axis(rank - 1, 0, shapes[0][-1]), free_axes=2)
    b = broadcast(shapes[1], out.with_axis(rank - 2, 0, shapes[1][-2]), free_axes=2)
    if not op.has_bias:
        return a, b
    return a, b, Boxes(out.begin[:, -1:], out.end[:, -1:])

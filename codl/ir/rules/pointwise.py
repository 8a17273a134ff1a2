"""Region rules of functions of single elements: an operand's box is the output's, where nothing repeats."""

from collections.abc import Sequence

from codl.ir.boxes import Boxes
from codl.ir.graph import Shape
from codl.ir.ops import Affine, Binary, Normalize, Unary


def unary(_: Unary, __: Sequence[Shape], ___: Shape, out: Boxes) -> tuple[Boxes, ...]:
    """Return the output's boxes."""
    return (out,)


def binary(_: Binary, shapes: Sequence[Shape], __: Shape, out: Boxes) -> tuple[Boxes, ...]:
    """Return the output's boxes, as far as each operand is not repeated."""
    return tuple(broadcast(shape, out) for shape in shapes)


def affine(_: Affine, __: Sequence[Shape], ___: Shape, out: Boxes) -> tuple[Boxes, ...]:
    """Return the output's boxes, and their channels of scale and shift."""
    channels = Boxes(out.begin[:, 1:2], out.end[:, 1:2])
    return out, channels, channels


def normalize(_: Normalize, __: Sequence[Shape], ___: Shape, out: Boxes) -> tuple[Boxes, ...]:
    """Return the output's boxes, and factor and summand of their channels."""
    return out, out.with_axis(2, 0, 1).with_axis(3, 0, 2)


def broadcast(shape: Shape, out: Boxes, *, free_axes: int = 0) -> Boxes:
    """Return the boxes of a tensor of ``shape`` broadcast (ONNX rules) against ``out``.

    The last ``free_axes`` axes are taken as they are: they are no broadcast axes.
    """
    rank, skipped = len(shape), out.begin.shape[1] - len(shape)
    begin, end = out.begin[:, skipped:].copy(), out.end[:, skipped:].copy()
    for axis in range(rank - free_axes):
        if shape[axis] == 1:
            begin[:, axis], end[:, axis] = 0, 1
    return Boxes(begin, end)

"""Functions of single elements."""

from dataclasses import dataclass
from enum import StrEnum

from codl.ir.boxes import Boxes, Shape
from codl.ir.ops.operator import Needs, Op, Shapes, broadcast, broadcast_boxes, check_axes, take, with_rank

__all__ = ["Affine", "Binary", "BinaryKind", "Normalize", "Unary"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary(Op):
    """Pointwise function of one tensor; which one is the node's epilogue. Input: x, any shape."""

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """Nothing changes the shape."""
        (x,) = take(shapes, 1)
        return x, x

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Return the output's boxes."""
        return (out,)


class BinaryKind(StrEnum):
    """Pointwise functions of two values."""

    ADD = "add"
    MUL = "mul"
    SUB = "sub"
    DIV = "div"
    PRELU = "prelu"
    """a where a >= 0, a * b elsewhere"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary(Op):
    """Pointwise function of two tensors with ONNX (multidirectional) broadcasting. Inputs: a, b."""

    kind: BinaryKind

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """Both broadcast."""
        a, b = take(shapes, 2)
        return a, b, broadcast(a, b)

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Return the output's boxes, as far as each operand is not repeated."""
        return tuple(broadcast_boxes(shape, out) for shape in shapes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Affine(Op):
    """Per-channel x * scale + shift. Inputs: x [N, C, ...], scale [C], shift [C]."""

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """A scale and a shift for each channel."""
        x = take(shapes, 3)[0]
        check_axes((1,), x)
        return x, x[1:2], x[1:2], x

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Return the output's boxes, and their channels of scale and shift."""
        channels = Boxes(out.begin[:, 1:2], out.end[:, 1:2])
        return out, channels, channels


@dataclass(frozen=True, slots=True, kw_only=True)
class Normalize(Op):
    """Inputs: x [N, C, H, W], factors [N, C, 1, 2] -> x * factor + summand."""

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """A factor and a summand for each channel of each image."""
        x = with_rank(take(shapes, 2)[0], 4)
        return x, (*x[:2], 1, 2), x

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Return the output's boxes, and factor and summand of their channels."""
        return out, out.with_axis(2, 0, 1).with_axis(3, 0, 2)

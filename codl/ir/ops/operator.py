"""The base class of operators, and the checks that their rules share."""

from collections.abc import Sequence
from dataclasses import dataclass

from codl.ir.boxes import Boxes, Shape

__all__ = ["MisfitError", "Op"]

Shapes = Sequence[Shape]
Needs = tuple[Boxes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """An operator: a frozen dataclass of its attributes."""

    def find_shapes(self, shapes: Shapes, output: Shape) -> Shapes:
        """Return the shapes that inputs and output must have, the output's last.

        Args:
            shapes: Of the inputs, without a residual's.
            output: Shape that the graph states; where the operator leaves it open it comes back.

        Raises:
            MisfitError: Attributes that do not fit the inputs, whatever the output.
        """
        raise NotImplementedError

    def find_needs(self, shapes: Shapes, output: Shape, out: Boxes) -> Needs:
        """Return the boxes of each input that some boxes of the output need.

        Args:
            shapes: Of the inputs, without a residual's.
            output: Of the output.
            out: Boxes of the output; what is returned for an empty one is not used.
        """
        raise NotImplementedError


class MisfitError(Exception):
    """Attributes that do not fit the shapes, whatever the output."""

    def __init__(self, *, got: str, expected: str) -> None:
        super().__init__(f"got {got}, expected {expected}")


def take(shapes: Shapes, count: int) -> Shapes:
    """Return the inputs if there are ``count`` of them."""
    if len(shapes) != count:
        raise MisfitError(got=f"{len(shapes)} inputs", expected=str(count))
    return shapes


def with_rank(shape: Shape, rank: int) -> Shape:
    """Return a shape that has this many axes; raise `MisfitError` for another."""
    if len(shape) != rank:
        raise MisfitError(got=f"shape {list(shape)}", expected=f"{rank} axes")
    return shape


def check(is_sound: bool, *, got: str, expected: str) -> None:
    """Raise `MisfitError` unless the claim is sound."""
    if not is_sound:
        raise MisfitError(got=got, expected=expected)


def check_axes(axes: Sequence[int], x: Shape) -> None:
    """Raise `MisfitError` unless the axes are distinct ones of ``x``."""
    check(
        all(0 <= axis < len(x) for axis in axes) and len(set(axes)) == len(axes),
        got=f"axes {list(axes)} of shape {list(x)}",
        expected=f"distinct ones below {len(x)}",
    )


def check_groups(groups: int, channels: int) -> None:
    """Raise `MisfitError` unless the groups divide the channels."""
    check(
        groups > 0 and channels % groups == 0,
        got=f"{channels} channels in {groups} groups",
        expected="groups that divide them",
    )


def broadcast(a: Shape, b: Shape) -> Shape:
    """Return the common shape by ONNX's multidirectional broadcasting."""
    rank = max(len(a), len(b))
    wide_a, wide_b = ((1,) * (rank - len(shape)) + shape for shape in (a, b))
    check(
        all(m == n or 1 in (m, n) for m, n in zip(wide_a, wide_b, strict=True)),
        got=f"inputs of shapes {list(a)} and {list(b)}",
        expected="shapes that broadcast",
    )
    return tuple([n if m == 1 else m for m, n in zip(wide_a, wide_b, strict=True)])


def broadcast_boxes(shape: Shape, out: Boxes, *, free_axes: int = 0) -> Boxes:
    """Return the boxes of a tensor of ``shape`` broadcast (ONNX rules) against ``out``.

    The last ``free_axes`` axes are taken as they are: they are no broadcast axes.
    """
    rank, skipped = len(shape), out.begin.shape[1] - len(shape)
    begin, end = out.begin[:, skipped:].copy(), out.end[:, skipped:].copy()
    for axis in range(rank - free_axes):
        if shape[axis] == 1:
            begin[:, axis], end[:, axis] = 0, 1
    return Boxes(begin, end)

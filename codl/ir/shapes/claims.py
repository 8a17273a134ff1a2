"""What shape rules ask of attributes and shapes, and the error that says what does not fit."""

from collections.abc import Sequence

from codl.ir.graph import Shape

Shapes = Sequence[Shape]


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

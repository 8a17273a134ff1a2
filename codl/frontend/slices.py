"""Which elements a Slice picks."""

from collections.abc import Iterator, Sequence

from codl.frontend.onnx_node import OnnxNode
from codl.ir.graph import Shape


def find_picks(
    shape: Shape,
    *,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> tuple[range, ...]:
    """Return the positions picked along each axis of a tensor of ``shape``.

    Args:
        shape: Shape of the input.
        starts: First position for each of ``axes``; counts from the end where negative, clipped.
        ends: One past the last position, likewise.
        axes: Axes that are cut; the leading ones without it.
        steps: Step along each of ``axes``, not 0; 1 without it.

    Source:
        ONNX operator Slice; limits work as in Python.
    """
    picks = [range(length) for length in shape]
    for place, axis in enumerate(axes or range(len(starts))):
        step = steps[place] if steps else 1
        picks[axis] = range(shape[axis])[starts[place] : ends[place] : step]
    return tuple(picks)


def find_sliced_shape(node: OnnxNode, *, x: Shape) -> Shape:
    """Return the output shape of a Slice before opset 10, whose limits are attributes."""
    starts, ends = node.integers("starts") or (), node.integers("ends") or ()
    picks = find_picks(x, starts=starts, ends=ends, axes=node.integers("axes"), steps=None)
    return tuple(len(pick) for pick in picks)


def find_slice_problems(node: OnnxNode, *, x: Shape | None) -> Iterator[str]:
    """Yield one sentence for each attribute of a Slice before opset 10 that ONNX does not allow."""
    starts, ends = node.integers("starts"), node.integers("ends")
    if starts is None or ends is None:
        yield node.sentence(got="no starts or ends", expected="both")
        return
    axes = node.integers("axes") or tuple(range(len(starts)))
    if not len(starts) == len(ends) == len(axes):
        yield node.sentence(
            got=f"{len(starts)} starts, {len(ends)} ends and {len(axes)} axes",
            expected="as many of each",
        )
    elif len(set(axes)) < len(axes):
        yield node.sentence(got=f"axes {list(axes)}", expected="each axis once")
    elif x is not None and any(not -len(x) <= axis < len(x) for axis in axes):
        yield node.sentence(
            got=f"axes {list(axes)} of an input of shape {list(x)}",
            expected=f"axes from {-len(x)} to {len(x) - 1}",
        )

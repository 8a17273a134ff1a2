"""Finds transposes of many axes between reshapes: without axes of one element they are transposes of few."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from codl.frontend.onnx_node import OnnxNode
from codl.frontend.producers import Producers
from codl.ir.graph import Shape

_RESHAPING = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")
_MOST_AXES = 4
"""Axes that a graph's tensors have at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Three nodes of a model, the middle one a Transpose of more axes than a graph's tensors have."""

    source: str
    """What the first node reads."""
    shape: Shape
    """Lengths of the axes that are moved, none of them 1."""
    order: tuple[int, ...]
    """Of these axes."""
    inner: tuple[OnnxNode, OnnxNode]
    """The nodes before the last: nothing else reads what they write."""
    last: OnnxNode


def find_turns(
    nodes: Sequence[OnnxNode], shapes: Mapping[str, Shape], *, outputs: Sequence[str]
) -> Iterator[Turn]:
    """Yield the turns among the nodes of a model.

    Args:
        nodes: All nodes, in topological order.
        shapes: Shapes as far as they are known.
        outputs: Outputs of the model.
    """
    producers = Producers(nodes, outputs)
    for last in nodes:
        middle = producers.find_sole(last) if last.op_type in _RESHAPING else None
        if middle is None or middle.op_type != "Transpose":
            continue
        first, shape = producers.find_sole(middle), shapes.get(middle.inputs[0], ())
        if first is None or first.op_type not in _RESHAPING or len(shape) <= _MOST_AXES:
            continue
        long = [axis for axis, length in enumerate(shape) if length != 1]
        perm = middle.integers("perm") or tuple(reversed(range(len(shape))))
        if len(long) <= _MOST_AXES and sorted(perm) == list(range(len(shape))):
            yield Turn(
                source=first.inputs[0],
                shape=tuple(shape[axis] for axis in long),
                order=tuple(long.index(axis) for axis in perm if axis in long),
                inner=(first, middle),
                last=last,
            )

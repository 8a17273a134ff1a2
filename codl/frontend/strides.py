"""Where the elements of a tensor lie in another one that it is a part or another order of."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from codl.frontend.onnx_node import OnnxNode
from codl.ir.graph import Shape

RESHAPING = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")
"""Operators that keep values and their order."""
MOVING = (*RESHAPING, "Gather", "Identity", "Split", "Transpose")
"""Operators that `follow` knows."""
Values = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strides:
    """Places of a tensor's elements, counted in elements of another tensor in ONNX order."""

    shape: Shape
    steps: tuple[int, ...]
    """Distance of neighbours along each axis."""
    begin: int = 0
    """Place of the first element."""

    @classmethod
    def of(cls, shape: Shape) -> "Strides":
        """Return the places of a whole tensor in itself."""
        return cls(shape=shape, steps=tuple(prod(shape[axis + 1 :]) for axis in range(len(shape))))

    @property
    def is_dense(self) -> bool:
        """Whether the elements follow each other from the first one on."""
        whole = Strides.of(self.shape).steps
        return self.begin == 0 and all(
            n == 1 or step == dense for n, step, dense in zip(self.shape, self.steps, whole, strict=True)
        )

    def turn(self, order: Sequence[int]) -> "Strides":
        """Return the places with their axes in another order."""
        return replace(
            self,
            shape=tuple(self.shape[axis] for axis in order),
            steps=tuple(self.steps[axis] for axis in order),
        )

    def pick(self, axis: int, begin: int, count: int) -> "Strides":
        """Return the places of ``count`` elements along an axis."""
        shape = (*self.shape[:axis], count, *self.shape[axis + 1 :])
        return replace(self, shape=shape, begin=self.begin + begin * self.steps[axis])

    def reshape(self, shape: Shape) -> "Strides | None":
        """Return the places under another shape of as many elements; None where they have no equal steps."""
        pieces = [(n, step) for n, step in zip(self.shape, self.steps, strict=True) if n > 1][::-1]
        steps = [0] * len(shape)
        left, step = 1, 1
        for axis in reversed(range(len(shape))):
            wanted, base = shape[axis], None
            while wanted > 1:
                if left == 1:
                    if not pieces:
                        return None
                    left, step = pieces.pop(0)
                if base is None:
                    base, reach = step, step
                if step != reach:
                    return None
                taken = wanted if left % wanted == 0 else left
                if wanted % taken:
                    return None
                wanted, left = wanted // taken, left // taken
                step = reach = step * taken
            steps[axis] = 1 if base is None else base
        return replace(self, shape=shape, steps=tuple(steps)) if left == 1 and not pieces else None


def follow(
    node: OnnxNode, places: Strides, shapes: Mapping[str, Shape], values: Values, output: str
) -> Strides | None:
    """Return the places of what a node makes of a tensor; None where it does more than move elements.

    Args:
        node: A node whose first input is the tensor.
        places: Of the tensor.
        shapes: Shapes of the model's tensors, as far as they are known.
        values: The model's constants.
        output: Which of the node's outputs is asked for.
    """
    shape, rank = shapes.get(output), len(places.shape)
    if shape is None or min(shape, default=1) < 1:
        return None
    if node.op_type == "Identity":
        return places
    if node.op_type in RESHAPING:
        return places.reshape(shape) if prod(shape) == prod(places.shape) else None
    if node.op_type == "Transpose":
        order = node.integers("perm") or tuple(reversed(range(rank)))
        return places.turn(order) if sorted(order) == list(range(rank)) else None
    axis = node.integer("axis", 0)
    if not -rank <= axis < rank:
        return None
    axis %= rank
    if node.op_type == "Split":
        outputs = list(node.proto.output)
        lengths = [shapes.get(name) for name in outputs[: outputs.index(output)]]
        if any(part is None for part in lengths):
            return None
        return places.pick(axis, sum(part[axis] for part in lengths if part), shape[axis])
    if node.op_type == "Gather" and node.optional_input(1) in values:
        index = values[node.inputs[1]]
        place = int(index.reshape(-1)[0]) if index.size == 1 else rank
        if index.ndim < 2 and -places.shape[axis] <= place < places.shape[axis]:
            return places.pick(axis, place % places.shape[axis], 1).reshape(shape)
    return None


def iterate_scales(node: OnnxNode, values: Values) -> Iterator[tuple[str, float]]:
    """Yield the tensor that a product or quotient with a constant number is a multiple of, and the factor."""
    if node.op_type not in ("Mul", "Div") or len(node.inputs) != 2:
        return
    a, b = node.inputs
    for x, name in ((a, b), (b, a)) if node.op_type == "Mul" else ((a, b),):
        value = values.get(name)
        if value is not None and value.size == 1 and x not in values:
            number = float(value.reshape(-1)[0])
            if node.op_type == "Mul" or number:
                yield x, number if node.op_type == "Mul" else 1 / number

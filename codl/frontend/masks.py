"""Finds constants that are added to scores one after the other, between reshapes: together one mask."""

from collections.abc import Callable, Iterator, Mapping
from math import prod

import numpy as np

from codl.frontend.onnx_node import OnnxNode
from codl.frontend.strides import RESHAPING, Values
from codl.ir.graph import FLOAT_BYTES, FloatArray, Shape

_MOST_BYTES = 1 << 24
"""Of a mask: it is as large as all scores, where the constants may be repeated."""
_MOST_NODES = 8
"""Sums and reshapes that are looked through."""


def iterate_sums(
    name: str,
    shape: Shape,
    *,
    sole: Callable[[str], OnnxNode | None],
    shapes: Mapping[str, Shape],
    values: Values,
) -> Iterator[tuple[str, FloatArray]]:
    """Yield the tensors, of the same elements in the same order, that scores are sums of, each with a mask.

    Args:
        name: The scores.
        shape: Of the scores, and of the masks.
        sole: Returns the node that writes a tensor, if nothing else reads it.
        shapes: Shapes as far as they are known.
        values: The model's constants.
    """
    if min(shape, default=1) < 1 or prod(shape) * FLOAT_BYTES > _MOST_BYTES:
        return
    total, is_sum = np.zeros(shape, np.float32), False
    for _ in range(_MOST_NODES):
        node = sole(name)
        if node is not None and node.op_type in RESHAPING:
            name = node.inputs[0]
        elif node is not None and node.op_type == "Add":
            found = _find_constant(node, shapes, values)
            if found is None or prod(shapes[found[0]]) != prod(shape):
                return
            name, value = found
            total, is_sum = total + np.broadcast_to(value, shapes[name]).reshape(shape), True
        else:
            return
        if is_sum:
            yield name, total


def _find_constant(
    node: OnnxNode, shapes: Mapping[str, Shape], values: Values
) -> tuple[str, FloatArray] | None:
    """Return the other operand of a sum and a constant that is added to it and does not make it larger."""
    for x, other in (node.inputs, node.inputs[::-1]):
        value = values.get(other)
        is_constant = value is not None and x not in values and value.dtype == np.float32
        if is_constant and x in shapes and shapes[x] == shapes.get(node.output):
            return x, np.asarray(value, np.float32)
    return None

"""Translations of sums and norms over axes, of powers, and of tensors that are repeated."""

import math
from functools import partial

import numpy as np

from codl.frontend.draft import MAX_RANK, Draft, Translations
from codl.frontend.merging import merge_around
from codl.frontend.onnx_node import OnnxNode
from codl.ir.graph import NO_EPILOGUE, Shape
from codl.ir.ops import Activation, ActivationKind, Binary, BinaryKind, Epilogue, ReduceMean, Unary

_MULTIPLY = Binary(kind=BinaryKind.MUL)
_ROOT = Epilogue(activation=Activation(kind=ActivationKind.SQRT))
_MOST_FACTORS, _MOST_ZEROS = 4, 1 << 22
"""Largest exponent that becomes products; zeros that are added to repeat a tensor."""


def translate_sum_over_axes(
    draft: Draft, node: OnnxNode, *, squares: bool = False, root: bool = False
) -> None:
    """Add a mean and a product with the number of elements, for ReduceSum and its relatives.

    Args:
        draft: The graph under construction.
        node: ReduceSum, ReduceSumSquare or ReduceL2.
        squares: Whether squares are summed.
        root: Whether the result is the root of the sum.
    """
    x, shape = draft.carried(node.inputs[0], node=node)
    axes, result = find_axes(draft, node, shape), draft.full_shape(node.output, node=node)
    if not axes or (len(shape) > MAX_RANK and axes != tuple(range(axes[0], axes[-1] + 1))):
        raise node.unsupported(got=f"axes {list(axes)} of {len(shape)}", expected="neighbouring ones")
    if len(shape) > MAX_RANK:
        shape, axes = merge_around(shape, axes[0], axes[-1] + 1), (1,)
        x = draft.reshape(x, shape, hint=f"{node.output}/merged")
    if squares:
        x = draft.add_node(_MULTIPLY, (x, x), draft.fresh_name(f"{node.output}/squares"), shape=shape)
    kept = tuple(1 if axis in axes else length for axis, length in enumerate(shape))
    mean = draft.add_node(ReduceMean(axes=axes), (x,), draft.fresh_name(f"{node.output}/mean"), shape=kept)
    count = draft.add_constant(f"{node.output}/count", math.prod(shape[axis] for axis in axes))
    draft.add_result(
        _MULTIPLY,
        (mean, count),
        node,
        shape=kept,
        result=result,
        word="sum",
        epilogue=_ROOT if root else NO_EPILOGUE,
    )


def find_axes(draft: Draft, node: OnnxNode, shape: Shape) -> tuple[int, ...]:
    """Return the axes that are reduced, all where the node states none and does not say otherwise."""
    name = node.optional_input(1)
    if name is not None and np.ndim(draft.value(name, node=node)) != 1:
        raise node.unsupported(got=f"axes {name!r} that are no vector", expected="a list of them")
    stated = draft.integers_of(node, "axes", index=1)
    if not stated and node.integer("noop_with_empty_axes", 0):
        return ()
    return tuple(sorted({axis % len(shape) for axis in stated or range(len(shape))}))


def translate_expand(draft: Draft, node: OnnxNode) -> None:
    """Add a sum with zeros that have the axes along which a tensor is repeated: -0 changes no number."""
    x, shape = draft.first_operand(node)
    result = draft.shape(node.output, node=node)
    if shape == result:
        draft.add_alias(node.output, x)
        return
    aligned = (1,) * (len(result) - len(shape)) + shape
    lengths = [more if more != length else 1 for length, more in zip(aligned, result, strict=True)]
    if math.prod(lengths) > _MOST_ZEROS:
        raise node.unsupported(got=f"{math.prod(lengths)} repetitions", expected=f"up to {_MOST_ZEROS}")
    zeros = draft.add_constant(f"{node.output}/zeros", np.full(lengths, -0.0, np.float32))
    draft.add_node(Binary(kind=BinaryKind.ADD), (x, zeros), node.output, shape=result, name=node.name)


def translate_power(draft: Draft, node: OnnxNode) -> None:
    """Add products, a root or a quotient for a constant exponent."""
    exponent = draft.scalar(node.inputs[1], node=node)
    x, shape = draft.first_operand(node)
    if draft.shape(node.output, node=node) != shape:
        raise node.unsupported(got="an exponent of more axes", expected="no more than those of the base")
    if exponent == 1:
        draft.add_alias(node.output, x)
    elif exponent == 0.5:
        draft.add_node(Unary(), (x,), node.output, shape=shape, name=node.name, epilogue=_ROOT)
    elif exponent in range(2, _MOST_FACTORS + 1):
        value = x
        for factor in range(2, int(exponent) + 1):
            is_last = factor == exponent
            output = node.output if is_last else draft.fresh_name(f"{node.output}/power{factor}")
            name = node.name if is_last else f"{node.name}/power{factor}"
            value = draft.add_node(_MULTIPLY, (value, x), output, shape=shape, name=name)
    else:
        raise node.unsupported(got=f"exponent {exponent:g}", expected=f"0.5, or 1 to {_MOST_FACTORS}")


def translate_reciprocal(draft: Draft, node: OnnxNode) -> None:
    """Add a quotient of 1."""
    x, shape = draft.first_operand(node)
    one = draft.add_constant(f"{node.output}/one", 1.0)
    draft.add_node(Binary(kind=BinaryKind.DIV), (one, x), node.output, shape=shape, name=node.name)


def translate_negation(draft: Draft, node: OnnxNode) -> None:
    """Add a product with -1."""
    x, shape = draft.first_operand(node)
    minus = draft.add_constant(f"{node.output}/minus", -1.0)
    draft.add_node(_MULTIPLY, (x, minus), node.output, shape=shape, name=node.name)


def translate_absolute(draft: Draft, node: OnnxNode) -> None:
    """Add a slope of -1 below zero."""
    x, shape = draft.first_operand(node)
    epilogue = Epilogue(activation=Activation(kind=ActivationKind.LEAKY_RELU, alpha=-1.0))
    draft.add_node(Unary(), (x,), node.output, shape=shape, name=node.name, epilogue=epilogue)


TRANSLATIONS: Translations = {
    "Abs": translate_absolute,
    "Expand": translate_expand,
    "Neg": translate_negation,
    "Pow": translate_power,
    "Reciprocal": translate_reciprocal,
    "ReduceL2": partial(translate_sum_over_axes, squares=True, root=True),
    "ReduceSum": translate_sum_over_axes,
    "ReduceSumSquare": partial(translate_sum_over_axes, squares=True),
}

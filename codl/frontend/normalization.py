"""Translations of normalizations and Softmax."""

import math

import numpy as np

from codl.frontend.draft import MAX_RANK, Draft, Translations
from codl.frontend.merging import merge_around
from codl.frontend.onnx_node import OnnxNode
from codl.ir.ops import Affine, CombineMoments, LayerNorm, LocalResponseNorm, Normalize, RowMoments, Softmax


def translate_batch_norm(draft: Draft, node: OnnxNode) -> None:
    """Add an `Affine` of the statistics."""
    if node.integer("training_mode", 0) or len(node.outputs) > 1 or not node.integer("spatial", 1):
        raise node.unsupported(
            got="training mode or statistics for each pixel", expected="inference by channel"
        )
    x, shape = draft.first_operand(node)
    if len(shape) < 2:
        raise node.unsupported(got=f"an input of {len(shape)} axes", expected="2 to 4")
    statistics = (np.asarray(draft.value(name, node=node), np.float64) for name in node.inputs[1:5])
    gain, offset, mean, variance = statistics
    scale = gain / np.sqrt(variance + node.number("epsilon", 1e-5))
    names = (
        draft.add_constant(f"{node.output}/scale", scale),
        draft.add_constant(f"{node.output}/shift", offset - mean * scale),
    )
    draft.add_node(Affine(), (x, *names), node.output, shape=shape, name=node.name)


def translate_instance_norm(draft: Draft, node: OnnxNode) -> None:
    """Add moments of rows, their combination and the normalization."""
    x, shape = draft.first_operand(node)
    if len(shape) != 4:
        raise node.unsupported(got=f"an input of {len(shape)} axes", expected="4 (images)")
    constants = node.inputs[1:3]
    for name in constants:
        draft.value(name, node=node)
    weights = [draft.operand(name, node=node) for name in constants]
    batch, channels, height, width = shape
    rows, factors = (draft.fresh_name(f"{node.output}/{part}") for part in ("rows", "factors"))
    draft.add_node(RowMoments(), (x,), rows, shape=(batch, channels, height, 2), name=f"{node.name}/rows")
    op = CombineMoments(epsilon=node.number("epsilon", 1e-5), row_length=width)
    draft.add_node(op, (rows, *weights), factors, shape=(batch, channels, 1, 2), name=f"{node.name}/factors")
    draft.add_node(Normalize(), (x, factors), node.output, shape=shape, name=node.name)


def translate_layer_norm(draft: Draft, node: OnnxNode) -> None:
    """Add a `LayerNorm`; several axes are one of a matrix."""
    names = [node.inputs[0], node.inputs[1], *filter(None, [node.optional_input(2)])]
    x, *weights = (draft.operand(name, node=node) for name in names)
    shape = draft.tensors[x].shape
    axis = node.integer("axis", -1) % len(shape)
    if len(node.outputs) > 1 or node.integer("stash_type", 1) != 1:
        raise node.unsupported(got="outputs of statistics or their type", expected="the values alone")
    if any(draft.tensors[name].shape != shape[axis:] for name in weights):
        raise node.unsupported(got="a scale that is repeated", expected=f"shape {list(shape[axis:])}")
    matrix = (math.prod(shape[:axis]), math.prod(shape[axis:]))
    is_one = axis == len(shape) - 1
    op = LayerNorm(
        axis=axis if is_one else 1, epsilon=node.number("epsilon", 1e-5), has_shift=len(weights) > 1
    )
    if is_one:
        draft.add_node(op, (x, *weights), node.output, shape=shape, name=node.name)
        return
    rows = draft.reshape(x, matrix, hint=f"{node.output}/rows", name=f"{node.name}/rows")
    flat = [draft.reshape(name, matrix[1:], hint=f"{name}/flat") for name in weights]
    draft.add_result(op, (rows, *flat), node, shape=matrix, result=shape, word="normalized")


def translate_response_norm(draft: Draft, node: OnnxNode) -> None:
    """Add a `LocalResponseNorm` for LRN."""
    x, shape = draft.first_operand(node)
    if len(shape) != 4:
        raise node.unsupported(got=f"an input of {len(shape)} axes", expected="4 (images)")
    op = LocalResponseNorm(
        size=node.integer("size", 1),
        alpha=node.number("alpha", 1e-4),
        beta=node.number("beta", 0.75),
        bias=node.number("bias", 1.0),
    )
    draft.add_node(op, (x,), node.output, shape=shape, name=node.name)


def translate_softmax(draft: Draft, node: OnnxNode) -> None:
    """Add a `Softmax`, axes of many merged; before opset 13 it ran over all axes from `axis` on."""
    x, shape = draft.carried(node.inputs[0], node=node)
    axis = node.integer("axis", -1 if node.opset >= 13 else 1) % len(shape)
    end = axis + 1 if node.opset >= 13 else len(shape)
    if len(shape) <= MAX_RANK and math.prod(shape[axis:end]) == shape[axis]:
        draft.add_node(Softmax(axis=axis), (x,), node.output, shape=shape, name=node.name)
        return
    merged = merge_around(shape, axis, end)
    before = draft.reshape(x, merged, hint=f"{node.output}/rows", name=f"{node.name}/rows")
    draft.add_result(Softmax(axis=1), (before,), node, shape=merged, result=shape, word="softmax")


TRANSLATIONS: Translations = {
    "BatchNormalization": translate_batch_norm,
    "InstanceNormalization": translate_instance_norm,
    "LRN": translate_response_norm,
    "LayerNormalization": translate_layer_norm,
    "Softmax": translate_softmax,
}

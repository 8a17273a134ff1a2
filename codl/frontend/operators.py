"""What each ONNX operator becomes: one small translation each, and the table of all of them."""

import math
from collections.abc import Callable

import numpy as np

from codl.frontend.draft import Draft
from codl.frontend.linear import translate_conv, translate_gemm, translate_matmul
from codl.frontend.onnx_node import OnnxNode
from codl.frontend.pooling import translate_global_average, translate_pool, translate_reduce_mean
from codl.ir.ops import (
    Activation,
    ActivationKind,
    Affine,
    Binary,
    BinaryKind,
    Concat,
    Epilogue,
    Reshape,
    Softmax,
    SpaceToDepth,
    Unary,
)

Translation = Callable[[Draft, OnnxNode], None]

_FLOAT = np.finfo(np.float32)


def _relu(draft: Draft, node: OnnxNode) -> None:
    _add_activation(draft, node, Activation(kind=ActivationKind.RELU))


def _leaky_relu(draft: Draft, node: OnnxNode) -> None:
    slope = node.number("alpha", 0.01)
    _add_activation(draft, node, Activation(kind=ActivationKind.LEAKY_RELU, alpha=slope))


def _clip(draft: Draft, node: OnnxNode) -> None:
    limits = [node.number("min", float(_FLOAT.min)), node.number("max", float(_FLOAT.max))]
    for index in (0, 1):
        name = node.optional_input(index + 1)
        if name is not None:
            limits[index] = float(np.asarray(draft.value(name, node=node)).item())
    low, high = limits
    _add_activation(draft, node, Activation(kind=ActivationKind.CLIP, alpha=low, beta=high))


def _add_activation(draft: Draft, node: OnnxNode, activation: Activation) -> None:
    x = draft.operand(node.inputs[0], node=node)
    shape = draft.tensors[x].shape
    draft.add_node(
        Unary(), (x,), node.output, shape=shape, name=node.name, epilogue=Epilogue(activation=activation)
    )


def _add(draft: Draft, node: OnnxNode) -> None:
    _add_binary(draft, node, BinaryKind.ADD)


def _mul(draft: Draft, node: OnnxNode) -> None:
    _add_binary(draft, node, BinaryKind.MUL)


def _add_binary(draft: Draft, node: OnnxNode, kind: BinaryKind) -> None:
    operands = [draft.operand(name, node=node) for name in node.inputs]
    shape = draft.shape(node.output, node=node)
    draft.add_node(Binary(kind=kind), operands, node.output, shape=shape, name=node.name)


def _sum(draft: Draft, node: OnnxNode) -> None:
    """Any number of addends: one addition after the other."""
    first, *others = [draft.operand(name, node=node) for name in node.inputs]
    if not others:
        draft.add_alias(node.output, first)
        return
    total, shape = first, draft.tensors[first].shape
    for index, addend in enumerate(others):
        shape = np.broadcast_shapes(shape, draft.tensors[addend].shape)
        is_last = index == len(others) - 1
        output = node.output if is_last else draft.fresh_name(f"{node.output}/sum{index + 1}")
        name = node.name if is_last else f"{node.name}/sum{index + 1}"
        total = draft.add_node(Binary(kind=BinaryKind.ADD), (total, addend), output, shape=shape, name=name)


def _concat(draft: Draft, node: OnnxNode) -> None:
    operands = [draft.operand(name, node=node) for name in node.inputs]
    if len(operands) == 1:
        draft.add_alias(node.output, operands[0])
        return
    shape = draft.shape(node.output, node=node)
    op = Concat(axis=node.integer("axis", 1) % len(shape))
    draft.add_node(op, operands, node.output, shape=shape, name=node.name)


def _reshape(draft: Draft, node: OnnxNode) -> None:
    """Every operator that keeps the values and their order: the output's shape says all."""
    x = draft.operand(node.inputs[0], node=node)
    shape = draft.shape(node.output, node=node)
    if shape == draft.tensors[x].shape:
        draft.add_alias(node.output, x)
    else:
        draft.add_node(Reshape(), (x,), node.output, shape=shape, name=node.name)


def _identity(draft: Draft, node: OnnxNode) -> None:
    draft.add_alias(node.output, draft.operand(node.inputs[0], node=node))


def _dropout(draft: Draft, node: OnnxNode) -> None:
    if len(node.outputs) > 1:
        raise node.unsupported(got="output mask", expected="the values alone")
    training = node.optional_input(2)
    if training is not None and bool(np.asarray(draft.value(training, node=node)).item()):
        raise node.unsupported(got="training_mode true", expected="inference")
    _identity(draft, node)


def _softmax(draft: Draft, node: OnnxNode) -> None:
    """Before opset 13 softmax ran over all axes from `axis` on, as over the rows of a matrix."""
    x = draft.operand(node.inputs[0], node=node)
    shape = draft.tensors[x].shape
    axis = node.integer("axis", -1 if node.opset >= 13 else 1) % len(shape)
    inner = math.prod(shape[axis:])
    if node.opset >= 13 or inner == shape[axis]:
        draft.add_node(Softmax(axis=axis), (x,), node.output, shape=shape, name=node.name)
        return
    rows = (math.prod(shape[:axis]), inner)
    before, after = (draft.fresh_name(f"{node.output}/{part}") for part in ("rows", "softmax"))
    draft.add_node(Reshape(), (x,), before, shape=rows, name=f"{node.name}/rows")
    draft.add_node(Softmax(axis=1), (before,), after, shape=rows, name=f"{node.name}/softmax")
    draft.add_node(Reshape(), (after,), node.output, shape=shape, name=node.name)


def _batch_norm(draft: Draft, node: OnnxNode) -> None:
    if node.integer("training_mode", 0) or len(node.outputs) > 1 or not node.integer("spatial", 1):
        raise node.unsupported(
            got="training mode or statistics for each pixel", expected="inference by channel"
        )
    x = draft.operand(node.inputs[0], node=node)
    shape = draft.tensors[x].shape
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


def _space_to_depth(draft: Draft, node: OnnxNode) -> None:
    x = draft.operand(node.inputs[0], node=node)
    op = SpaceToDepth(block=node.integer("blocksize", 1))
    draft.add_node(op, (x,), node.output, shape=draft.shape(node.output, node=node), name=node.name)


TRANSLATIONS: dict[str, Translation] = {
    "Add": _add,
    "AveragePool": translate_pool,
    "BatchNormalization": _batch_norm,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": translate_conv,
    "Dropout": _dropout,
    "Flatten": _reshape,
    "Gemm": translate_gemm,
    "GlobalAveragePool": translate_global_average,
    "Identity": _identity,
    "LeakyRelu": _leaky_relu,
    "MatMul": translate_matmul,
    "MaxPool": translate_pool,
    "Mul": _mul,
    "ReduceMean": translate_reduce_mean,
    "Relu": _relu,
    "Reshape": _reshape,
    "Softmax": _softmax,
    "SpaceToDepth": _space_to_depth,
    "Squeeze": _reshape,
    "Sum": _sum,
    "Unsqueeze": _reshape,
}
"""ONNX operator -> its translation."""

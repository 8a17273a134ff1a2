"""Translations of functions of single elements."""

from functools import partial

import numpy as np

from codl.frontend.draft import Draft, Translations, is_holdable
from codl.frontend.merging import merge_operands
from codl.frontend.onnx_node import OnnxNode
from codl.ir.ops import FUNCTIONS, Activation, ActivationKind, Binary, BinaryKind, Epilogue, Unary

_FLOAT = np.finfo(np.float32)


def translate_activation(kind: ActivationKind, draft: Draft, node: OnnxNode) -> None:
    """Add a `Unary` of one kind, with the attributes that ONNX's operator has."""
    for attribute in node.proto.attribute:
        if attribute.name not in FUNCTIONS[kind].attributes and not node.is_default(attribute):
            raise node.unsupported(got=f"attribute {attribute.name}", expected="its default")
    attributes = {name: node.number(name, missing) for name, missing in FUNCTIONS[kind].attributes.items()}
    _add_activation(draft, node, Activation(kind=kind, **attributes))


def translate_clip(draft: Draft, node: OnnxNode) -> None:
    """Add a clip; its limits were attributes before opset 11 and are inputs since."""
    limits = [node.number("min", float(_FLOAT.min)), node.number("max", float(_FLOAT.max))]
    for index in (0, 1):
        name = node.optional_input(index + 1)
        if name is not None:
            limits[index] = draft.scalar(name, node=node)
    low, high = limits
    _add_activation(draft, node, Activation(kind=ActivationKind.CLIP, alpha=low, beta=high))


def _add_activation(draft: Draft, node: OnnxNode, activation: Activation) -> None:
    x, result = draft.carried(node.inputs[0], node=node)
    shape, epilogue = draft.tensors[x].shape, Epilogue(activation=activation)
    draft.add_result(Unary(), (x,), node, shape=shape, result=result, word="merged", epilogue=epilogue)


def translate_binary(kind: BinaryKind, draft: Draft, node: OnnxNode) -> None:
    """Add a `Binary` of one kind."""
    (a, a_shape), (b, b_shape) = (draft.carried(name, node=node) for name in node.inputs)
    result = draft.full_shape(node.output, node=node)
    shapes = a_shape, b_shape
    if not is_holdable(result):
        shapes = merge_operands(a_shape, b_shape, carriers=[draft.tensors[name].shape for name in (a, b)])
        if not is_holdable(shapes[0]):
            draft.check_shape(node.output, result, node=node)
    operands = [
        draft.reshape(x, shape, hint=f"{name}/merged")
        for x, shape, name in zip((a, b), shapes, node.inputs, strict=True)
    ]
    shape = result if is_holdable(result) else np.broadcast_shapes(*shapes)
    draft.add_result(Binary(kind=kind), operands, node, shape=shape, result=result, word="merged")


def translate_sum(draft: Draft, node: OnnxNode) -> None:
    """Add one addition after the other, for any number of addends."""
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


TRANSLATIONS: Translations = {
    **{f.operator: partial(translate_activation, kind) for kind, f in FUNCTIONS.items()},
    "Add": partial(translate_binary, BinaryKind.ADD),
    "Clip": translate_clip,
    "Div": partial(translate_binary, BinaryKind.DIV),
    "Mul": partial(translate_binary, BinaryKind.MUL),
    "PRelu": partial(translate_binary, BinaryKind.PRELU),
    "Sub": partial(translate_binary, BinaryKind.SUB),
    "Sum": translate_sum,
}

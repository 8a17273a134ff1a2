"""Turns a simplified ONNX model into a `Graph`, one node at a time."""

from typing import Any

from onnx import numpy_helper

from codl.errors import UnsupportedError
from codl.frontend.draft import HOLDABLE, Draft, is_holdable
from codl.frontend.onnx_node import OnnxNode
from codl.frontend.operators import TRANSLATIONS
from codl.frontend.reader import find_opset
from codl.frontend.shapes import infer_shapes
from codl.frontend.shuffles import Shuffle, find_shuffles
from codl.ir.graph import Graph, Tensor
from codl.ir.ops import ChannelShuffle


def translate(model: Any, *, label: str) -> Graph:
    """Return the graph of a simplified `onnx.ModelProto`, nothing fused yet.

    Args:
        model: The model; its inputs are feeds of known shape.
        label: The model in messages.

    Raises:
        UnsupportedError: An operator, attribute, type or shape that codl cannot run.
    """
    opset = find_opset(model)
    nodes = [OnnxNode(proto=proto, opset=opset, label=label) for proto in model.graph.node]
    _check_operators(nodes)
    inferred = infer_shapes(model, label=label)
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    inputs = [value.name for value in model.graph.input if value.name not in values]
    draft = Draft(
        label=label,
        shapes=inferred.shapes,
        types=inferred.types,
        values=values,
        taken={*values, *inputs, *(name for node in nodes for name in node.outputs)},
    )
    draft.tensors.update({name: Tensor(name=name, shape=inferred.shapes[name]) for name in inputs})
    outputs = [value.name for value in model.graph.output]
    shuffles = list(find_shuffles(nodes, inferred.shapes, outputs=outputs))
    last_of = {shuffle.last.output: shuffle for shuffle in shuffles}
    hidden = {node.output for shuffle in shuffles for node in shuffle.inner}
    for node in nodes:
        if node.output in last_of:
            _add_shuffle(draft, last_of[node.output])
        elif node.output not in hidden:
            TRANSLATIONS[node.op_type](draft, node)
    _check_inputs(draft, inputs)
    return draft.finish(name=model.graph.name, inputs=inputs, outputs=outputs)


def _add_shuffle(draft: Draft, shuffle: Shuffle) -> None:
    node = shuffle.last
    x = draft.operand(shuffle.source, node=node)
    op, shape = ChannelShuffle(groups=shuffle.groups), draft.tensors[x].shape
    draft.add_node(op, (x,), node.output, shape=shape, name=node.name)


def _check_inputs(draft: Draft, inputs: list[str]) -> None:
    """Raise `UnsupportedError` for an input, perhaps read by no node, that the graph cannot hold."""
    for name in inputs:
        shape = draft.tensors[name].shape
        if not is_holdable(shape):
            raise UnsupportedError(
                f"{draft.label}: input {name!r}: got shape {list(shape)}, expected {HOLDABLE}; "
                "change the model or run it with ONNX Runtime"
            )


def _check_operators(nodes: list[OnnxNode]) -> None:
    """Raise `UnsupportedError` that names every operator without a translation by its first node."""
    first: dict[str, OnnxNode] = {}
    for node in nodes:
        if node.op_type not in TRANSLATIONS:
            first.setdefault(node.op_type, node)
    if first:
        known = ", ".join(TRANSLATIONS)
        raise UnsupportedError(
            "\n".join(
                str(node.unsupported(got=f"operator {op_type}", expected=f"one of {known}"))
                for op_type, node in first.items()
            )
        )

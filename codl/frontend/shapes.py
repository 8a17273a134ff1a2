"""Shapes and element types of a model's tensors, as ONNX's shape inference knows them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import TensorProto

from codl.errors import ModelError
from codl.frontend.onnx_node import OnnxNode
from codl.frontend.reader import find_opset
from codl.frontend.slices import find_slice_problems, find_sliced_shape
from codl.frontend.windows import find_pooled_shape, find_window_problems
from codl.ir.graph import Shape

_SMALL_COUNT = 1024
"""Constants of up to this many elements may be shapes or axes: inference sees their values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inferred:
    """What is known of a model's tensors by name; a tensor may be missing."""

    shapes: Mapping[str, Shape]
    types: Mapping[str, int]
    """`onnx.TensorProto.DataType`"""


def infer_shapes(model: Any, *, label: str) -> Inferred:
    """Return shapes and types of all tensors of an `onnx.ModelProto`, as far as they can be inferred.

    Inference works on a copy without the big weights: it costs milliseconds and knows no 2 GiB limit.

    Args:
        model: The model; stated shapes of its intermediates are not read.
        label: The model in messages.

    Raises:
        ModelError: Inference gives up on the whole model.
    """
    skeleton = _make_skeleton(model)
    inferred = _infer(skeleton, label=label)
    while (wrong := _find_wrong_shape(skeleton, inferred, label=label)) is not None:
        index, shape = wrong
        node = skeleton.graph.node.pop(index)
        kind = inferred.types[node.input[0]]
        skeleton.graph.input.append(onnx.helper.make_tensor_value_info(node.output[0], kind, shape))
        inferred = _infer(skeleton, label=label)
    return inferred


def _find_wrong_shape(skeleton: Any, inferred: Inferred, *, label: str) -> tuple[int, Shape] | None:
    """Return place and true output shape of the first node whose output inference gets wrong.

    Before opset 22 it counts windows of a pooling that lie in the padding alone; none of the
    implementations computes them. Before opset 10 it knows no slice that counts from the end.
    """
    opset = find_opset(skeleton)
    for index, proto in enumerate(skeleton.graph.node):
        node = OnnxNode(proto=proto, opset=opset, label=label)
        x = inferred.shapes.get(node.optional_input(0) or "")
        if x is not None and _may_be_wrong(node, x=x):
            find = find_sliced_shape if node.op_type == "Slice" else find_pooled_shape
            shape = find(node, x=x)
            if shape != inferred.shapes.get(node.output):
                return index, shape
    return None


def _may_be_wrong(node: OnnxNode, *, x: Shape) -> bool:
    match node.op_type:
        case "MaxPool" | "AveragePool":
            rounds_up = node.integer("ceil_mode", 0)
            return bool(rounds_up) and len(x) == 4 and not any(find_window_problems(node, x=x))
        case "Slice":
            return node.opset < 10 and not any(find_slice_problems(node, x=x))
        case _:
            return False


def _make_skeleton(model: Any) -> Any:
    """Return the model with its big weights as inputs, and no outputs: what they declare may be wrong."""
    skeleton = onnx.ModelProto(ir_version=model.ir_version, functions=model.functions)
    skeleton.opset_import.extend(model.opset_import)
    graph = model.graph
    skeleton.graph.name = graph.name
    skeleton.graph.node.extend(graph.node)
    skeleton.graph.input.extend(graph.input)
    for tensor in graph.initializer:
        if math.prod(tensor.dims) <= _SMALL_COUNT:
            skeleton.graph.initializer.append(tensor)
        else:
            skeleton.graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
    return skeleton


def _infer(skeleton: Any, *, label: str) -> Inferred:
    graph = skeleton.graph
    try:
        result = onnx.shape_inference.infer_shapes(skeleton, data_prop=True).graph
    except (RuntimeError, ValueError, onnx.shape_inference.InferenceError) as error:
        raise ModelError(
            f"{label}: got a model that ONNX shape inference refuses ({' '.join(str(error).split())}), "
            "expected a valid one; correct or export it again"
        ) from error
    shapes: dict[str, Shape] = {t.name: tuple(t.dims) for t in graph.initializer}
    types: dict[str, int] = {t.name: t.data_type for t in graph.initializer}
    for value in (*result.input, *result.value_info):
        tensor = value.type.tensor_type
        if tensor.elem_type != TensorProto.UNDEFINED:
            types[value.name] = tensor.elem_type
        if tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim):
            shapes[value.name] = tuple(d.dim_value for d in tensor.shape.dim)
    return Inferred(shapes=shapes, types=types)

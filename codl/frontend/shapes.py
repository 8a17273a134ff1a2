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
    while (wrong := _find_wrong_pooling(skeleton, inferred, label=label)) is not None:
        index, shape = wrong
        output = skeleton.graph.node.pop(index).output[0]
        skeleton.graph.input.append(onnx.helper.make_tensor_value_info(output, inferred.types[output], shape))
        inferred = _infer(skeleton, label=label)
    return inferred


def _find_wrong_pooling(skeleton: Any, inferred: Inferred, *, label: str) -> tuple[int, Shape] | None:
    """Return place and true output shape of the first pooling whose rounding up inference gets wrong.

    Before opset 22 ONNX's inference counts windows that lie in the padding alone; none of the
    implementations computes them.
    """
    opset = find_opset(skeleton)
    for index, proto in enumerate(skeleton.graph.node):
        node = OnnxNode(proto=proto, opset=opset, label=label)
        if node.op_type not in ("MaxPool", "AveragePool") or not node.integer("ceil_mode", 0):
            continue
        x = inferred.shapes.get(node.optional_input(0) or "", ())
        if len(x) != 4 or any(find_window_problems(node, x=x)):
            continue
        shape = find_pooled_shape(node, x=x)
        if shape != inferred.shapes.get(node.output):
            return index, shape
    return None


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

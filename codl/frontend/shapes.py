"""Shapes and element types of a model's tensors, as ONNX's shape inference knows them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnx

from codl.frontend.bounds import check_elements
from codl.frontend.initializers import read_array
from codl.frontend.onnx_node import OnnxNode
from codl.frontend.reader import find_opset
from codl.frontend.refusal import RefusedError
from codl.frontend.scales import find_resized_shape, find_scales_input
from codl.frontend.slices import find_slice_problems, find_sliced_shape
from codl.frontend.types import make_value_type, name_type, name_value_type
from codl.frontend.windows import find_pooled_shape, find_transposed_shape, find_window_problems
from codl.ir.graph import Shape
from codl.limits import DEFAULT_LIMITS, Limits

INFERENCE_ERRORS = (
    RuntimeError,
    ValueError,
    onnx.shape_inference.InferenceError,
    onnx.checker.ValidationError,
)
"""What ONNX's shape inference raises, of functions that call themselves, for instance."""
_SMALL_COUNT = 1024
"""Constants of up to this many elements may be shapes or axes: inference sees their values."""
_LONG_VECTOR = 1 << 14
"""No shape, and no list of axes or sizes, has as many elements."""
_FOLLOWED = frozenset(
    {"Add", "Cast", "Concat", "Gather", "Mul", "Shape", "Size", "Slice", "Squeeze", "Sub", "Unsqueeze"}
)
"""Operators through which inference follows values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inferred:
    """What is known of a model's tensors by name; a tensor may be missing."""

    shapes: Mapping[str, Shape]
    types: Mapping[str, str]
    """In ONNX's words, such as `tensor(float)`."""


def infer_shapes(model: Any, *, label: str, limits: Limits = DEFAULT_LIMITS) -> Inferred:
    """Return shapes and types of all tensors of an `onnx.ModelProto`, as far as they can be inferred.

    Inference works on a copy without the big weights: it costs milliseconds and knows no 2 GiB limit. A
    Slice joins it once its input's shape is known to be sound, since of a negative length it would abort
    the process; where inference is wrong about a node, its true output takes the node's place.

    Args:
        model: The model; stated shapes of its intermediates are not read.
        label: The model in messages.
        limits: Bounds on the tensors.

    Raises:
        RefusedError: Inference gives up on the whole model.
        ModelError: A tensor has too many elements.
    """
    nodes, skeleton = list(model.graph.node), make_skeleton(model)
    values = {tensor.name: tensor for tensor in skeleton.graph.initializer}
    held = {index for index, node in enumerate(nodes) if node.op_type == "Slice"}
    corrected: set[int] = set()
    while True:
        del skeleton.graph.node[:]
        skeleton.graph.node.extend(n for index, n in enumerate(nodes) if index not in held | corrected)
        inferred = _infer(skeleton, label=label)
        ready = {index for index in held if _is_sound(inferred.shapes.get(nodes[index].input[0]))}
        held -= ready
        for index in sorted(set(range(len(nodes))) - held - corrected):
            node = OnnxNode(proto=nodes[index], opset=find_opset(model), label=label)
            shape = _find_true_shape(node, inferred.shapes, values)
            if shape is not None and shape != inferred.shapes.get(node.output):
                corrected.add(index)
                true_type = make_value_type(inferred.types[node.inputs[0]], shape)
                skeleton.graph.input.append(onnx.ValueInfoProto(name=node.output, type=true_type))
                break
        else:
            if not ready:
                check_elements(inferred.shapes, label=label, limits=limits)
                return inferred


def _is_sound(shape: Shape | None) -> bool:
    return shape is not None and min(shape, default=0) >= 0


def _find_true_shape(node: OnnxNode, shapes: Mapping[str, Shape], values: Mapping[str, Any]) -> Shape | None:
    """Return the output shape of a node that inference may get wrong, None where it is trusted.

    Before opset 22 it counts windows of a pooling that lie in the padding alone; none of the
    implementations computes them. Output padding is a part of what automatic padding of a ConvTranspose
    takes away, which it does not know. Before opset 10 it knows no slice that counts from the end. Sizes that
    follow from scales it rounds in another precision than ONNX Runtime.
    """
    x, weight = (shapes.get(node.optional_input(index) or "") for index in (0, 1))
    if x is None or not _is_sound(x):
        return None
    match node.op_type:
        case "MaxPool" | "AveragePool" if node.integer("ceil_mode", 0) == 1:
            is_sound = len(x) == 4 and not any(find_window_problems(node, x=x))
            return find_pooled_shape(node, x=x) if is_sound else None
        case "ConvTranspose" if node.text("auto_pad", "NOTSET").startswith("SAME"):
            return find_transposed_shape(node, x=x, weight=weight)
        case "Slice" if node.opset < 10:
            return None if any(find_slice_problems(node, x=x)) else find_sliced_shape(node, x=x)
        case "Resize" | "Upsample":
            tensor = values.get(find_scales_input(node) or "")
            scales = node.numbers("scales") if tensor is None else read_array(tensor, label=node.label)
            return None if scales is None else find_resized_shape(node, x=x, scales=scales)
        case _:
            return None


def make_skeleton(model: Any) -> Any:
    """Return the model without nodes, and its big weights as inputs; outputs may declare what is wrong."""
    skeleton = onnx.ModelProto(ir_version=model.ir_version, functions=model.functions)
    skeleton.opset_import.extend(model.opset_import)
    graph = model.graph
    skeleton.graph.name = graph.name
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
    """Return what inference finds; it follows values only where shapes do not suffice."""
    found = _infer_once(skeleton, label=label, follows_values=False)
    written = {name for node in skeleton.graph.node for name in node.output if name}
    if written <= found.shapes.keys():
        return found
    return _infer_once(_hide_long(skeleton, found), label=label, follows_values=True)


def _hide_long(skeleton: Any, found: Inferred) -> Any:
    """Return a skeleton without the nodes that would make inference follow each value of a long vector.

    It takes more than a hundred bytes for each. Their outputs become inputs.
    """
    long = {name for name, shape in found.shapes.items() if len(shape) == 1 and shape[0] > _LONG_VECTOR}
    hidden = [
        node
        for node in skeleton.graph.node
        if node.op_type in _FOLLOWED and not long.isdisjoint((*node.input, *node.output))
    ]
    if not hidden:
        return skeleton
    shown = onnx.ModelProto()
    shown.CopyFrom(skeleton)
    del shown.graph.node[:]
    names = {node.output[0] for node in hidden}
    shown.graph.node.extend(n for n in skeleton.graph.node if not names.intersection(n.output))
    for name in names:
        value = make_value_type(found.types.get(name, ""), found.shapes.get(name))
        shown.graph.input.append(onnx.ValueInfoProto(name=name, type=value))
    return shown


def _infer_once(skeleton: Any, *, label: str, follows_values: bool) -> Inferred:
    graph = skeleton.graph
    try:
        result = onnx.shape_inference.infer_shapes(skeleton, data_prop=follows_values).graph
    except INFERENCE_ERRORS as error:
        raise RefusedError(label, who="ONNX shape inference", error=error) from error
    shapes: dict[str, Shape] = {t.name: tuple(t.dims) for t in graph.initializer}
    types = {t.name: f"tensor({name_type(t.data_type)})" for t in graph.initializer}
    for value in (*result.input, *result.value_info):
        words, tensor = name_value_type(value.type), value.type.tensor_type
        if words:
            types[value.name] = words
        if tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim):
            shapes[value.name] = tuple(d.dim_value for d in tensor.shape.dim)
    return Inferred(shapes=shapes, types=types)

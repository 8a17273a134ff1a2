"""Shapes and element types of a model's tensors, as ONNX's shape inference knows them."""

import math
from collections.abc import Container, Iterable, Mapping, Sequence
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
from codl.frontend.structure import find_reads
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
_INTEGERS = ("tensor(int32)", "tensor(int64)")
"""Types of values that it follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inferred:
    """What is known of a model's tensors by name; a tensor may be missing."""

    shapes: Mapping[str, Shape]
    types: Mapping[str, str]
    """In ONNX's words, such as `tensor(float)`."""


def infer_shapes(model: Any, *, label: str, limits: Limits = DEFAULT_LIMITS) -> Inferred:
    """Return shapes and types of all tensors of an `onnx.ModelProto`, as far as they can be inferred.

    Inference works on a copy without the big weights: it costs milliseconds and knows no 2 GiB limit. It
    takes nodes in stages. A Slice waits until its input's shape is known to be sound, since of a negative
    length it would abort the process; what inference may be wrong about is corrected before others read it.

    Args:
        model: The model, its nodes in topological order; stated shapes of its intermediates are not read.
        label: The model in messages.
        limits: Bounds on the tensors.

    Raises:
        RefusedError: Inference gives up on the whole model.
        ModelError: A tensor has too many elements.
    """
    opset = find_opset(model)
    inference = _Inference(model, label=label)
    for stage in _split_stages([OnnxNode(proto=n, opset=opset, label=label) for n in model.graph.node]):
        inference.infer(stage)
    check_elements(inference.shapes, label=label, limits=limits)
    return Inferred(shapes=inference.shapes, types=inference.types)


def _split_stages(nodes: Iterable[OnnxNode]) -> list[list[OnnxNode]]:
    """Return nodes in stages: none reads what is corrected in its own, and no Slice what is written there."""
    stages: list[list[OnnxNode]] = []
    written: dict[str, int] = {}
    corrected: dict[str, int] = {}
    for node in nodes:
        stage = max((corrected.get(name, 0) for name in find_reads(node.proto)), default=0)
        if node.op_type == "Slice":
            stage = max(stage, written.get(node.optional_input(0) or "", -1) + 1)
        if stage == len(stages):
            stages.append([])
        stages[stage].append(node)
        ready = stage + 1 if _is_doubtful(node) else stage
        written.update(dict.fromkeys(node.outputs, stage))
        corrected.update(dict.fromkeys(node.outputs, ready))
    return stages


class _Inference:
    """What is known of a model's tensors after some stages.

    Of the model only inputs, weights and functions are read.
    """

    def __init__(self, model: Any, *, label: str) -> None:
        self._base, self._label = make_skeleton(model), label
        self._values = {tensor.name: tensor for tensor in self._base.graph.initializer}
        self._protos: dict[str, Any] = {}
        """Tensor -> its `onnx.TypeProto`."""
        self._followed: dict[str, OnnxNode] = {}
        """Integers -> the node they come from, in topological order."""
        self.types = {name: f"tensor({name_type(t.data_type)})" for name, t in self._values.items()}
        self.shapes: dict[str, Shape] = {name: tuple(t.dims) for name, t in self._values.items()}
        self._record(self._base.graph.input)
        self._base.graph.ClearField("input")
        self._base.graph.ClearField("initializer")

    def infer(self, stage: Iterable[OnnxNode]) -> None:
        """Add what inference finds of some nodes; it follows values only where shapes do not suffice."""
        nodes = [
            node
            for node in stage
            if node.op_type != "Slice" or _is_sound(self.shapes.get(node.optional_input(0) or ""))
        ]
        written = {name for node in nodes for name in node.outputs}
        self._record(self._find_types(nodes, follows_values=False), of=written)
        if not written <= self.shapes.keys():
            self._record(self._find_types(self._hide_long(nodes), follows_values=True), of=written)
        for node in nodes:
            shape = _find_true_shape(node, self.shapes, self._values) if _is_doubtful(node) else None
            if shape is not None and shape != self.shapes.get(node.output):
                self._correct(node, shape)
            elif node.op_type in _FOLLOWED and self.types.get(node.output) in _INTEGERS:
                self._followed[node.output] = node

    def _find_types(self, nodes: Sequence[OnnxNode], *, follows_values: bool) -> Any:
        """Return what ONNX's inference says of what some nodes write."""
        part = onnx.ModelProto()
        part.CopyFrom(self._base)
        part.graph.node.extend(node.proto for node in nodes)
        written = {name for node in nodes for name in node.outputs}
        for name in dict.fromkeys(name for node in nodes for name in find_reads(node.proto)):
            if name in self._values:
                part.graph.initializer.append(self._values[name])
            elif name in self._protos and name not in written:
                part.graph.input.append(onnx.ValueInfoProto(name=name, type=self._protos[name]))
        try:
            return onnx.shape_inference.infer_shapes(part, data_prop=follows_values).graph.value_info
        except INFERENCE_ERRORS as error:
            raise RefusedError.by("ONNX shape inference", error, label=self._label) from error

    def _record(self, found: Iterable[Any], *, of: Container[str] | None = None) -> None:
        for value in found:
            words, tensor = name_value_type(value.type), value.type.tensor_type
            if of is not None and value.name not in of:
                continue
            self._protos[value.name] = value.type
            if words:
                self.types[value.name] = words
            if tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim):
                self.shapes[value.name] = tuple(d.dim_value for d in tensor.shape.dim)
            for dim in tensor.shape.dim:
                dim.ClearField("dim_param")  # made up: another stage would use it for another length

    def _correct(self, node: OnnxNode, shape: Shape) -> None:
        """Let the first output of a node have another shape; nothing is known of the others."""
        for name in node.outputs:
            for known in (self.types, self.shapes, self._protos):
                known.pop(name, None)
        words = self.types[node.inputs[0]]
        self.types[node.output], self.shapes[node.output] = words, shape
        self._protos[node.output] = make_value_type(words, shape)

    def _hide_long(self, nodes: Sequence[OnnxNode]) -> list[OnnxNode]:
        """Return nodes and those that their integers come from, without those that handle long vectors.

        Following values takes more than a hundred bytes for each element.
        """
        behind: dict[str, OnnxNode] = {}
        front = [name for node in nodes for name in find_reads(node.proto)]
        while front:
            name = front.pop()
            if name in self._followed and name not in behind:
                behind[name] = self._followed[name]
                front.extend(behind[name].inputs)
        every = [*(node for name, node in self._followed.items() if name in behind), *nodes]
        return [
            node
            for node in every
            if node.op_type not in _FOLLOWED
            or not any(self._is_long(name) for name in (*node.inputs, *node.outputs))
        ]

    def _is_long(self, name: str) -> bool:
        shape = self.shapes.get(name, ())
        return len(shape) == 1 and shape[0] > _LONG_VECTOR


def _is_sound(shape: Shape | None) -> bool:
    return shape is not None and min(shape, default=0) >= 0


def _is_doubtful(node: OnnxNode) -> bool:
    """Return whether inference may get the shape of a node's output wrong.

    Before opset 22 it counts windows of a pooling that lie in the padding alone; none of the
    implementations computes them. Output padding is a part of what automatic padding of a ConvTranspose
    takes away, which it does not know. Before opset 10 it knows no slice that counts from the end. Sizes that
    follow from scales it rounds in another precision than ONNX Runtime.
    """
    match node.op_type:
        case "MaxPool" | "AveragePool":
            return node.integer("ceil_mode", 0) == 1
        case "ConvTranspose":
            return node.text("auto_pad", "NOTSET").startswith("SAME")
        case "Slice":
            return node.opset < 10
        case _:
            return node.op_type in ("Resize", "Upsample")


def _find_true_shape(node: OnnxNode, shapes: Mapping[str, Shape], values: Mapping[str, Any]) -> Shape | None:
    """Return the output shape of a doubtful node, None where inference is trusted."""
    x, weight = (shapes.get(node.optional_input(index) or "") for index in (0, 1))
    if x is None or not _is_sound(x):
        return None
    match node.op_type:
        case "MaxPool" | "AveragePool":
            is_sound = len(x) == 4 and not any(find_window_problems(node, x=x))
            return find_pooled_shape(node, x=x) if is_sound else None
        case "ConvTranspose":
            return find_transposed_shape(node, x=x, weight=weight)
        case "Slice":
            return None if any(find_slice_problems(node, x=x)) else find_sliced_shape(node, x=x)
        case _:
            tensor = values.get(find_scales_input(node) or "")
            scales = node.numbers("scales") if tensor is None else read_array(tensor, label=node.label)
            return None if scales is None else find_resized_shape(node, x=x, scales=scales)


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

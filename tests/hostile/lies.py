"""Changes that make a valid model wrong, wherever its structure allows: shapes, wires, numbers, names."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.hostile.sketch import Sketch

Lie = Callable[[onnx.ModelProto, Sketch], Any]
NUMBERS = (
    0,
    1,
    2,
    3,
    7,
    -1,
    -2,
    -9,
    100,
    10**6,
    2**31 - 1,
    2**31,
    2**40,
    2**62,
    2**63 - 1,
    -(2**63),
    -(2**31),
)
FLOATS = (0.0, -1.0, 1e30, -1e30, float("nan"), float("inf"), 1e-30)


def _nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    return list(_walk(model.graph.node))


def _walk(nodes: Any) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            yield from _walk(attribute.g.node)


def _change(values: Any, sketch: Sketch, options: tuple[Any, ...]) -> None:
    """Replace, add or remove one of a list."""
    match int(sketch.rng.integers(4)):
        case 0 if len(values):
            del values[int(sketch.rng.integers(len(values)))]
        case 1:
            values.append(sketch.choose(options))
        case _ if len(values):
            values[int(sketch.rng.integers(len(values)))] = sketch.choose(options)
        case _:
            values.append(sketch.choose(options))


def change_attribute(model: onnx.ModelProto, sketch: Sketch) -> None:
    """Give an attribute another value."""
    found = [attribute for node in _nodes(model) for attribute in node.attribute]
    if not found:
        return
    attribute = sketch.choose(found)
    match attribute.type:
        case onnx.AttributeProto.INT:
            attribute.i = sketch.choose(NUMBERS)
        case onnx.AttributeProto.FLOAT:
            attribute.f = sketch.choose(FLOATS)
        case onnx.AttributeProto.INTS:
            _change(attribute.ints, sketch, NUMBERS)
        case onnx.AttributeProto.FLOATS:
            _change(attribute.floats, sketch, FLOATS)
        case onnx.AttributeProto.STRING:
            attribute.s = sketch.choose([b"", b"\xff\xfe", b"x" * 9000, b"VALID", b"linear"])


def retype_attribute(model: onnx.ModelProto, sketch: Sketch) -> None:
    """Give an attribute a value of another type, or add one."""
    node = sketch.choose(_nodes(model))
    names = [attribute.name for attribute in node.attribute] or ["axis"]
    name = sketch.choose([*names, "axis", "strides", "to"])
    kept = [attribute for attribute in node.attribute if attribute.name != name or sketch.flip(0.1)]
    del node.attribute[:]
    node.attribute.extend(kept)
    value = sketch.choose(
        [1, 1.5, "text", [1, 2], [0.5], np.ones(3), [b"a"], helper.make_graph([], "g", [], [])]
    )
    value = numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
    node.attribute.append(helper.make_attribute(name, value))


def change_constant(model: onnx.ModelProto, sketch: Sketch) -> None:
    """Give whole numbers that say a shape, an axis or a count other values."""
    tensors = [t for t in model.graph.initializer if t.data_type == TensorProto.INT64]
    tensors += [a.t for node in _nodes(model) for a in node.attribute if a.t.data_type == TensorProto.INT64]
    if not tensors:
        return
    tensor = sketch.choose(tensors)
    value = numpy_helper.to_array(tensor).copy()
    if value.size and sketch.flip(0.8):
        value.flat[int(sketch.rng.integers(value.size))] = sketch.choose(NUMBERS)
    else:
        value = np.append(value.ravel(), sketch.choose(NUMBERS))
    tensor.CopyFrom(numpy_helper.from_array(value.astype(np.int64), tensor.name))


def lie_about_a_shape(model: onnx.ModelProto, sketch: Sketch) -> None:
    """Declare another shape of a tensor, an input or an output."""
    names = [name for node in model.graph.node for name in node.output if name in sketch.values]
    where = [*model.graph.input, *model.graph.output]
    for name in names:
        if isinstance(sketch.values[name], np.ndarray):
            kind = helper.np_dtype_to_tensor_dtype(sketch.values[name].dtype)
            where.append(helper.make_tensor_value_info(name, kind, sketch.values[name].shape))
            model.graph.value_info.append(where[-1])
    dims = sketch.choose([*model.graph.input, *model.graph.output, *model.graph.value_info])
    dims = dims.type.tensor_type.shape.dim
    if len(dims) and sketch.flip(0.7):
        sketch.choose(list(dims)).dim_value = sketch.choose(NUMBERS)
    elif len(dims) and sketch.flip():
        del dims[0]
    else:
        dims.add().dim_value = sketch.choose(NUMBERS)


def lie_about_a_type(model: onnx.ModelProto, sketch: Sketch) -> None:
    """Declare another type of an input or an output."""
    value = sketch.choose([*model.graph.input, *model.graph.output])
    value.type.tensor_type.elem_type = sketch.choose([0, 1, 6, 7, 8, 9, 10, 11, 16, 99])


def lie_about_a_weight(model: onnx.ModelProto, sketch: Sketch) -> None:
    """Give an initializer other dimensions, another type, or bytes of another length."""
    if not model.graph.initializer:
        return
    tensor = sketch.choose(list(model.graph.initializer))
    match int(sketch.rng.integers(6)):
        case 0:
            tensor.data_type = sketch.choose([0, 1, 6, 7, 8, 10, 11, 16, 17, 22, 99])
        case 1:
            tensor.raw_data = tensor.raw_data[: len(tensor.raw_data) // 2]
        case 2:
            tensor.segment.begin, tensor.segment.end = 0, sketch.choose(NUMBERS)
        case 3:
            tensor.name = ""
        case _:
            _change(tensor.dims, sketch, NUMBERS)


def rewire(model: onnx.ModelProto, sketch: Sketch) -> None:
    """Let a node read another tensor, a later one, none, or its own."""
    node = sketch.choose(_nodes(model))
    names = [name for each in model.graph.node for name in (*each.output, *each.input)]
    if sketch.flip(0.8) and node.input:
        node.input[int(sketch.rng.integers(len(node.input)))] = sketch.choose([*names, "", "nothing"])
    elif sketch.flip():
        node.input.append(sketch.choose([*names, ""]))
    elif node.input:
        del node.input[-1]


def rename_output(model: onnx.ModelProto, sketch: Sketch) -> None:
    """Let a node write what another one writes, or what is fed."""
    node = sketch.choose(list(model.graph.node))
    names = [name for each in model.graph.node for name in each.output] + list(sketch.feeds)
    match int(sketch.rng.integers(3)):
        case 0:
            node.output.append(sketch.choose([*names, "", "more"]))
        case _ if node.output:
            node.output[0] = sketch.choose([*names, ""])


def change_operator(model: onnx.ModelProto, sketch: Sketch) -> None:
    """Let a node be of another operator, domain or opset."""
    node = sketch.choose(_nodes(model))
    kinds = [
        "Relu",
        "Conv",
        "Add",
        "Concat",
        "Reshape",
        "If",
        "Loop",
        "Scan",
        "Constant",
        "Resize",
        "",
        "Nothing",
    ]
    match int(sketch.rng.integers(3)):
        case 0:
            node.op_type = sketch.choose([*kinds, *(n.op_type for n in model.graph.node)])
        case 1:
            node.domain = sketch.choose(["com.microsoft", "local", "nowhere", "ai.onnx.ml"])
        case _:
            model.opset_import[0].version = sketch.choose(
                [1, 6, 7, 9, 10, 11, 12, 13, 18, 28, 99, 2**40, 0, -1]
            )


def shuffle_nodes(model: onnx.ModelProto, sketch: Sketch) -> None:
    """Write nodes in another order, or twice."""
    nodes = list(model.graph.node)
    order = sketch.rng.permutation(len(nodes)).tolist()
    order += order[:1] if sketch.flip() else []
    copies = [onnx.NodeProto.FromString(nodes[i].SerializeToString()) for i in order]
    del model.graph.node[:]
    model.graph.node.extend(copies)


LIES: tuple[Lie, ...] = (
    change_attribute,
    change_attribute,
    retype_attribute,
    change_constant,
    change_constant,
    change_constant,
    lie_about_a_shape,
    lie_about_a_shape,
    lie_about_a_type,
    lie_about_a_weight,
    rewire,
    rename_output,
    change_operator,
    shuffle_nodes,
)

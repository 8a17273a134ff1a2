"""The light models of the onnx package, with random weights in place of their constants.

They keep their names, opset and IR version 3, in which each initializer is also a graph input.
"""

from pathlib import Path

import onnx
from onnx import TensorProto, helper, numpy_helper

from tools.networks.resnet import BRANCH_GAIN
from tools.networks.weights import (
    Network,
    Rescaling,
    WeightSpec,
    bias_weight,
    gain_weight,
    he_weight,
    offset_weight,
)

LIGHT_FILES = {
    "alexnet": "light_bvlc_alexnet.onnx",
    "densenet121": "light_densenet121.onnx",
    "inception_v1": "light_inception_v1.onnx",
    "inception_v2": "light_inception_v2.onnx",
    "resnet50_light": "light_resnet50.onnx",
    "shufflenet": "light_shufflenet.onnx",
    "squeezenet": "light_squeezenet.onnx",
    "vgg19": "light_vgg19.onnx",
    "zfnet512": "light_zfnet512.onnx",
}
"""File of each light model in the onnx package."""

_FOLDER = Path("backend", "test", "data", "light")
_LAYERS = ("Conv", "Gemm")
_VIEWS = ("Reshape", "Unsqueeze")


def light(name: str) -> Network:
    """Return a light model whose float constants are weights to be drawn.

    Raises:
        ValueError: The installed onnx package lacks the file, or the graph holds a weight whose
            use is not known here.
    """
    path = Path(onnx.__file__).parent / _FOLDER / LIGHT_FILES[name]
    if not path.is_file():
        raise ValueError(f"{name}: the installed onnx package has no {_FOLDER / LIGHT_FILES[name]}")
    model = onnx.load(path)
    shapes = _take_constants(model.graph)
    weights = {weight: _spec(model.graph, weight, shape) for weight, shape in shapes.items()}
    return Network(model=model, weights=weights, rescalings=(_find_rescaling(model.graph),))


def _take_constants(graph: onnx.GraphProto) -> dict[str, tuple[int, ...]]:
    """Replace the float constants of ``graph`` by inputs, and return their shapes.

    Constants that nothing reads are dropped.
    """
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    nodes = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    read = {name for node in nodes for name in node.input}
    shapes = {
        node.output[0]: tuple(int(side) for side in numpy_helper.to_array(tensors[node.input[0]]))
        for node in graph.node
        if node.op_type == "ConstantOfShape"
    }
    shapes |= {
        name: tuple(tensor.dims)
        for name, tensor in tensors.items()
        if tensor.data_type == TensorProto.FLOAT and name in read
    }
    kept = {name: tensor for name, tensor in tensors.items() if name in read and name not in shapes}
    data = [value for value in graph.input if value.name not in tensors]
    constants = [value for value in graph.input if value.name in kept]
    weights = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()
    ]
    inputs = [*data, *constants, *weights]
    graph.CopyFrom(helper.make_graph(nodes, graph.name, inputs, list(graph.output), list(kept.values())))
    return shapes


def _spec(graph: onnx.GraphProto, weight: str, shape: tuple[int, ...]) -> WeightSpec:
    """Return how to draw ``weight``, from the place where the graph reads it."""
    channels = shape[0]
    node, index = _find_reader(graph, weight)
    match node.op_type, index:
        case "Conv", 1:
            return he_weight(shape, fan_in=shape[1] * shape[2] * shape[3])
        case "Gemm", 1:
            return he_weight(shape, fan_in=shape[-1])
        case (("Conv" | "Gemm"), 2):
            return bias_weight(channels)
        case "BatchNormalization", 1 if _ends_branch(graph, node):
            return gain_weight(channels, mean=BRANCH_GAIN)
        case ("BatchNormalization", 1) | ("Mul", _):
            return gain_weight(channels)
        case ("BatchNormalization", 2) | ("Add", _):
            return offset_weight(channels)
        case "BatchNormalization", 3:
            return WeightSpec(shape=shape)
        case "BatchNormalization", 4:
            return WeightSpec(shape=shape, mean=1.0)
        case op_type, _:
            raise ValueError(f"{graph.name}: {weight} is input {index} of a {op_type}, which is not known")


def _ends_branch(graph: onnx.GraphProto, norm: onnx.NodeProto) -> bool:
    """Return whether a normalization is the last of a residual branch: a sum's first summand."""
    return any(node.op_type == "Sum" and node.input[0] == norm.output[0] for node in graph.node)


def _find_reader(graph: onnx.GraphProto, tensor: str) -> tuple[onnx.NodeProto, int]:
    """Return the first node that computes with ``tensor``, views passed over, and the input's index."""
    for node in graph.node:
        if tensor in node.input:
            if node.op_type in _VIEWS:
                return _find_reader(graph, node.output[0])
            return node, list(node.input).index(tensor)
    raise ValueError(f"{graph.name}: nothing reads {tensor}")


def _find_rescaling(graph: onnx.GraphProto) -> Rescaling:
    """Return the rescaling that brings the logits to their standard deviation."""
    last = graph.node[-1]
    measured = last.input[0] if last.op_type == "Softmax" else last.output[0]
    layer = next(node for node in reversed(graph.node) if node.op_type in _LAYERS)
    producers = {node.output[0]: node for node in graph.node}
    weights = (producers[name].input[0] if name in producers else name for name in layer.input[1:])
    return Rescaling(measured=measured, weights=tuple(weights))

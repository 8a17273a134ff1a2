"""Batch-norm statistics and output scales, measured in one forward pass through ONNX Runtime.

The pass runs a copy of the graph in which each statistic is computed where it is needed:

- before each BatchNormalization, mean and variance of its input over all images and pixels are
  computed, handed to that BatchNormalization in place of its own, and published;
- behind each tensor to be rescaled, the factor ``wanted std / measured std`` is computed,
  multiplied in, and published.

Each layer therefore already reads calibrated inputs, so one pass calibrates all depths, and the
frozen network repeats what the copy computed. Weights enter the copy as graph inputs: nothing
of their size is serialized, which keeps the pass cheap for networks of hundreds of megabytes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from tools.networks.batch import set_batch
from tools.networks.weights import FloatArray, Network, Rescaling

VARIANCE_FLOOR = 1e-3
"""Smallest published variance: a channel that hardly varies must not be blown up."""

SAMPLE_PIXELS = 4 * 224 * 224
"""Least pixels of all calibration images together.

One image of 224 x 224 leaves 49 pixels to the last layers: statistics of so few hold for that
image, and those of MobileNetV2 let other images leave with 1.6 times the standard deviation.
"""

_FLOOR = "calibration/variance_floor"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """A published tensor and the weights that it sets."""

    tensor: str
    weights: tuple[str, ...]
    is_factor: bool
    """True: the weights are multiplied by the tensor; false: they are replaced by it."""


def draw_sample(network: Network, *, rng: np.random.Generator) -> FloatArray:
    """Return standard-normal images, ``[N, C, H, W]``; the smaller the images, the more of them."""
    dims = network.model.graph.input[0].type.tensor_type.shape.dim
    channels, height, width = (int(dim.dim_value) for dim in dims[1:])
    images = -(-SAMPLE_PIXELS // (height * width))
    return rng.standard_normal((images, channels, height, width), dtype=np.float32)


def calibrate(
    network: Network, *, weights: Mapping[str, FloatArray], sample: FloatArray
) -> dict[str, FloatArray]:
    """Return ``weights`` with batch-norm statistics measured and output layers rescaled.

    Args:
        network: The graph, and the tensors to rescale.
        weights: A value for each weight of the network.
        sample: Input images, ``[N, C, H, W]``.
    """
    model = set_batch(network.model, batch=len(sample))
    nodes: list[onnx.NodeProto] = []
    readings: list[_Reading] = []
    rescalings = {rescaling.measured: rescaling for rescaling in network.rescalings}
    for node in model.graph.node:
        rescaling = rescalings.get(node.output[0])
        if node.op_type == "BatchNormalization":
            readings += _readings_of_batch_norm(node)
            nodes += _measure_batch_norm(node)
        elif rescaling is not None:
            readings.append(_Reading(tensor=_factor(rescaling), weights=rescaling.weights, is_factor=True))
            nodes += _measure_scale(node, rescaling)
        else:
            nodes.append(node)

    values = _run(model, nodes=nodes, readings=readings, weights=weights, sample=sample)
    calibrated = dict(weights)
    for reading, value in zip(readings, values, strict=True):
        for name in reading.weights:
            calibrated[name] = calibrated[name] * value if reading.is_factor else value
    return calibrated


def _measured(name: str) -> str:
    return f"{name}/measured"


def _factor(rescaling: Rescaling) -> str:
    return f"{rescaling.measured}/factor"


def _readings_of_batch_norm(node: onnx.NodeProto) -> Iterator[_Reading]:
    for name in node.input[3:5]:
        yield _Reading(tensor=_measured(name), weights=(name,), is_factor=False)


def _measure_batch_norm(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """Yield nodes that compute mean and variance of the input, then ``node`` reading them."""
    source, mean, variance = node.input[0], _measured(node.input[3]), _measured(node.input[4])
    column, centred, squared, raw = (f"{variance}/{part}" for part in ("mean", "centred", "squared", "raw"))
    axes = [0, 2, 3]
    yield helper.make_node("ReduceMean", [source], [mean], axes=axes, keepdims=0)
    yield helper.make_node("ReduceMean", [source], [column], axes=axes, keepdims=1)
    yield helper.make_node("Sub", [source, column], [centred])
    yield helper.make_node("Mul", [centred, centred], [squared])
    yield helper.make_node("ReduceMean", [squared], [raw], axes=axes, keepdims=0)
    yield helper.make_node("Max", [raw, _FLOOR], [variance])
    node.input[3], node.input[4] = mean, variance
    yield node


def _measure_scale(node: onnx.NodeProto, rescaling: Rescaling) -> Iterator[onnx.NodeProto]:
    """Yield ``node``, then nodes that bring its output to the wanted standard deviation."""
    parts = ("raw", "mean", "centred", "squared", "variance", "std", "target")
    raw, mean, centred, squared, variance, std, target = (f"{rescaling.measured}/{part}" for part in parts)
    factor = _factor(rescaling)
    node.output[0] = raw
    yield node
    yield helper.make_node("ReduceMean", [raw], [mean], keepdims=0)
    yield helper.make_node("Sub", [raw, mean], [centred])
    yield helper.make_node("Mul", [centred, centred], [squared])
    yield helper.make_node("ReduceMean", [squared], [variance], keepdims=0)
    yield helper.make_node("Sqrt", [variance], [std])
    value = helper.make_tensor(target, TensorProto.FLOAT, [], [rescaling.std])
    yield helper.make_node("Constant", [], [target], value=value)
    yield helper.make_node("Div", [target, std], [factor])
    yield helper.make_node("Mul", [raw, factor], [rescaling.measured])


def _run(
    model: onnx.ModelProto,
    *,
    nodes: Sequence[onnx.NodeProto],
    readings: Sequence[_Reading],
    weights: Mapping[str, FloatArray],
    sample: FloatArray,
) -> list[FloatArray]:
    """Return the published tensors of the instrumented graph ``nodes``."""
    floor = helper.make_tensor(_FLOOR, TensorProto.FLOAT, [], [VARIANCE_FLOOR])
    read = {name for node in nodes for name in node.input}
    feeds = {model.graph.input[0].name: sample}
    feeds |= {name: value for name, value in weights.items() if name in read}
    graph = helper.make_graph(
        nodes,
        "calibration",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, feed.shape) for name, feed in feeds.items()],
        [helper.make_tensor_value_info(reading.tensor, TensorProto.FLOAT, None) for reading in readings],
        [*model.graph.initializer, floor],
    )
    copy = helper.make_model(graph, opset_imports=model.opset_import, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        copy.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    values: list[FloatArray] = session.run([reading.tensor for reading in readings], feeds)
    return values

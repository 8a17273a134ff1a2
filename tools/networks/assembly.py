"""Names of the benchmark networks, and their way from a graph to an ONNX model."""

from collections.abc import Callable, Mapping

import numpy as np
import onnx
from onnx import TensorProto

from tools.networks.batch import set_batch
from tools.networks.calibration import calibrate, draw_sample
from tools.networks.light import LIGHT_FILES, light
from tools.networks.mobilenet import mobilenet_v2
from tools.networks.posenet import posenet
from tools.networks.resnet import resnet50
from tools.networks.retinaface import retinaface
from tools.networks.style_transfer import fast_style_transfer
from tools.networks.vgg import vgg16
from tools.networks.weights import FloatArray, Network, draw_weights
from tools.networks.yolo import yolov2

OWN: dict[str, Callable[..., Network]] = {
    "vgg16": vgg16,
    "resnet50": resnet50,
    "yolov2": yolov2,
    "mobilenet_v2": mobilenet_v2,
    "posenet": posenet,
    "fast_style_transfer": fast_style_transfer,
    "retinaface": retinaface,
}
"""Networks described here; each takes ``size`` and ``width``."""

NAMES: tuple[str, ...] = (*OWN, *LIGHT_FILES)
"""Every network that `build` knows."""

LAST_IR_WITH_WEIGHT_INPUTS = 3
"""Up to this IR version, ONNX wants each initializer among the graph inputs."""


def build(
    name: str, *, seed: int = 0, batch: int = 1, size: int | None = None, width: float = 1.0
) -> onnx.ModelProto:
    """Return a benchmark network with random weights.

    Weights are He-scaled. Batch-norm statistics, and the scale of the last layer, come from one
    forward pass over standard-normal images (`tools.networks.calibration`): for such inputs the
    logits, or the output of a network without a classifier, have a standard deviation near 2.
    One seed gives one set of weights, whatever the batch.

    Args:
        name: One of `NAMES`.
        seed: Seed of weights and calibration images.
        batch: Images of an input.
        size: Input height in pixels; the network's usual one unless given. The width follows.
        width: Factor of all hidden channel counts, rounded to multiples of 4.

    Raises:
        ValueError: Unknown name; a size, width or batch that the network cannot have.
    """
    network = _describe(name, size=size, width=width)
    rng = np.random.default_rng(seed)
    sample = draw_sample(network, rng=rng)
    weights = draw_weights(network.weights, rng=rng)
    weights = calibrate(network, weights=weights, sample=sample)
    return _store_weights(set_batch(network.model, batch=batch), weights=weights)


def outline(name: str, *, batch: int = 1, size: int | None = None, width: float = 1.0) -> onnx.ModelProto:
    """Return the graph of `build` without weights: they are graph inputs behind the data input.

    An outline is small and quick to make at any size, and enough for shape inference.

    Args:
        name: One of `NAMES`.
        batch: Images of an input.
        size: Input height in pixels; the network's usual one unless given. The width follows.
        width: Factor of all hidden channel counts, rounded to multiples of 4.

    Raises:
        ValueError: Unknown name; a size, width or batch that the network cannot have.
    """
    return set_batch(_describe(name, size=size, width=width).model, batch=batch)


def _describe(name: str, *, size: int | None, width: float) -> Network:
    if name in OWN:
        return OWN[name](width=width) if size is None else OWN[name](size=size, width=width)
    if name not in LIGHT_FILES:
        raise ValueError(f"unknown network {name!r}; known are {', '.join(NAMES)}")
    if size is not None or width != 1.0:
        raise ValueError(f"{name} is a fixed graph of the onnx package: it has no other size or width")
    return light(name)


def _store_weights(model: onnx.ModelProto, *, weights: Mapping[str, FloatArray]) -> onnx.ModelProto:
    """Return ``model`` with each weight as an initializer."""
    for name, value in weights.items():
        tensor = model.graph.initializer.add()
        tensor.name = name
        tensor.data_type = TensorProto.FLOAT
        tensor.dims.extend(value.shape)
        tensor.raw_data = value.astype("<f4", copy=False).tobytes()
    if model.ir_version > LAST_IR_WITH_WEIGHT_INPUTS:
        data = [value for value in model.graph.input if value.name not in weights]
        del model.graph.input[:]
        model.graph.input.extend(data)
    return model

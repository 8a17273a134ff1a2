"""Builds an ONNX graph layer by layer, with shapes known and weights still to be drawn."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tools.networks.weights import (
    Network,
    Rescaling,
    WeightSpec,
    bias_weight,
    gain_weight,
    he_weight,
    offset_weight,
)

OPSET = 17
IR_VERSION = 8
CHANNEL_MULTIPLE = 4
"""Scaled channel counts are multiples of this, so that 12 and 20 occur next to 8 and 16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A float tensor of the graph."""

    name: str
    shape: tuple[int, ...]
    """Without the batch: ``(C, H, W)``, or ``(features,)`` behind a flatten."""
    weights: tuple[str, ...] = ()
    """Weight and bias of the layer that wrote the tensor, where there are any."""

    @property
    def channels(self) -> int:
        """Channels, or features behind a flatten."""
        return self.shape[0]


class GraphBuilder:
    """A graph under construction; each method adds one operator and returns its output."""

    def __init__(self, *, width: float = 1.0) -> None:
        if width <= 0:
            raise ValueError(f"width is {width}; it scales channel counts and must be above 0")
        self._width = width
        self._scopes: list[str] = []
        self._counts: Counter[str] = Counter()
        self._inputs: list[onnx.ValueInfoProto] = []
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self._weights: dict[str, WeightSpec] = {}
        self._rescalings: list[Rescaling] = []

    def scaled(self, channels: int) -> int:
        """Return ``channels`` times the width, as a multiple of 4; unchanged for width 1."""
        if self._width == 1.0:
            return channels
        return max(1, round(channels * self._width / CHANNEL_MULTIPLE)) * CHANNEL_MULTIPLE

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Put ``name/`` before the names of all layers added inside."""
        self._scopes.append(name)
        try:
            yield
        finally:
            self._scopes.pop()

    def image(self, *, height: int, width: int, multiple: int, channels: int = 3) -> Tensor:
        """Add the graph input, named "input".

        Args:
            height: Rows.
            width: Columns.
            multiple: Both sides must be multiples of this.
            channels: Colours.

        Raises:
            ValueError: A side is not a positive multiple.
        """
        for side in (height, width):
            if side <= 0 or side % multiple:
                raise ValueError(f"an input side of {side} is not a positive multiple of {multiple}")
        shape = (channels, height, width)
        self._inputs.append(helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, *shape]))
        return Tensor(name="input", shape=shape)

    def conv(
        self,
        x: Tensor,
        *,
        channels: int,
        kernel: int,
        stride: int = 1,
        pad: int | None = None,
        groups: int = 1,
        has_bias: bool = True,
    ) -> Tensor:
        """Add a square convolution; ``pad`` is ``kernel // 2`` on each side unless given."""
        margin = kernel // 2 if pad is None else pad
        name = self._name("conv")
        per_group = x.channels // groups
        weights = self._weight(
            f"{name}.weight",
            he_weight((channels, per_group, kernel, kernel), fan_in=per_group * kernel * kernel),
        )
        if has_bias:
            weights += self._weight(f"{name}.bias", bias_weight(channels))
        return self._node(
            "Conv",
            [x.name, *weights],
            name=name,
            shape=(channels, *_window_shape(x, kernel=kernel, stride=stride, pad=margin)),
            weights=weights,
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[margin] * 4,
            group=groups,
        )

    def gemm(self, x: Tensor, *, features: int) -> Tensor:
        """Add a fully connected layer, weight ``[out, in]``."""
        name = self._name("gemm")
        weights = self._weight(f"{name}.weight", he_weight((features, x.channels), fan_in=x.channels))
        weights += self._weight(f"{name}.bias", bias_weight(features))
        return self._node("Gemm", [x.name, *weights], name=name, shape=(features,), weights=weights, transB=1)

    def batch_norm(self, x: Tensor, *, gain: float = 1.0) -> Tensor:
        """Add a batch normalization of factors around ``gain``; calibration sets its mean and variance."""
        name = self._name("norm")
        weights = self._weight(f"{name}.scale", gain_weight(x.channels, mean=gain))
        weights += self._weight(f"{name}.bias", offset_weight(x.channels))
        weights += self._weight(f"{name}.mean", WeightSpec(shape=(x.channels,)))
        weights += self._weight(f"{name}.var", WeightSpec(shape=(x.channels,), mean=1.0))
        return self._node("BatchNormalization", [x.name, *weights], name=name, shape=x.shape, epsilon=1e-5)

    def instance_norm(self, x: Tensor) -> Tensor:
        """Add a normalization of each channel of each image by its own mean and variance."""
        name = self._name("norm")
        weights = self._weight(f"{name}.scale", gain_weight(x.channels))
        weights += self._weight(f"{name}.bias", offset_weight(x.channels))
        return self._node("InstanceNormalization", [x.name, *weights], name=name, shape=x.shape, epsilon=1e-5)

    def relu(self, x: Tensor) -> Tensor:
        """Add ``max(x, 0)``."""
        return self._node("Relu", [x.name], name=self._name("relu"), shape=x.shape)

    def leaky_relu(self, x: Tensor, *, slope: float) -> Tensor:
        """Add ``x`` where positive, ``slope * x`` elsewhere."""
        return self._node("LeakyRelu", [x.name], name=self._name("leaky"), shape=x.shape, alpha=slope)

    def relu6(self, x: Tensor) -> Tensor:
        """Add a clip to ``[0, 6]``."""
        low = self._constant("clip.min", np.float32(0.0))
        high = self._constant("clip.max", np.float32(6.0))
        return self._node("Clip", [x.name, low, high], name=self._name("relu6"), shape=x.shape)

    def max_pool(self, x: Tensor, *, kernel: int = 2, stride: int = 2, pad: int = 0) -> Tensor:
        """Add a square max pooling."""
        return self._node(
            "MaxPool",
            [x.name],
            name=self._name("pool"),
            shape=(x.channels, *_window_shape(x, kernel=kernel, stride=stride, pad=pad)),
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[pad] * 4,
        )

    def global_average_pool(self, x: Tensor) -> Tensor:
        """Add the mean over all pixels, ``(C, 1, 1)``."""
        return self._node("GlobalAveragePool", [x.name], name=self._name("pool"), shape=(x.channels, 1, 1))

    def flatten(self, x: Tensor) -> Tensor:
        """Add a flatten to ``(C * H * W,)``."""
        return self._node("Flatten", [x.name], name=self._name("flatten"), shape=(int(np.prod(x.shape)),))

    def add(self, x: Tensor, *, other: Tensor) -> Tensor:
        """Add the sum of two tensors of one shape."""
        if x.shape != other.shape:
            raise ValueError(f"cannot add {other.name} {other.shape} to {x.name} {x.shape}")
        return self._node("Add", [x.name, other.name], name=self._name("add"), shape=x.shape)

    def concat(self, parts: Sequence[Tensor]) -> Tensor:
        """Add a concatenation over channels, or over features."""
        if len({part.shape[1:] for part in parts}) != 1:
            raise ValueError(f"cannot join images of unequal size: {[part.shape for part in parts]}")
        shape = (sum(part.channels for part in parts), *parts[0].shape[1:])
        return self._node(
            "Concat", [part.name for part in parts], name=self._name("concat"), shape=shape, axis=1
        )

    def space_to_depth(self, x: Tensor, *, block: int) -> Tensor:
        """Add a move of each ``block x block`` of pixels into channels."""
        channels, height, width = x.shape
        shape = (channels * block * block, height // block, width // block)
        return self._node("SpaceToDepth", [x.name], name=self._name("reorg"), shape=shape, blocksize=block)

    def upsample(self, x: Tensor) -> Tensor:
        """Add a doubling of height and width that repeats each pixel."""
        channels, height, width = x.shape
        scales = self._constant("upsample.scales", np.array([1, 1, 2, 2], dtype=np.float32))
        return self._node(
            "Resize",
            [x.name, "", scales],
            name=self._name("upsample"),
            shape=(channels, 2 * height, 2 * width),
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )

    def rescale(self, x: Tensor) -> Tensor:
        """Have calibration scale the layer that wrote ``x`` to a standard deviation of 2."""
        self._rescalings.append(Rescaling(measured=x.name, weights=x.weights))
        return x

    def finish(self, output: Tensor, *, name: str) -> Network:
        """Return the network ``name`` whose output is ``output``, renamed to "output"."""
        for node in self._nodes:
            for names in (node.input, node.output):
                names[:] = ["output" if each == output.name else each for each in names]
        rescalings = tuple(
            Rescaling(measured="output", weights=each.weights) if each.measured == output.name else each
            for each in self._rescalings
        )
        declared = [
            helper.make_tensor_value_info(weight, TensorProto.FLOAT, spec.shape)
            for weight, spec in self._weights.items()
        ]
        graph = helper.make_graph(
            self._nodes,
            name,
            [*self._inputs, *declared],
            [helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, *output.shape])],
            list(self._constants.values()),
        )
        model = helper.make_model(
            graph,
            producer_name="codl",
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
        )
        return Network(model=model, weights=self._weights, rescalings=rescalings)

    def _name(self, kind: str) -> str:
        prefix = "".join(f"{scope}/" for scope in self._scopes)
        self._counts[prefix + kind] += 1
        return f"{prefix}{kind}{self._counts[prefix + kind]}"

    def _weight(self, name: str, spec: WeightSpec) -> tuple[str, ...]:
        self._weights[name] = spec
        return (name,)

    def _constant(
        self, name: str, value: np.generic | np.ndarray[tuple[int, ...], np.dtype[np.float32]]
    ) -> str:
        if name not in self._constants:
            self._constants[name] = numpy_helper.from_array(np.asarray(value), name)
        return name

    def _node(
        self,
        op: str,
        inputs: Sequence[str],
        *,
        name: str,
        shape: tuple[int, ...],
        weights: tuple[str, ...] = (),
        **attributes: int | float | str | list[int],
    ) -> Tensor:
        self._nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return Tensor(name=name, shape=shape, weights=weights)


def _window_shape(x: Tensor, *, kernel: int, stride: int, pad: int) -> tuple[int, ...]:
    """Return height and width behind a sliding window."""
    shape = tuple((side + 2 * pad - kernel) // stride + 1 for side in x.shape[1:])
    if min(shape) < 1:
        raise ValueError(f"{x.name} of {x.shape} is too small for a window of {kernel}")
    return shape

"""Random weights: how each is drawn, and the network whose weights have no values yet."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightSpec:
    """Shape and normal distribution of one weight tensor."""

    shape: tuple[int, ...]
    mean: float = 0.0
    std: float = 0.0
    """Zero gives a constant tensor of value `mean`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescaling:
    """A layer whose weights are scaled until a tensor has a wanted standard deviation."""

    measured: str
    """Name of the tensor to bring to `std`; it must grow in proportion to `weights`."""
    weights: tuple[str, ...]
    """Names of the layer's weight and bias."""
    std: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A network at batch 1, before its weights are drawn."""

    model: onnx.ModelProto
    """Every name in `weights` is a graph input after the data input, and has no initializer."""
    weights: Mapping[str, WeightSpec]
    rescalings: tuple[Rescaling, ...]


def he_weight(shape: tuple[int, ...], *, fan_in: int) -> WeightSpec:
    """Return a weight that keeps the second moment of a signal across the layer and a ReLU.

    Args:
        shape: Shape of the weight tensor.
        fan_in: Products summed into one output value.

    Source:
        He et al., Delving Deep into Rectifiers, 2015, equation 10.
    """
    return WeightSpec(shape=shape, std=(2.0 / fan_in) ** 0.5)


def bias_weight(channels: int) -> WeightSpec:
    """Return a bias: small next to a signal of standard deviation 1, and never exactly zero."""
    return WeightSpec(shape=(channels,), std=0.05)


def gain_weight(channels: int, *, mean: float = 1.0) -> WeightSpec:
    """Return the factor of a normalization, within some tenths of ``mean``."""
    return WeightSpec(shape=(channels,), mean=mean, std=0.1 * mean)


def offset_weight(channels: int) -> WeightSpec:
    """Return the summand of a normalization: most of what it shifts passes the ReLU behind it.

    Around zero, every normalization and ReLU would let roundings drift a fifth further apart: ONNX Runtime
    fed images one rounding apart answers 4e-5 apart at the end of Inception v2. Shifted, it is 7e-6.
    """
    return WeightSpec(shape=(channels,), mean=0.5, std=0.1)


def draw_weights(specs: Mapping[str, WeightSpec], *, rng: np.random.Generator) -> dict[str, FloatArray]:
    """Return one array for each spec, drawn in the order of the mapping."""
    return {name: _draw(spec, rng) for name, spec in specs.items()}


def _draw(spec: WeightSpec, rng: np.random.Generator) -> FloatArray:
    if spec.std == 0.0:
        return np.full(spec.shape, spec.mean, dtype=np.float32)
    values = rng.standard_normal(spec.shape, dtype=np.float32)
    values *= np.float32(spec.std)
    if spec.mean != 0.0:
        values += np.float32(spec.mean)
    return values

"""What a kernel does to each value before it stores it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["FUNCTIONS", "Activation", "ActivationKind", "Epilogue", "Function", "ResidualOrder"]


class ActivationKind(StrEnum):
    """Pointwise functions of one value; `alpha` and `beta` are named as in ONNX."""

    IDENTITY = "identity"
    RELU = "relu"
    CLIP = "clip"
    """min = alpha, max = beta"""
    LEAKY_RELU = "leaky_relu"
    ELU = "elu"
    SIGMOID = "sigmoid"
    HARD_SIGMOID = "hard_sigmoid"
    HARD_SWISH = "hard_swish"
    TANH = "tanh"
    ERF = "erf"
    GELU = "gelu"
    SWISH = "swish"
    """x * sigmoid(alpha * x); SiLU where alpha is 1"""
    SQRT = "sqrt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """Facts about an activation; kernels/common/activate.h computes it."""

    operator: str
    """ONNX's operator."""
    opset: int = 14
    """The oldest opset in use by exporters that has the operator."""
    attributes: Mapping[str, float] = field(default_factory=dict)
    """Attributes of ONNX's operator and of an activation: name -> ONNX's default."""
    is_plain: bool = False
    """Whether kernels/common/plain.h computes it: a slope below zero, then two bounds."""
    is_expensive: bool = False
    """Whether it takes an exponential."""
    is_partial: bool = False
    """Whether it has no value for numbers below zero."""


FUNCTIONS: Mapping[ActivationKind, Function] = {
    ActivationKind.IDENTITY: Function(operator="Identity", is_plain=True),
    ActivationKind.RELU: Function(operator="Relu", is_plain=True),
    ActivationKind.CLIP: Function(operator="Clip", is_plain=True),
    ActivationKind.LEAKY_RELU: Function(operator="LeakyRelu", attributes={"alpha": 0.01}, is_plain=True),
    ActivationKind.ELU: Function(operator="Elu", attributes={"alpha": 1.0}, is_expensive=True),
    ActivationKind.SIGMOID: Function(operator="Sigmoid", is_expensive=True),
    ActivationKind.HARD_SIGMOID: Function(operator="HardSigmoid", attributes={"alpha": 0.2, "beta": 0.5}),
    ActivationKind.HARD_SWISH: Function(operator="HardSwish"),
    ActivationKind.TANH: Function(operator="Tanh", is_expensive=True),
    ActivationKind.ERF: Function(operator="Erf", is_expensive=True),
    ActivationKind.GELU: Function(operator="Gelu", opset=20, is_expensive=True),
    ActivationKind.SWISH: Function(operator="Swish", opset=24, attributes={"alpha": 1.0}, is_expensive=True),
    ActivationKind.SQRT: Function(operator="Sqrt", is_partial=True),
}
"""In the order of their codes in kernels; the bounds of Clip are inputs of ONNX's operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """A pointwise function, as an operator of its own or in an epilogue."""

    kind: ActivationKind = ActivationKind.IDENTITY
    alpha: float = 0.0
    beta: float = 0.0


class ResidualOrder(StrEnum):
    """Where an epilogue adds the residual tensor."""

    NONE = "none"
    BEFORE = "before"
    """activation(value + residual)"""
    AFTER = "after"
    """activation(value) + residual"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Epilogue:
    """What a producing kernel does to a value before it stores it.

    When `residual` is not NONE, the residual tensor is the node's last input and
    has the output's shape.
    """

    activation: Activation = Activation()
    residual: ResidualOrder = ResidualOrder.NONE

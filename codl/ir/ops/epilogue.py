"""What a kernel does to each value before it stores it."""

from dataclasses import dataclass
from enum import StrEnum


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

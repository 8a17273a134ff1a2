"""Functions of single elements."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary:
    """Pointwise function of one tensor; which one is the node's epilogue. Input: x, any shape."""


class BinaryKind(StrEnum):
    """Pointwise functions of two values."""

    ADD = "add"
    MUL = "mul"
    SUB = "sub"
    DIV = "div"
    PRELU = "prelu"
    """a where a >= 0, a * b elsewhere"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """Pointwise function of two tensors with ONNX (multidirectional) broadcasting. Inputs: a, b."""

    kind: BinaryKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Affine:
    """Per-channel x * scale + shift. Inputs: x [N, C, ...], scale [C], shift [C]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Normalize:
    """Inputs: x [N, C, H, W], factors [N, C, 1, 2] -> x * factor + summand."""

"""Factors of Resize and Upsample, and the sizes that follow from them."""

import numpy as np
import numpy.typing as npt

from codl.frontend.onnx_node import OnnxNode
from codl.ir.graph import Shape

_LENGTH_LIMIT = 2.0**63
_LAST_WITHOUT_ROI = 10
"""Up to this opset scales are the second input, later the third."""


def find_scales_input(node: OnnxNode) -> str | None:
    """Return the tensor that holds a resizing's factors, None if an attribute or another tensor decides."""
    if node.opset <= _LAST_WITHOUT_ROI:
        return node.optional_input(1)
    return node.optional_input(2) if node.optional_input(3) is None else None


def spread_scales(node: OnnxNode, scales: npt.ArrayLike, *, rank: int) -> tuple[float, ...] | None:
    """Return a float32 factor for each axis, 1 for those not named; None if their number is wrong."""
    stated = np.asarray(scales, np.float32).reshape(-1)
    axes = node.integers("axes") or tuple(range(rank))
    if len(stated) != len(axes) or any(not -rank <= axis < rank for axis in axes):
        return None
    factors = np.ones(rank, np.float32)
    factors[[axis % rank for axis in axes]] = stated
    return tuple(factors.tolist())


def find_resized_shape(node: OnnxNode, *, x: Shape, scales: npt.ArrayLike) -> Shape | None:
    """Return the output shape for these factors, None if they are no positive ones for each axis.

    Raises:
        ModelError: A length is none that ONNX can tell.

    Source:
        ONNX operator Resize: input times scale, rounded down; the product is a float32 in ONNX Runtime.
    """
    factors = spread_scales(node, scales, rank=len(x))
    if factors is None or not all(0 < factor < np.inf for factor in factors):
        return None
    lengths = [np.float32(length) * np.float32(factor) for length, factor in zip(x, factors, strict=True)]
    if max(lengths, default=0) >= _LENGTH_LIMIT:
        raise node.broken(got=f"factors {list(factors)} of an input {list(x)}", expected="lengths below 2^63")
    return tuple(map(int, lengths))

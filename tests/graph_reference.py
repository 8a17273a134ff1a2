"""A graph computed by numpy, a few lines an operator: shows that a translation means what the model means.

It judges no kernel; the numbers it yields are themselves checked against ONNX Runtime.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from codl.ir.graph import Graph, Shape
from codl.ir.ops import (
    Activation,
    ActivationKind,
    Affine,
    Binary,
    BinaryKind,
    CombineRows,
    Concat,
    Conv2d,
    MatMul,
    Pool2d,
    PoolKind,
    Reshape,
    ResidualOrder,
    RowSum,
    Softmax,
    SpaceToDepth,
    Unary,
)

Array = npt.NDArray[np.float64]


def evaluate(graph: Graph, feeds: Mapping[str, npt.ArrayLike]) -> dict[str, Array]:
    """Return every activation of ``graph`` in double precision."""
    known = {
        name: np.asarray(value, np.float64) for name, value in (*graph.constants.items(), *feeds.items())
    }
    for node in graph.nodes:
        inputs = [known[name] for name in node.inputs]
        residual = inputs.pop() if node.residual else np.float64(0)
        shape = graph.shape(node.output)
        value = _EVALUATIONS[type(node.op)](node.op, inputs, shape)
        order = node.epilogue.residual
        if order is ResidualOrder.BEFORE:
            value = value + residual
        value = activate(node.epilogue.activation, value)
        if order is ResidualOrder.AFTER:
            value = value + residual
        assert value.shape == shape, f"{node.name}: computed {value.shape}, the graph says {shape}"
        known[node.output] = value
    return {name: value for name, value in known.items() if name not in graph.constants}


def activate(activation: Activation, x: Array) -> Array:
    """Return the function of each element."""
    match activation.kind:
        case ActivationKind.IDENTITY:
            return x
        case ActivationKind.RELU:
            return np.maximum(x, 0)
        case ActivationKind.CLIP:
            return np.minimum(np.maximum(x, activation.alpha), activation.beta)
        case ActivationKind.LEAKY_RELU:
            return np.where(x < 0, activation.alpha * x, x)


def _windows(op: Conv2d | Pool2d, x: Array, shape: Shape, fill: float) -> Array:
    """Return [KH, KW, N, C, OH, OW]: what each tap of the window sees, ``fill`` outside the tensor."""
    (kh, kw), (sh, sw), (dh, dw), (top, left, _, _) = op.kernel, op.stride, op.dilation, op.pads
    height = max(top + x.shape[2], (shape[2] - 1) * sh + (kh - 1) * dh + 1)
    width = max(left + x.shape[3], (shape[3] - 1) * sw + (kw - 1) * dw + 1)
    padded = np.full((*x.shape[:2], height, width), fill)
    padded[:, :, top : top + x.shape[2], left : left + x.shape[3]] = x
    rows, columns = np.arange(shape[2]) * sh, np.arange(shape[3]) * sw
    taps = [
        [padded[:, :, i * dh + rows[:, None], j * dw + columns[None, :]] for j in range(kw)]
        for i in range(kh)
    ]
    return np.array(taps)


def _conv2d(op: Conv2d, inputs: Sequence[Array], shape: Shape) -> Array:
    x, weight = inputs[0], inputs[1]
    taps = _windows(op, x, shape, 0.0)
    taps = taps.reshape(*taps.shape[:3], op.groups, -1, *shape[2:])
    kernels = weight.reshape(op.groups, -1, *weight.shape[1:])
    y = np.einsum("hwngcyx,gochw->ngoyx", taps, kernels, optimize=True).reshape(shape)
    return np.asarray(y + inputs[2].reshape(1, -1, 1, 1) if op.has_bias else y)


def _pool2d(op: Pool2d, inputs: Sequence[Array], shape: Shape) -> Array:
    x = inputs[0]
    if op.kind is PoolKind.MAX:
        return np.asarray(_windows(op, x, shape, -np.inf).max(axis=(0, 1)))
    ones = np.ones_like(x)
    counted = op
    if op.counts_padding:
        top, left, bottom, right = op.pads
        ones = np.pad(ones, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=1)
        counted = Pool2d(kind=op.kind, kernel=op.kernel, stride=op.stride, dilation=op.dilation)
    count = _windows(counted, ones, shape, 0.0).sum(axis=(0, 1))
    return np.asarray(_windows(op, x, shape, 0.0).sum(axis=(0, 1)) / count)


def _matmul(op: MatMul, inputs: Sequence[Array], _: Shape) -> Array:
    product = inputs[0] @ inputs[1]
    return np.asarray(product + inputs[2] if op.has_bias else product)


def _binary(op: Binary, inputs: Sequence[Array], _: Shape) -> Array:
    return np.asarray((np.add if op.kind is BinaryKind.ADD else np.multiply)(*inputs))


def _affine(_: Affine, inputs: Sequence[Array], __: Shape) -> Array:
    x, scale, shift = inputs
    channels = (-1,) + (1,) * (x.ndim - 2)
    return x * scale.reshape(channels) + shift.reshape(channels)


def _softmax(op: Softmax, inputs: Sequence[Array], _: Shape) -> Array:
    powers = np.exp(inputs[0] - inputs[0].max(axis=op.axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=op.axis, keepdims=True))


def _space_to_depth(op: SpaceToDepth, inputs: Sequence[Array], shape: Shape) -> Array:
    n, c, h, w = inputs[0].shape
    b = op.block
    blocks = inputs[0].reshape(n, c, h // b, b, w // b, b)
    return blocks.transpose(0, 3, 5, 1, 2, 4).reshape(shape)


_EVALUATIONS: dict[type, Callable[[Any, Sequence[Array], Shape], Array]] = {
    Conv2d: _conv2d,
    MatMul: _matmul,
    Pool2d: _pool2d,
    RowSum: lambda _, inputs, __: inputs[0].sum(axis=3, keepdims=True),
    CombineRows: lambda op, inputs, _: inputs[0].sum(axis=2, keepdims=True) * op.scale,
    Unary: lambda _, inputs, __: inputs[0],
    Binary: _binary,
    Affine: _affine,
    Concat: lambda op, inputs, _: np.concatenate(inputs, axis=op.axis),
    Reshape: lambda _, inputs, shape: inputs[0].reshape(shape),
    Softmax: _softmax,
    SpaceToDepth: _space_to_depth,
}

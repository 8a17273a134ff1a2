"""A graph computed by numpy, a few lines an operator: shows that a translation means what the model means.

It judges no kernel; the numbers it yields are themselves checked against ONNX Runtime.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from codl.ir.graph import Graph, Shape
from codl.ir.ops import (
    FUNCTIONS,
    Activation,
    ActivationKind,
    Affine,
    Attention,
    Binary,
    BinaryKind,
    ChannelShuffle,
    CombineMoments,
    CombineRows,
    Concat,
    Conv2d,
    ConvTranspose2d,
    Coordinates,
    DepthToSpace,
    Embedding,
    LayerNorm,
    LocalResponseNorm,
    MatMul,
    Normalize,
    Pad,
    PadMode,
    Pool2d,
    PoolKind,
    ReduceMean,
    Reshape,
    ResidualOrder,
    Resize2d,
    ResizeMode,
    Rounding,
    RowMoments,
    RowSum,
    Slice,
    Softmax,
    SpaceToDepth,
    Transpose,
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
    """Return the function of each element, by ONNX's reference of its operator."""
    if activation.kind is ActivationKind.CLIP:
        return np.minimum(np.maximum(x, activation.alpha), activation.beta)
    function = FUNCTIONS[activation.kind]
    attributes = {name: getattr(activation, name) for name in function.attributes}
    only = helper.make_node(function.operator, ["x"], ["y"], **attributes)
    ends = [[helper.make_tensor_value_info(name, TensorProto.DOUBLE, x.shape)] for name in "xy"]
    model = helper.make_model(helper.make_graph([only], "activation", *ends))
    (y,) = ReferenceEvaluator(onnx.shape_inference.infer_shapes(model)).run(None, {"x": x})
    return np.asarray(y)


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
    a, b = inputs
    match op.kind:
        case BinaryKind.ADD:
            return np.asarray(a + b)
        case BinaryKind.SUB:
            return np.asarray(a - b)
        case BinaryKind.MUL:
            return np.asarray(a * b)
        case BinaryKind.DIV:
            return np.asarray(a / b)
        case BinaryKind.PRELU:
            return np.where(a < 0, a * b, a)


def _affine(_: Affine, inputs: Sequence[Array], __: Shape) -> Array:
    x, scale, shift = inputs
    channels = (-1,) + (1,) * (x.ndim - 2)
    return x * scale.reshape(channels) + shift.reshape(channels)


def _softmax(op: Softmax, inputs: Sequence[Array], _: Shape) -> Array:
    powers = np.exp(inputs[0] - inputs[0].max(axis=op.axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=op.axis, keepdims=True))


def _attention(op: Attention, inputs: Sequence[Array], shape: Shape) -> Array:
    """Split heads off the channels, rows second to last; join them again."""
    sizes = (op.depth, op.depth, op.width)
    query, key, value = (
        np.moveaxis(x, op.row_axis, 1)[..., begin : begin + op.heads * size]
        .reshape(x.shape[op.batch_axis], -1, op.heads, size)
        .swapaxes(1, 2)
        for x, begin, size in zip(inputs[:3], op.begins, sizes, strict=True)
    )
    scores = op.scale * query @ key.swapaxes(2, 3) + (inputs[3] if op.has_mask else 0)
    mixed = _softmax(Softmax(axis=3), [scores], shape) @ value
    joined = mixed.swapaxes(1, 2).reshape(*mixed.shape[::2], -1)
    return np.moveaxis(joined, 1, op.row_axis)


def _layer_norm(op: LayerNorm, inputs: Sequence[Array], _: Shape) -> Array:
    x, *weights = inputs
    scale, *shift = ([1] * op.axis + [-1] + [1] * (x.ndim - 1 - op.axis) for _ in weights)
    mean = x.mean(axis=op.axis, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=op.axis, keepdims=True)
    value = (x - mean) / np.sqrt(variance + op.epsilon) * weights[0].reshape(scale)
    return np.asarray(value + weights[1].reshape(shift[0]) if shift else value)


def _space_to_depth(op: SpaceToDepth, inputs: Sequence[Array], shape: Shape) -> Array:
    n, c, h, w = inputs[0].shape
    b = op.block
    blocks = inputs[0].reshape(n, c, h // b, b, w // b, b)
    order = (0, 1, 3, 5, 2, 4) if op.is_column_major else (0, 3, 5, 1, 2, 4)
    return blocks.transpose(order).reshape(shape)


def _depth_to_space(op: DepthToSpace, inputs: Sequence[Array], shape: Shape) -> Array:
    n, _, h, w = inputs[0].shape
    b = op.block
    if op.is_column_major:
        return inputs[0].reshape(n, -1, b, b, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(shape)
    return inputs[0].reshape(n, b, b, -1, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(shape)


def _channel_shuffle(op: ChannelShuffle, inputs: Sequence[Array], shape: Shape) -> Array:
    n, _, h, w = shape
    return inputs[0].reshape(n, op.groups, -1, h, w).swapaxes(1, 2).reshape(shape)


def _conv_transpose2d(op: ConvTranspose2d, inputs: Sequence[Array], shape: Shape) -> Array:
    """Scatter each input pixel's products over a canvas that the padding then crops."""
    x, weight = inputs[0], inputs[1]
    (kh, kw), (sh, sw), (dh, dw), (top, left, _, _) = op.kernel, op.stride, op.dilation, op.pads
    n, _, h, w = x.shape
    canvas = np.zeros((n, shape[1], top + shape[2] + h * sh + kh * dh, left + shape[3] + w * sw + kw * dw))
    pixels = x.reshape(n, op.groups, -1, h, w)
    kernels = weight.reshape(op.groups, -1, *weight.shape[1:])
    for i in range(kh):
        for j in range(kw):
            tap = np.einsum("ngchw,gco->ngohw", pixels, kernels[..., i, j]).reshape(n, -1, h, w)
            rows, columns = slice(i * dh, i * dh + h * sh, sh), slice(j * dw, j * dw + w * sw, sw)
            canvas[:, :, rows, columns] += tap
    y = canvas[:, :, top : top + shape[2], left : left + shape[3]]
    return np.asarray(y + inputs[2].reshape(1, -1, 1, 1) if op.has_bias else y)


def _row_moments(_: RowMoments, inputs: Sequence[Array], __: Shape) -> Array:
    x = inputs[0]
    return np.stack([x.mean(axis=3), x.var(axis=3) * x.shape[3]], axis=3)


def _combine_moments(op: CombineMoments, inputs: Sequence[Array], _: Shape) -> Array:
    moments, scale, shift = inputs
    means, squares = moments[..., 0], moments[..., 1]
    mean = means.mean(axis=2)
    variance = (squares.mean(axis=2) + op.row_length * means.var(axis=2)) / op.row_length
    slope = scale / np.sqrt(variance + op.epsilon)
    factor = np.where(variance == 0, 0.0, slope)  # of equal values the shift is left, exactly
    return np.stack([factor, shift - mean * factor], axis=2)[:, :, None, :]


def _normalize(_: Normalize, inputs: Sequence[Array], __: Shape) -> Array:
    x, factors = inputs
    return np.asarray(x * factors[..., :1] + factors[..., 1:])


def _local_response_norm(op: LocalResponseNorm, inputs: Sequence[Array], _: Shape) -> Array:
    x = inputs[0]
    below = (op.size - 1) // 2
    padded = np.pad(x**2, ((0, 0), (below, op.size - 1 - below), (0, 0), (0, 0)))
    squares = sum(padded[:, i : i + x.shape[1]] for i in range(op.size))
    return np.asarray(x / (op.bias + op.alpha / op.size * squares) ** op.beta)


def _slice(op: Slice, inputs: Sequence[Array], shape: Shape) -> Array:
    picks = [np.arange(n) * step + begin for n, begin, step in zip(shape, op.begin, op.step, strict=True)]
    return np.asarray(inputs[0][np.ix_(*picks)])


def _pad(op: Pad, inputs: Sequence[Array], shape: Shape) -> Array:
    x = inputs[0]
    ends = list(zip(op.before, shape, x.shape, strict=True))
    x = x[tuple(slice(max(0, -b), min(n, new - b)) for b, new, n in ends)]
    widths = [(max(0, b), max(0, new - b - n)) for b, new, n in ends]
    if op.mode is PadMode.CONSTANT:
        return np.pad(x, widths, constant_values=op.value)
    return np.pad(x, widths, mode="reflect" if op.mode is PadMode.REFLECT else "edge")


def _resize2d(op: Resize2d, inputs: Sequence[Array], shape: Shape) -> Array:
    rows, columns = (
        _resizing_matrix(op, axis, inputs[0].shape[2 + axis], shape[2 + axis]) for axis in (0, 1)
    )
    return np.asarray(rows @ inputs[0] @ columns.T)


def _resizing_matrix(op: Resize2d, axis: int, length: int, out_length: int) -> Array:
    """Return [output, input] of weights along one axis; places in float32, as ONNX Runtime finds them."""
    x, scale = np.arange(out_length, dtype=np.float32), np.float32(op.scale[axis])
    half = np.float32(0.5)
    if scale != 1:
        match op.coordinates:
            case Coordinates.ASYMMETRIC:
                x = x / scale
            case Coordinates.HALF_PIXEL:
                x = (x + half) / scale - half
            case Coordinates.PYTORCH_HALF_PIXEL:
                x = (x + half) / scale - half if out_length > 1 else x
            case Coordinates.ALIGN_CORNERS:
                x = x * np.float32(length - 1) / np.float32(max(1, out_length - 1))
    below, nearest = np.floor(x), np.floor(x.astype(np.float64) + 0.5)
    is_half = np.abs(x.astype(np.float64) - below - 0.5) <= 1e-6
    rounded = {
        Rounding.FLOOR: below,
        Rounding.CEIL: np.ceil(x),
        Rounding.PREFER_FLOOR: np.where(is_half, below, nearest),
        Rounding.PREFER_CEIL: np.where(is_half, below + 1, nearest),
    }
    x = np.clip(rounded[op.rounding] if op.mode is ResizeMode.NEAREST else x, 0, length - 1)
    return np.asarray(np.maximum(0, 1 - np.abs(x[:, None] - np.arange(length))))


def _reduce_mean(op: ReduceMean, inputs: Sequence[Array], _: Shape) -> Array:
    return np.asarray(inputs[0].mean(axis=op.axes, keepdims=True))


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
    Attention: _attention,
    LayerNorm: _layer_norm,
    SpaceToDepth: _space_to_depth,
    DepthToSpace: _depth_to_space,
    Embedding: lambda _, inputs, __: inputs[1][inputs[0].astype(np.int64)],
    ConvTranspose2d: _conv_transpose2d,
    RowMoments: _row_moments,
    CombineMoments: _combine_moments,
    Normalize: _normalize,
    LocalResponseNorm: _local_response_norm,
    Slice: _slice,
    Pad: _pad,
    Resize2d: _resize2d,
    ReduceMean: _reduce_mean,
    Transpose: lambda op, inputs, _: inputs[0].transpose(op.order),
    ChannelShuffle: _channel_shuffle,
}

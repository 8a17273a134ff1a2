"""A network as PyTorch computes it: codl's graph, whose batch norms are folded already, node by node."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import functional

from codl.ir.graph import Graph, Node
from codl.ir.ops import (
    ActivationKind,
    Affine,
    Attention,
    Binary,
    BinaryKind,
    CombineRows,
    Concat,
    Conv2d,
    Epilogue,
    MatMul,
    Pool2d,
    PoolKind,
    Reshape,
    ResidualOrder,
    RowSum,
    Slice,
    Softmax,
    Transpose,
    Unary,
)

_ACTIVATIONS: Mapping[ActivationKind, Callable[[Any, Any], Any]] = {
    ActivationKind.IDENTITY: lambda x, _: x,
    ActivationKind.RELU: lambda x, _: functional.relu(x),
    ActivationKind.CLIP: lambda x, a: torch.clamp(x, a.alpha, a.beta),
    ActivationKind.LEAKY_RELU: lambda x, a: functional.leaky_relu(x, a.alpha),
    ActivationKind.SIGMOID: lambda x, _: torch.sigmoid(x),
    ActivationKind.HARD_SIGMOID: lambda x, a: torch.clamp(x * a.alpha + a.beta, 0, 1),
    ActivationKind.HARD_SWISH: lambda x, _: functional.hardswish(x),
    ActivationKind.TANH: lambda x, _: torch.tanh(x),
    ActivationKind.GELU: lambda x, _: functional.gelu(x),
    ActivationKind.SWISH: lambda x, a: x * torch.sigmoid(a.alpha * x),
}
_BINARIES = {
    BinaryKind.ADD: torch.add,
    BinaryKind.SUB: torch.sub,
    BinaryKind.MUL: torch.mul,
    BinaryKind.DIV: torch.div,
}


class UntranslatedError(ValueError):
    """A graph has an operator that PyTorch's translation lacks."""


def make_function(graph: Graph, *, dtype: Any, is_channels_last: bool) -> Callable[[Any], Any]:
    """Return what computes the only output of a network from its only input, on the GPU.

    Args:
        graph: The network.
        dtype: Of weights and activations.
        is_channels_last: Whether images and weights lie with channels innermost.

    Raises:
        UntranslatedError: An operator that is not known here.
    """
    layout = torch.channels_last if is_channels_last else torch.contiguous_format
    weights = {}
    for name, value in graph.constants.items():
        tensor = torch.from_numpy(value.copy()).cuda().to(dtype)
        weights[name] = tensor.contiguous(memory_format=layout) if tensor.ndim == 4 else tensor
    (source,), (result,) = graph.inputs, graph.outputs
    unknown = {type(node.op).__name__ for node in graph.nodes if type(node.op) not in _OPERATORS}
    if unknown:
        raise UntranslatedError(f"{graph.name}: no translation of {', '.join(sorted(unknown))}")

    def compute(x: Any) -> Any:
        values = {source: x, **weights}
        for node in graph.nodes:
            inputs = [values[name] for name in node.inputs]
            value = _OPERATORS[type(node.op)](node, inputs, graph)
            values[node.output] = _finish(value, node.epilogue, inputs[-1])
        return values[result]

    return compute


def _finish(value: Any, epilogue: Epilogue, residual: Any) -> Any:
    if epilogue.residual is ResidualOrder.BEFORE:
        value = value + residual
    value = _ACTIVATIONS[epilogue.activation.kind](value, epilogue.activation)
    return value + residual if epilogue.residual is ResidualOrder.AFTER else value


def _convolve(node: Node, inputs: list[Any], graph: Graph) -> Any:
    op: Any = node.op
    top, left, bottom, right = op.pads
    x, pads = inputs[0], (top, left)
    if (top, left) != (bottom, right):
        x, pads = functional.pad(x, (left, right, top, bottom)), (0, 0)
    bias = inputs[2] if op.has_bias else None
    return functional.conv2d(x, inputs[1], bias, op.stride, pads, op.dilation, op.groups)


def _pool(node: Node, inputs: list[Any], graph: Graph) -> Any:
    op: Any = node.op
    top, left, *_ = op.pads
    shape, x = graph.shape(node.output), inputs[0]
    needed = [
        (shape[2 + axis] - 1) * op.stride[axis] + (op.kernel[axis] - 1) * op.dilation[axis] + 1
        for axis in (0, 1)
    ]
    bottom, right = (max(0, needed[axis] - x.shape[2 + axis] - op.pads[axis]) for axis in (0, 1))
    if op.kind is PoolKind.MAX:
        if (top, left) != (bottom, right):
            x, top, left = functional.pad(x, (left, right, top, bottom), value=float("-inf")), 0, 0
        return functional.max_pool2d(x, op.kernel, op.stride, (top, left), op.dilation)
    if (top, left) == (bottom, right):
        return functional.avg_pool2d(
            x, op.kernel, op.stride, (top, left), count_include_pad=op.counts_padding
        )
    ceil = shape[2] * shape[3] > 0
    return functional.avg_pool2d(
        x, op.kernel, op.stride, (top, left), ceil, count_include_pad=op.counts_padding
    )


def _multiply(node: Node, inputs: list[Any], graph: Graph) -> Any:
    op: Any = node.op
    if op.has_bias and inputs[0].ndim == 2:
        return torch.addmm(inputs[2], inputs[0], inputs[1])
    value = torch.matmul(inputs[0], inputs[1])
    return value + inputs[2] if op.has_bias else value


def _map(node: Node, inputs: list[Any], graph: Graph) -> Any:
    shape = [1, -1] + [1] * (inputs[0].ndim - 2)
    return torch.addcmul(inputs[2].view(shape), inputs[0], inputs[1].view(shape))


def _slice(node: Node, inputs: list[Any], graph: Graph) -> Any:
    op: Any = node.op
    parts = zip(op.begin, op.step, graph.shape(node.output), strict=True)
    return inputs[0][
        tuple(slice(begin, begin + (count - 1) * step + 1, step) for begin, step, count in parts)
    ]


def _attend(node: Node, inputs: list[Any], graph: Graph) -> Any:
    op: Any = node.op
    split = [
        x.movedim(op.row_axis, 1)[..., begin : begin + op.heads * size]
        .unflatten(2, (op.heads, size))
        .transpose(1, 2)
        for x, begin, size in zip(inputs[:3], op.begins, (op.depth, op.depth, op.width), strict=True)
    ]
    mask = inputs[3] if op.has_mask else None
    mixed = functional.scaled_dot_product_attention(*split, attn_mask=mask, scale=op.scale)
    return mixed.transpose(1, 2).flatten(2).movedim(1, op.row_axis)


_OPERATORS: Mapping[type, Callable[[Any, list[Any], Graph], Any]] = {
    Conv2d: _convolve,
    Pool2d: _pool,
    MatMul: _multiply,
    Affine: _map,
    Slice: _slice,
    Unary: lambda node, inputs, graph: inputs[0],
    Binary: lambda node, inputs, graph: _BINARIES[node.op.kind](inputs[0], inputs[1]),
    Concat: lambda node, inputs, graph: torch.cat(inputs, node.op.axis),
    RowSum: lambda node, inputs, graph: inputs[0].sum(3, keepdim=True),
    CombineRows: lambda node, inputs, graph: inputs[0].sum(2, keepdim=True) * node.op.scale,
    Reshape: lambda node, inputs, graph: inputs[0].reshape(graph.shape(node.output)),
    Attention: _attend,
    Softmax: lambda node, inputs, graph: torch.softmax(inputs[0], node.op.axis),
    Transpose: lambda node, inputs, graph: inputs[0].permute(node.op.order),
}

"""Folds scales and shifts of channels into the constants of the node before them."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from codl.frontend.workbench import Fusion, Workbench
from codl.ir.graph import NO_EPILOGUE, FloatArray, Node, Shape
from codl.ir.ops import Affine, Binary, BinaryKind, Conv2d, ConvTranspose2d, MatMul

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChannelMap:
    """What a node does to its input: x * scale + shift, with a factor and an addend for each channel."""

    x: str
    scale: Doubles | None
    """None for 1."""
    shift: Doubles


def fold_channel_map(bench: Workbench, node: Node) -> Fusion | None:
    """Fold an `Affine`, or constant factors or addends of channels, into what computes the channels.

    Two such nodes in a row become one `Affine`; behind a convolution or product they go into its constants.
    """
    x = next((name for name in node.inputs if name not in bench.constants), None)
    producer = None if x is None else bench.sole_producer(x)
    if producer is None or producer.epilogue != NO_EPILOGUE:
        return None
    axis = len(bench.graph.shape(producer.output)) - 1 if isinstance(producer.op, MatMul) else 1
    found = _read_map(bench, node, axis=axis)
    if found is None or found.x != producer.output:
        return None
    if isinstance(producer.op, Conv2d | ConvTranspose2d | MatMul):
        is_open = producer.inputs[1] in bench.constants
        return _fold_into_weights(bench, node, producer, found) if is_open else None
    first = _read_map(bench, producer, axis=1)
    return None if first is None else _join_maps(bench, node, producer, first, found)


def _read_map(bench: Workbench, node: Node, *, axis: int) -> _ChannelMap | None:
    """Return what ``node`` does to each channel, which ``axis`` counts; None if it is no such map."""
    if node.epilogue != NO_EPILOGUE:
        return None
    if isinstance(node.op, Affine):
        x, *constants = node.inputs
        if axis != 1 or any(name not in bench.constants for name in constants):
            return None
        scale, shift = (bench.constants[name].astype(np.float64) for name in constants)
        return _ChannelMap(x=x, scale=scale, shift=shift)
    if not isinstance(node.op, Binary):
        return None
    a, b = node.inputs
    x, operand, is_swapped = (b, a, True) if a in bench.constants else (a, b, False)
    shape = bench.graph.shape(x)
    if operand not in bench.constants or axis >= len(shape) or bench.graph.shape(node.output) != shape:
        return None
    value = _spread(bench.constants[operand], shape, axis=axis)
    return None if value is None else _map_of(node.op.kind, x, value, is_swapped=is_swapped)


def _spread(operand: FloatArray, shape: Shape, *, axis: int) -> Doubles | None:
    """Return the value of each channel, or None where it differs between the elements of a channel."""
    padded = (1,) * (len(shape) - operand.ndim) + operand.shape
    if any(length != 1 for i, length in enumerate(padded) if i != axis):
        return None
    return np.broadcast_to(operand.reshape(-1).astype(np.float64), (shape[axis],))


def _map_of(kind: BinaryKind, x: str, value: Doubles, *, is_swapped: bool) -> _ChannelMap | None:
    """Return x with a constant on its right, or on its left where swapped, as a map."""
    zeros = np.zeros(len(value))
    match kind:
        case BinaryKind.ADD:
            return _ChannelMap(x=x, scale=None, shift=value)
        case BinaryKind.SUB if is_swapped:
            return _ChannelMap(x=x, scale=np.full(len(value), -1.0), shift=value)
        case BinaryKind.SUB:
            return _ChannelMap(x=x, scale=None, shift=-value)
        case BinaryKind.MUL:
            return _ChannelMap(x=x, scale=value, shift=zeros)
        case BinaryKind.DIV if not is_swapped and value.all():
            return _ChannelMap(x=x, scale=1 / value, shift=zeros)
        case BinaryKind.DIV | BinaryKind.PRELU:
            return None


def _join_maps(
    bench: Workbench, node: Node, producer: Node, first: _ChannelMap, second: _ChannelMap
) -> Fusion:
    """Return one `Affine` that does what two maps do one after the other."""
    before, factor = (np.ones(1) if each.scale is None else each.scale for each in (first, second))
    scale = np.broadcast_to(before * factor, first.shift.shape)
    constants = (
        bench.add_constant(f"{node.output}/scale", scale),
        bench.add_constant(f"{node.output}/shift", first.shift * factor + second.shift),
    )
    fused = replace(producer, op=Affine(), inputs=(first.x, *constants), output=node.output)
    return Fusion(node=fused, absorbed=producer.output)


def _fold_into_weights(bench: Workbench, node: Node, producer: Node, found: _ChannelMap) -> Fusion:
    """Return the producer with scaled weight and shifted bias, writing the output of ``node``."""
    assert isinstance(producer.op, Conv2d | ConvTranspose2d | MatMul)
    weight_name = producer.inputs[1]
    channels = len(found.shift)
    bias = (
        bench.constants[producer.inputs[2]].astype(np.float64) if producer.op.has_bias else np.zeros(channels)
    )
    if found.scale is not None:
        weight = _scale_weight(producer.op, bench.constants[weight_name], found.scale)
        weight_name = bench.add_constant(f"{weight_name}/folded", weight)
        bias = bias * found.scale
    bias_name = bench.add_constant(f"{node.output}/bias", bias + found.shift)
    fused = replace(
        producer,
        op=replace(producer.op, has_bias=True),
        inputs=(producer.inputs[0], weight_name, bias_name),
        output=node.output,
    )
    return Fusion(node=fused, absorbed=producer.output)


def _scale_weight(op: Conv2d | ConvTranspose2d | MatMul, weight: FloatArray, scale: Doubles) -> Doubles:
    """Return a weight whose output channels are multiplied by ``scale``."""
    match op:
        case Conv2d():
            return weight * scale.reshape(-1, 1, 1, 1)
        case MatMul():
            return weight * scale
        case ConvTranspose2d():
            groups = weight.reshape(op.groups, -1, *weight.shape[1:])
            return np.asarray(groups * scale.reshape(op.groups, 1, -1, 1, 1)).reshape(weight.shape)

"""Folds scales and shifts of channels into the constants of the node before them."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from codl.frontend.workbench import Fusion, Workbench
from codl.ir.graph import NO_EPILOGUE, Node
from codl.ir.ops import Affine, Binary, BinaryKind, Conv2d, MatMul

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChannelMap:
    """What a node does to its input: x * scale + shift, with a factor and an addend for each channel."""

    producer: Node
    scale: Doubles | None
    """None for 1."""
    shift: Doubles


def fold_channel_map(bench: Workbench, node: Node) -> Fusion | None:
    """Fold an `Affine`, or a constant factor or addend of each channel, into what computes the channels."""
    found = _read_map(bench, node)
    if found is None:
        return None
    producer = found.producer
    if isinstance(producer.op, Affine):
        scale, shift = (bench.constants[name].astype(np.float64) for name in producer.inputs[1:])
        factor = np.ones(1) if found.scale is None else found.scale
        constants = (
            bench.add_constant(f"{node.output}/scale", scale * factor),
            bench.add_constant(f"{node.output}/shift", shift * factor + found.shift),
        )
        fused = replace(producer, inputs=(producer.inputs[0], *constants), output=node.output)
        return Fusion(node=fused, absorbed=producer.output)
    return _fold_into_weights(bench, node, found)


def _read_map(bench: Workbench, node: Node) -> _ChannelMap | None:
    """Return what ``node`` does if that is a channel map which its input's sole producer can take over."""
    is_binary = isinstance(node.op, Binary)
    if not (is_binary or isinstance(node.op, Affine)) or node.epilogue != NO_EPILOGUE:
        return None
    x, *rest = node.inputs
    if is_binary and x in bench.constants:
        x, rest = rest[0], [x]
    producer = bench.sole_producer(x)
    if producer is None or not _has_open_constants(bench, producer) or rest[0] not in bench.constants:
        return None
    shape = bench.graph.shape(x)
    axis = len(shape) - 1 if isinstance(producer.op, MatMul) else 1
    if isinstance(node.op, Affine):
        if axis != 1:
            return None
        scale, shift = (bench.constants[name].astype(np.float64) for name in rest)
        return _ChannelMap(producer=producer, scale=scale, shift=shift)
    operand = bench.constants[rest[0]]
    padded = (1,) * (len(shape) - operand.ndim) + operand.shape
    grows = bench.graph.shape(node.output) != shape
    if grows or any(length != 1 for i, length in enumerate(padded) if i != axis):
        return None
    value = np.broadcast_to(operand.reshape(-1).astype(np.float64), (shape[axis],))
    if node.op == Binary(kind=BinaryKind.MUL):
        return _ChannelMap(producer=producer, scale=value, shift=np.zeros(shape[axis]))
    return _ChannelMap(producer=producer, scale=None, shift=value)


def _has_open_constants(bench: Workbench, node: Node) -> bool:
    """Return whether constants alone decide the scale and shift of a node's channels."""
    if not isinstance(node.op, Conv2d | MatMul | Affine) or node.epilogue != NO_EPILOGUE:
        return False
    return node.inputs[1] in bench.constants


def _fold_into_weights(bench: Workbench, node: Node, found: _ChannelMap) -> Fusion:
    """Return the producer with scaled weight and shifted bias, writing the output of ``node``."""
    producer, factor, axis = found.producer, found.scale, 0
    assert isinstance(producer.op, Conv2d | MatMul)
    weight_name = producer.inputs[1]
    weight = bench.constants[weight_name]
    if isinstance(producer.op, MatMul):
        axis = weight.ndim - 1
    channels = weight.shape[axis]
    bias = (
        bench.constants[producer.inputs[2]].astype(np.float64) if producer.op.has_bias else np.zeros(channels)
    )
    if factor is not None:
        along = [channels if i == axis else 1 for i in range(weight.ndim)]
        weight_name = bench.add_constant(f"{weight_name}/folded", weight * factor.reshape(along))
        bias = bias * factor
    bias_name = bench.add_constant(f"{node.output}/bias", bias + found.shift)
    fused = replace(
        producer,
        op=replace(producer.op, has_bias=True),
        inputs=(producer.inputs[0], weight_name, bias_name),
        output=node.output,
    )
    return Fusion(node=fused, absorbed=producer.output)

"""Folds arithmetic with constants into the weights and bias of the node before it."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from codl.frontend.workbench import Fusion, Workbench
from codl.ir.graph import NO_EPILOGUE, Node
from codl.ir.ops import Affine, Binary, BinaryKind, Conv2d, MatMul

Doubles = npt.NDArray[np.float64]


def fold_affine(bench: Workbench, node: Node) -> Fusion | None:
    """Scale the output channels of the convolution or product before an `Affine`, and shift its bias."""
    if not isinstance(node.op, Affine) or node.epilogue != NO_EPILOGUE:
        return None
    producer = _find_linear(bench, node.inputs[0])
    if producer is None:
        return None
    weight_name = producer.inputs[1]
    weight = bench.constants[weight_name]
    is_conv = isinstance(producer.op, Conv2d)
    if not is_conv and (weight.ndim != 2 or len(bench.graph.shape(node.output)) != 2):
        return None
    scale, shift = (bench.constants[name].astype(np.float64) for name in node.inputs[1:])
    factor = scale.reshape(-1, 1, 1, 1) if is_conv else scale
    scaled = bench.add_constant(f"{weight_name}/folded", weight * factor)
    return _with_constants(bench, node, producer, weight=scaled, bias=_bias(bench, producer) * scale + shift)


def fold_bias(bench: Workbench, node: Node) -> Fusion | None:
    """Add a constant that is equal over all but the channel axis to the bias of the node before it."""
    if node.op != Binary(kind=BinaryKind.ADD) or node.epilogue != NO_EPILOGUE:
        return None
    for name, other in (node.inputs, node.inputs[::-1]):
        if other not in bench.constants or name in bench.constants:
            continue
        producer = _find_linear(bench, name)
        shape = bench.graph.shape(name)
        if producer is None or shape != bench.graph.shape(node.output):
            continue
        axis = 1 if isinstance(producer.op, Conv2d) else len(shape) - 1
        addend = bench.constants[other]
        padded = (1,) * (len(shape) - addend.ndim) + addend.shape
        if any(length != 1 for i, length in enumerate(padded) if i != axis):
            continue
        bias = _bias(bench, producer) + addend.reshape(-1)
        return _with_constants(bench, node, producer, weight=producer.inputs[1], bias=bias)
    return None


def _find_linear(bench: Workbench, name: str) -> Node | None:
    """Return the sole producer if it is a convolution or product with a constant, nothing fused yet."""
    producer = bench.sole_producer(name)
    if producer is None or not isinstance(producer.op, Conv2d | MatMul):
        return None
    is_plain = producer.epilogue == NO_EPILOGUE
    return producer if is_plain and producer.inputs[1] in bench.constants else None


def _bias(bench: Workbench, node: Node) -> Doubles:
    """Return the bias of a convolution or product, zeros where it has none."""
    if isinstance(node.op, Conv2d | MatMul) and node.op.has_bias:
        return bench.constants[node.inputs[2]].astype(np.float64)
    weight = bench.constants[node.inputs[1]]
    return np.zeros(weight.shape[0 if isinstance(node.op, Conv2d) else -1])


def _with_constants(bench: Workbench, node: Node, producer: Node, *, weight: str, bias: Doubles) -> Fusion:
    """Return ``producer`` with new constants, writing the output of ``node``."""
    assert isinstance(producer.op, Conv2d | MatMul)
    bias_name = bench.add_constant(f"{node.output}/bias", bias)
    fused = replace(
        producer,
        op=replace(producer.op, has_bias=True),
        inputs=(producer.inputs[0], weight, bias_name),
        output=node.output,
    )
    return Fusion(node=fused, absorbed=producer.output)

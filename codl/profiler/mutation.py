"""Mutations of a layer: the same operator at other sizes, so that shapes between real ones are measured."""

from dataclasses import replace

import numpy as np

from codl.catalog.layers import Layer, read_node
from codl.frontend.tiling import mark_tiles
from codl.ir.graph import Shape
from codl.ir.ops import (
    Affine,
    Binary,
    ChannelShuffle,
    Concat,
    Conv2d,
    LocalResponseNorm,
    MatMul,
    Normalize,
    Pool2d,
    Unary,
)

Generator = np.random.Generator
_POINTWISE = (Unary, Binary, Affine, Normalize, Concat, ChannelShuffle, LocalResponseNorm)
_OCTAVES = 1.0
"""Sizes change by up to this many doublings, either way."""


def mutate(layer: Layer, rng: Generator) -> Layer | None:
    """Return a layer of the same operator with other sizes; None for operators that cannot be mutated."""
    if layer.before:
        return None
    match layer.op:
        case Conv2d():
            return _mutate_conv(layer, layer.op, rng)
        case Pool2d():
            return _mutate_pool(layer, layer.op, rng)
        case MatMul():
            return _mutate_matmul(layer, rng)
    if isinstance(layer.op, _POINTWISE) and len(layer.output) == 4:
        return _mutate_image(layer, rng)
    return None


def _scale(size: int, rng: Generator) -> int:
    """Return a size near another one, in most cases a multiple of 8 or 16."""
    wanted = size * 2.0 ** rng.uniform(-_OCTAVES, _OCTAVES)
    step = int(rng.choice([1, 8, 16])) if size >= 16 else 1
    return int(max(1, round(wanted / step) * step))


def _mutate_conv(layer: Layer, op: Conv2d, rng: Generator) -> Layer | None:
    (images, inputs, *_), (outputs, group_inputs, *kernel) = layer.inputs[0], layer.inputs[1]
    size = _scale_window(layer, op, rng)
    if size is None:
        return None
    side, out_side = size
    if op.groups == 1:
        inputs = inputs if inputs <= 4 else _scale(inputs, rng)
        outputs, group_inputs = _scale(outputs, rng), inputs
    elif op.groups == inputs and outputs % inputs == 0:
        multiple, inputs = outputs // inputs, _scale(inputs, rng)
        outputs, op = inputs * multiple, replace(op, groups=inputs)
    shapes: list[Shape] = [(images, inputs, *side), (outputs, group_inputs, *kernel)]
    output = (images, outputs, *out_side)
    shapes += [(outputs,)] if op.has_bias else []
    shapes += [output] if len(layer.inputs) > len(shapes) else []
    relative = replace(layer, op=replace(op, tile=(1, 1)), inputs=tuple(shapes), output=output, uses={})
    graph = mark_tiles(relative.make_graph())
    return read_node(graph.nodes[0], graph)


def _mutate_pool(layer: Layer, op: Pool2d, rng: Generator) -> Layer | None:
    size = _scale_window(layer, op, rng)
    if size is None:
        return None
    side, out_side = size
    images, channels, *_ = layer.inputs[0]
    channels = _scale(channels, rng)
    return replace(layer, inputs=((images, channels, *side),), output=(images, channels, *out_side), uses={})


def _scale_window(
    layer: Layer, op: Conv2d | Pool2d, rng: Generator
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return other heights and widths of input and output; None where the windows do not fit."""
    sides, outs = [], []
    factor = 2.0 ** rng.uniform(-_OCTAVES, _OCTAVES)
    for axis in range(2):
        side, out = layer.inputs[0][2 + axis], layer.output[2 + axis]
        extent = op.dilation[axis] * (op.kernel[axis] - 1) + 1
        padding = (out - 1) * op.stride[axis] + extent - side
        steps = max(0, round(out * factor) - 1)
        sides.append(steps * op.stride[axis] + extent - padding)
        outs.append(steps + 1)
    if min(sides) < 1:
        return None
    return (sides[0], sides[1]), (outs[0], outs[1])


def _mutate_matmul(layer: Layer, rng: Generator) -> Layer | None:
    left, right, *rest = layer.inputs
    if len(right) != 2 or len(rest) > 1 or (rest and rest[0] != (right[1],)):
        return None
    depth, columns = _scale(right[0], rng), _scale(right[1], rng)
    rows = left[-2] if left[-2] == 1 else _scale(left[-2], rng)
    batch = left[:-2]
    return replace(
        layer,
        inputs=((*batch, rows, depth), (depth, columns), *(((columns,),) if rest else ())),
        output=(*batch, rows, columns),
        uses={},
    )


def _mutate_image(layer: Layer, rng: Generator) -> Layer:
    """Return the layer on images of another height and width; channels stay, as many operands share them."""
    image = layer.output[2:]
    scaled = tuple(_scale(side, rng) for side in image)

    def change(shape: Shape) -> Shape:
        return (*shape[:2], *scaled) if shape[2:] == image else shape

    return replace(layer, inputs=tuple(map(change, layer.inputs)), output=change(layer.output), uses={})

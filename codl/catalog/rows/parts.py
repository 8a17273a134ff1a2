"""Operators that move boxes of values as they are: which box of the input goes where, part by part."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, product

import numpy as np

from codl.catalog.spec import KernelDims, TensorArg, ceil_div, kernel_dims, plain_arg
from codl.ir.graph import Graph, Node
from codl.ir.ops import ChannelShuffle, Concat, DepthToSpace, Slice, SpaceToDepth, Transpose
from codl.ir.regions import Boxes

Moving = Concat | SpaceToDepth | DepthToSpace | ChannelShuffle | Slice | Transpose
"""Operators that are copies of boxes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A copy of boxes: both operands are walked by the same coordinates."""

    dst: TensorArg
    src: TensorArg
    boxes: Boxes
    """In the operands' coordinates; some may be empty."""
    dims: KernelDims
    """Which axis of the boxes each kernel dimension walks along."""
    is_turned: bool = False
    """Whether w, not c, walks along what is innermost in the source's memory."""


def iterate_parts(op: Moving, node: Node, graph: Graph, out: Boxes) -> Iterator[Part]:
    """Yield the copies that write the output boxes ``out``, each element once."""
    match op:
        case Concat():
            yield from _concat(op, node, graph, out)
        case SpaceToDepth():
            yield from _space_to_depth(op, node, graph, out)
        case DepthToSpace():
            yield from _depth_to_space(op, node, graph, out)
        case ChannelShuffle():
            yield from _shuffle(op, node, graph, out)
        case Slice():
            yield _slice(op, node, graph, out)
        case Transpose():
            yield _transpose(op, node, out)


def _concat(op: Concat, node: Node, graph: Graph, out: Boxes) -> Iterator[Part]:
    """One part for each input, in its coordinates."""
    shapes = [graph.shape(name) for name in node.inputs]
    starts = accumulate((shape[op.axis] for shape in shapes), initial=0)
    for name, shape, start in zip(node.inputs, shapes, starts, strict=False):
        yield Part(
            dst=_shifted(node.output, len(shape), op.axis, start),
            src=plain_arg(name, shape),
            boxes=_within(out, op.axis, start, shape[op.axis]),
            dims=kernel_dims(len(shape)),
        )


def _space_to_depth(op: SpaceToDepth, node: Node, graph: Graph, out: Boxes) -> Iterator[Part]:
    """One part for each offset in the block, which fills a range of channels or every so many."""
    (name,) = node.inputs
    channels, offsets = graph.shape(name)[1], op.block**2
    for index, (row, column) in enumerate(product(range(op.block), repeat=2)):
        if op.is_column_major:
            dst = TensorArg(name=node.output, dims=_channel_step_dims(offsets), origin=(0, index, 0, 0))
            boxes = _every(out, 1, index, offsets)
        else:
            dst = _shifted(node.output, 4, 1, index * channels)
            boxes = _within(out, 1, index * channels, channels)
        src = TensorArg(name=name, dims=_pixel_dims(op.block), origin=(0, 0, row, column))
        yield Part(dst=dst, src=src, boxes=boxes, dims=kernel_dims(4))


def _depth_to_space(op: DepthToSpace, node: Node, graph: Graph, out: Boxes) -> Iterator[Part]:
    """One part for each offset in the block, in coordinates of input pixels and output channels."""
    (name,) = node.inputs
    channels = graph.shape(node.output)[1]
    dims = _channel_step_dims(op.block**2 if op.is_column_major else 1)
    for index, (row, column) in enumerate(product(range(op.block), repeat=2)):
        first = index if op.is_column_major else index * channels
        yield Part(
            dst=TensorArg(name=node.output, dims=_pixel_dims(op.block), origin=(0, 0, row, column)),
            src=TensorArg(name=name, dims=dims, origin=(0, first, 0, 0)),
            boxes=_every(_every(out, 2, row, op.block), 3, column, op.block),
            dims=kernel_dims(4),
        )


def _shuffle(op: ChannelShuffle, node: Node, graph: Graph, out: Boxes) -> Iterator[Part]:
    """One part for each group, in coordinates of the place in it."""
    (name,) = node.inputs
    size = graph.shape(name)[1] // op.groups
    dims = _channel_step_dims(op.groups)
    for group in range(op.groups):
        yield Part(
            dst=TensorArg(name=node.output, dims=dims, origin=(0, group, 0, 0)),
            src=_shifted(name, 4, 1, group * size),
            boxes=_every(out, 1, group, op.groups),
            dims=kernel_dims(4),
        )


def _slice(op: Slice, node: Node, graph: Graph, out: Boxes) -> Part:
    (name,) = node.inputs
    shape = graph.shape(node.output)
    dims = kernel_dims(len(shape))
    n, h, w, c = (None if entry is None else (entry[0], op.step[entry[0]]) for entry in dims)
    src = TensorArg(name=name, dims=(n, h, w, c), origin=op.begin)
    return Part(dst=plain_arg(node.output, shape), src=src, boxes=out, dims=dims)


def _transpose(op: Transpose, node: Node, out: Boxes) -> Part:
    """Both innermost axes next to each other: blocks of them use whole cache lines on either side."""
    rank, (name,) = len(op.order), node.inputs
    axes = [entry[0] for entry in kernel_dims(rank) if entry is not None]
    first = op.order.index(axes[-1]) if axes else 0
    is_turned = rank > 1 and first != axes[-1]
    if is_turned:
        axes.remove(first)
        axes.insert(-1, first)
    n, h, w, c = [None] * (4 - rank) + [(axis, 1) for axis in axes]
    dims: KernelDims = (n, h, w, c)
    n, h, w, c = (None if entry is None else (op.order[entry[0]], 1) for entry in dims)
    origin = (0,) * rank
    return Part(
        dst=TensorArg(name=node.output, dims=dims, origin=origin),
        src=TensorArg(name=name, dims=(n, h, w, c), origin=origin),
        boxes=out,
        dims=dims,
        is_turned=is_turned,
    )


def _pixel_dims(block: int) -> KernelDims:
    """Return the dimensions of an image of which each ``block``-th row and column is walked."""
    return (0, 1), (2, block), (3, block), (1, 1)


def _channel_step_dims(step: int) -> KernelDims:
    """Return the dimensions of an image of which each ``step``-th channel is walked."""
    return (0, 1), (2, 1), (3, 1), (1, step)


def _shifted(name: str, rank: int, axis: int, start: int) -> TensorArg:
    """Return the operand whose coordinates along ``axis`` count from ``start``."""
    origin = tuple(start if index == axis else 0 for index in range(rank))
    return TensorArg(name=name, dims=kernel_dims(rank), origin=origin)


def _within(out: Boxes, axis: int, start: int, length: int) -> Boxes:
    """Return what of ``out`` lies in [start, start + length) of ``axis``, counted from ``start``."""
    low, high = (np.clip(edge[:, axis] - start, 0, length) for edge in (out.begin, out.end))
    return out.with_axis(axis, low, high)


def _every(out: Boxes, axis: int, first: int, step: int) -> Boxes:
    """Return those coordinates k of ``axis`` for which first + k * step lies in ``out``."""
    low, high = (ceil_div(edge[:, axis] - first, step) for edge in (out.begin, out.end))
    return out.with_axis(axis, low, high)

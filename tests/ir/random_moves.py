"""Hypothesis strategies: graphs of one operator that moves or resamples, and what it reads."""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product

from hypothesis import strategies as st

from codl.ir.graph import Graph, Shape
from codl.ir.ops import (
    ChannelShuffle,
    Coordinates,
    DepthToSpace,
    Embedding,
    Pad,
    PadMode,
    Resize2d,
    ResizeMode,
    Rounding,
    Slice,
    Transpose,
)
from tests.ir.random_nodes import Index, Readers, Reads, one_node, shapes


@st.composite
def depth_to_spaces(draw: st.DrawFn) -> Graph:
    """Return a move of channels into blocks of pixels, in either order."""
    block, batch, channels = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    height, width = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    source = (batch, channels * block * block, height, width)
    op = DepthToSpace(block=block, is_column_major=draw(st.booleans()))
    return one_node(op, [source], (batch, channels, height * block, width * block))


@st.composite
def embeddings(draw: st.DrawFn) -> Graph:
    """Return rows of a table, picked by ids of one or two axes."""
    ids, table = draw(shapes(least=1, most=2)), draw(shapes(least=2, most=2))
    return one_node(Embedding(), [ids, table], (*ids, table[1]))


@st.composite
def channel_shuffles(draw: st.DrawFn) -> Graph:
    """Return a shuffle of channels."""
    groups, size = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    shape = (draw(st.integers(1, 2)), groups * size, draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    return one_node(ChannelShuffle(groups=groups), [shape], shape)


@st.composite
def transposes(draw: st.DrawFn) -> Graph:
    """Return a transpose of up to four axes."""
    shape = draw(shapes())
    order = tuple(draw(st.permutations(range(len(shape)))))
    return one_node(Transpose(order=order), [shape], tuple(shape[axis] for axis in order))


@st.composite
def slices(draw: st.DrawFn) -> Graph:
    """Return a slice with steps of either sign."""
    shape = draw(shapes(least=1))
    begin, step, lengths = [], [], []
    for length in shape:
        first, last = draw(st.integers(0, length - 1)), draw(st.integers(0, length - 1))
        stride = draw(st.integers(1, 3))
        begin.append(first)
        step.append(stride if last >= first else -stride)
        lengths.append(abs(last - first) // stride + 1)
    return one_node(Slice(begin=tuple(begin), step=tuple(step)), [shape], tuple(lengths))


@st.composite
def paddings(draw: st.DrawFn) -> Graph:
    """Return a padding or cropping of any axes."""
    shape, mode = draw(shapes(least=1)), draw(st.sampled_from(PadMode))
    before, lengths = [], []
    for length in shape:
        most = length - 1 if mode is PadMode.REFLECT else 3
        front = draw(st.integers(1 - length, most))
        back = draw(st.integers(1 - length - min(front, 0), most))
        if length + front + back < 1:
            back = 1 - length - front
        before.append(front)
        lengths.append(length + front + back)
    return one_node(Pad(before=tuple(before), mode=mode), [shape], tuple(lengths))


@st.composite
def resizings(draw: st.DrawFn) -> Graph:
    """Return a resizing by scales that float32 holds exactly, so that exact arithmetic agrees with it."""
    batch, channels = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    sides, scale = [], []
    for _ in range(2):
        length = draw(st.integers(1, 8))
        factor = draw(st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0]))
        sides.append((length, max(1, math.floor(length * factor))))
        scale.append(factor)
    op = Resize2d(
        mode=draw(st.sampled_from(ResizeMode)),
        scale=(scale[0], scale[1]),
        coordinates=draw(st.sampled_from(Coordinates)),
        rounding=draw(st.sampled_from(Rounding)),
    )
    (height, out_height), (width, out_width) = sides
    return one_node(op, [(batch, channels, height, width)], (batch, channels, out_height, out_width))


def _transpose(op: Transpose, shapes: Sequence[Shape], _: Shape, index: Index) -> Reads:
    element = [0] * len(shapes[0])
    for i, source in zip(index, op.order, strict=True):
        element[source] = i
    yield 0, tuple(element)


def _channel_shuffle(op: ChannelShuffle, shapes: Sequence[Shape], _: Shape, index: Index) -> Reads:
    n, c, *pixel = index
    place, group = divmod(c, op.groups)
    yield 0, (n, group * (shapes[0][1] // op.groups) + place, *pixel)


def _depth_to_space(op: DepthToSpace, _: Sequence[Shape], shape: Shape, index: Index) -> Reads:
    n, c, row, column = index
    offset = row % op.block * op.block + column % op.block
    channel = c * op.block**2 + offset if op.is_column_major else offset * shape[1] + c
    yield 0, (n, channel, row // op.block, column // op.block)


def _slice(op: Slice, _: Sequence[Shape], __: Shape, index: Index) -> Reads:
    yield 0, tuple(b + i * s for b, i, s in zip(op.begin, index, op.step, strict=True))


def _pad(op: Pad, shapes: Sequence[Shape], _: Shape, index: Index) -> Reads:
    element = []
    for i, before, length in zip(index, op.before, shapes[0], strict=True):
        place = i - before
        if op.mode is PadMode.CONSTANT and not 0 <= place < length:
            return
        if op.mode is PadMode.EDGE:
            place = min(max(place, 0), length - 1)
        if place < 0:
            place = -place
        element.append(2 * (length - 1) - place if place >= length else place)
    yield 0, tuple(element)


def _resize2d(op: Resize2d, shapes: Sequence[Shape], shape: Shape, index: Index) -> Reads:
    n, c, *pixel = index
    sides = [_neighbours(op, axis, shapes[0][2 + axis], shape[2 + axis], pixel[axis]) for axis in (0, 1)]
    yield from ((0, (n, c, h, w)) for h, w in product(*sides))


def _neighbours(op: Resize2d, axis: int, length: int, out_length: int, place: int) -> set[int]:
    """Return the positions that an output position is made of, in exact arithmetic."""
    x, half, scale = Fraction(place), Fraction(1, 2), Fraction(op.scale[axis])
    if scale != 1:
        match op.coordinates:
            case Coordinates.ASYMMETRIC:
                x = x / scale
            case Coordinates.HALF_PIXEL:
                x = (x + half) / scale - half
            case Coordinates.PYTORCH_HALF_PIXEL:
                x = (x + half) / scale - half if out_length > 1 else Fraction(0)
            case Coordinates.ALIGN_CORNERS:
                x = x * (length - 1) / (out_length - 1) if out_length > 1 else Fraction(0)
    if op.mode is ResizeMode.LINEAR:
        found = {math.floor(x), math.ceil(x)}
    else:
        found = {
            Rounding.FLOOR: {math.floor(x)},
            Rounding.CEIL: {math.ceil(x)},
            Rounding.PREFER_FLOOR: {math.ceil(x - half)},
            Rounding.PREFER_CEIL: {math.floor(x + half)},
        }[op.rounding]
    return {min(max(i, 0), length - 1) for i in found}


def _embedding(_: Embedding, shapes: Sequence[Shape], __: Shape, index: Index) -> Reads:
    yield 0, index[:-1]
    yield from ((1, (row, index[-1])) for row in range(shapes[1][0]))


READS: Readers = {
    Embedding: _embedding,
    DepthToSpace: _depth_to_space,
    Slice: _slice,
    Pad: _pad,
    Resize2d: _resize2d,
    Transpose: _transpose,
    ChannelShuffle: _channel_shuffle,
}

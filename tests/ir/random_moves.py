"""Hypothesis strategies: a graph of one random operator that moves, picks, repeats or resamples elements."""

import math

from hypothesis import strategies as st

from codl.ir.graph import Graph
from codl.ir.ops import (
    ChannelShuffle,
    Coordinates,
    DepthToSpace,
    Pad,
    PadMode,
    Resize2d,
    ResizeMode,
    Rounding,
    Slice,
    Transpose,
)
from tests.ir.random_nodes import one_node, shapes


@st.composite
def depth_to_spaces(draw: st.DrawFn) -> Graph:
    """Return a move of channels into blocks of pixels, in either order."""
    block, batch, channels = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    height, width = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    source = (batch, channels * block * block, height, width)
    op = DepthToSpace(block=block, is_column_major=draw(st.booleans()))
    return one_node(op, [source], (batch, channels, height * block, width * block))


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

"""Hypothesis strategies: a graph of one random operator, of every kind that has a region rule."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from codl.ir.graph import Graph, Node, Shape, Tensor
from codl.ir.ops import (
    Affine,
    Binary,
    BinaryKind,
    CombineRows,
    Concat,
    Conv2d,
    Epilogue,
    MatMul,
    Op,
    Pool2d,
    PoolKind,
    Reshape,
    ResidualOrder,
    RowMoments,
    RowSum,
    Softmax,
    SpaceToDepth,
    Unary,
)
from codl.ir.regions import Region

lengths = st.integers(1, 5)

Index = tuple[int, ...]
Reads = Iterator[tuple[int, Index]]
"""(position of the input, element of it)"""
Readers = dict[type, Callable[[Any, Sequence[Shape], Shape, Index], Reads]]
"""Operator -> which input elements an output element reads, by its definition."""


def one_node(op: Op, inputs: Sequence[Shape], output: Shape, *, has_residual: bool = False) -> Graph:
    """Return a graph of one node; every input is a tensor of its own."""
    shapes = [*inputs, output] if has_residual else list(inputs)
    names = [f"x{i}" for i in range(len(shapes))]
    epilogue = Epilogue(residual=ResidualOrder.BEFORE if has_residual else ResidualOrder.NONE)
    tensors = dict(zip([*names, "y"], [*shapes, output], strict=True))
    return Graph(
        name="one",
        nodes=(Node(name="node", op=op, inputs=tuple(names), output="y", epilogue=epilogue),),
        inputs=tuple(names),
        outputs=("y",),
        tensors={name: Tensor(name=name, shape=shape) for name, shape in tensors.items()},
        constants={},
    )


@st.composite
def regions(draw: st.DrawFn, shape: Shape, *, least: int = 1) -> Region:
    """Return a box inside a tensor, with at least so many elements along each axis."""
    begin, end = [], []
    for length in shape:
        low = draw(st.integers(0, length - least))
        begin.append(low)
        end.append(draw(st.integers(low + least, length)))
    return Region(tuple(begin), tuple(end))


@st.composite
def windows(draw: st.DrawFn, *, rounds_up: bool) -> tuple[int, int, int, int, int, int, int]:
    """Return kernel, stride, dilation, leading and trailing pad, input and output length of one axis."""
    kernel, stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    before, after = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    length = draw(st.integers(1, 8))
    room = before + length + after - (kernel - 1) * dilation - 1
    assume(room >= 0)
    steps = -(-room // stride) if rounds_up else room // stride
    if rounds_up and steps * stride >= before + length:
        steps -= 1
    return kernel, stride, dilation, before, after, length, steps + 1


@st.composite
def convolutions(draw: st.DrawFn) -> Graph:
    """Return a convolution in groups, with or without bias and residual."""
    rows, columns = draw(windows(rounds_up=False)), draw(windows(rounds_up=False))
    groups = draw(st.integers(1, 3))
    group_inputs, group_outputs = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    batch, has_bias = draw(st.integers(1, 2)), draw(st.booleans())
    op = Conv2d(
        kernel=(rows[0], columns[0]),
        stride=(rows[1], columns[1]),
        dilation=(rows[2], columns[2]),
        pads=(rows[3], columns[3], rows[4], columns[4]),
        groups=groups,
        has_bias=has_bias,
        tile=(draw(st.integers(1, 3)), draw(st.integers(1, 3))),
    )
    out_channels = groups * group_outputs
    inputs: list[Shape] = [
        (batch, groups * group_inputs, rows[5], columns[5]),
        (out_channels, group_inputs, rows[0], columns[0]),
    ]
    if has_bias:
        inputs.append((out_channels,))
    output = (batch, out_channels, rows[6], columns[6])
    return one_node(op, inputs, output, has_residual=draw(st.booleans()))


@st.composite
def poolings(draw: st.DrawFn) -> Graph:
    """Return a pooling that rounds its output down or up."""
    rounds_up = draw(st.booleans())
    rows, columns = draw(windows(rounds_up=rounds_up)), draw(windows(rounds_up=rounds_up))
    batch, channels = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    op = Pool2d(
        kind=draw(st.sampled_from(PoolKind)),
        kernel=(rows[0], columns[0]),
        stride=(rows[1], columns[1]),
        dilation=(rows[2], columns[2]),
        pads=(rows[3], columns[3], rows[4], columns[4]),
    )
    return one_node(op, [(batch, channels, rows[5], columns[5])], (batch, channels, rows[6], columns[6]))


@st.composite
def broadcast_shapes(draw: st.DrawFn, *, most_axes: int) -> tuple[Shape, Shape]:
    """Return two shapes of any ranks that ONNX broadcasts against each other."""
    whole = draw(st.lists(st.integers(1, 3), max_size=most_axes))
    pair = []
    for _ in range(2):
        rank = draw(st.integers(0, len(whole)))
        tail = whole[len(whole) - rank :]
        pair.append(tuple(draw(st.sampled_from([1, length])) for length in tail))
    return pair[0], pair[1]


@st.composite
def products(draw: st.DrawFn) -> Graph:
    """Return a matrix product of 2 to 4 axes whose leading axes broadcast."""
    leading_a, leading_b = draw(broadcast_shapes(most_axes=2))
    m, k, n, has_bias = draw(lengths), draw(lengths), draw(lengths), draw(st.booleans())
    inputs: list[Shape] = [(*leading_a, m, k), (*leading_b, k, n)]
    if has_bias:
        inputs.append((n,))
    output = (*np.broadcast_shapes(leading_a, leading_b), m, n)
    return one_node(MatMul(has_bias=has_bias), inputs, output, has_residual=draw(st.booleans()))


@st.composite
def binaries(draw: st.DrawFn) -> Graph:
    """Return a pointwise function of two tensors that broadcast."""
    a, b = draw(broadcast_shapes(most_axes=4))
    return one_node(Binary(kind=draw(st.sampled_from(BinaryKind))), [a, b], np.broadcast_shapes(a, b))


@st.composite
def shapes(draw: st.DrawFn, *, least: int = 0, most: int = 4) -> Shape:
    """Return a shape of so many axes."""
    return tuple(draw(st.lists(st.integers(1, 4), min_size=least, max_size=most)))


@st.composite
def pointwise(draw: st.DrawFn) -> Graph:
    """Return a function of one tensor, or an affine one by channel."""
    if draw(st.booleans()):
        shape = draw(shapes())
        return one_node(Unary(), [shape], shape)
    shape = draw(shapes(least=2))
    return one_node(Affine(), [shape, shape[1:2], shape[1:2]], shape)


@st.composite
def moments(draw: st.DrawFn) -> Graph:
    """Return one half of a global average pooling."""
    batch, channels, height, width = draw(shapes(least=4))
    if draw(st.booleans()):
        return one_node(RowSum(), [(batch, channels, height, width)], (batch, channels, height, 1))
    return one_node(CombineRows(scale=1.0), [(batch, channels, height, 1)], (batch, channels, 1, 1))


@st.composite
def concats(draw: st.DrawFn) -> Graph:
    """Return a concatenation of one to four tensors along any axis."""
    shape = list(draw(shapes(least=1)))
    axis = draw(st.integers(0, len(shape) - 1))
    parts = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    inputs = [(*shape[:axis], part, *shape[axis + 1 :]) for part in parts]
    output = (*shape[:axis], sum(parts), *shape[axis + 1 :])
    return one_node(Concat(axis=axis), inputs, output)


@st.composite
def reshapes(draw: st.DrawFn) -> Graph:
    """Return a reshape that merges, splits or moves any axes."""
    source = draw(shapes(most=4))
    kept = draw(st.integers(0, len(source)))
    rest = math.prod(source[kept:])
    tail: list[int] = []
    while len(tail) < 3 and (draw(st.booleans()) or not tail):
        tail.append(draw(st.sampled_from([d for d in range(1, rest + 1) if rest % d == 0])))
        rest //= tail[-1]
    return one_node(Reshape(), [source], (*source[:kept], *tail, *([rest] if rest > 1 else [])))


@st.composite
def softmaxes(draw: st.DrawFn) -> Graph:
    """Return a softmax along any axis."""
    shape = draw(shapes(least=1))
    return one_node(Softmax(axis=draw(st.integers(0, len(shape) - 1))), [shape], shape)


@st.composite
def space_to_depths(draw: st.DrawFn) -> Graph:
    """Return a move of blocks of pixels into channels, in either order."""
    block, batch, channels = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    height, width = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    source = (batch, channels, height * block, width * block)
    op = SpaceToDepth(block=block, is_column_major=draw(st.booleans()))
    return one_node(op, [source], (batch, channels * block * block, height, width))


def _window(op: Conv2d | Pool2d, x: Shape, row: int, column: int) -> Iterator[tuple[int, int]]:
    for i, j in product(range(op.kernel[0]), range(op.kernel[1])):
        h = row * op.stride[0] + i * op.dilation[0] - op.pads[0]
        w = column * op.stride[1] + j * op.dilation[1] - op.pads[1]
        if 0 <= h < x[2] and 0 <= w < x[3]:
            yield h, w


def _conv2d(op: Conv2d, shapes: Sequence[Shape], shape: Shape, index: Index) -> Reads:
    (n, oc, row, column), (x, weight) = index, shapes[:2]
    group = oc // (shape[1] // op.groups)
    cell = [
        range(place // side * side, place // side * side + side)
        for place, side in zip((row, column), op.tile, strict=True)
    ]
    pixels = {pixel for corner in product(*cell) for pixel in _window(op, x, *corner)}
    for c in range(weight[1]):
        yield from ((0, (n, group * weight[1] + c, h, w)) for h, w in pixels)
        yield from ((1, (oc, c, i, j)) for i in range(weight[2]) for j in range(weight[3]))
    if op.has_bias:
        yield 2, (oc,)


def _pool2d(op: Pool2d, shapes: Sequence[Shape], _: Shape, index: Index) -> Reads:
    n, c, row, column = index
    yield from ((0, (n, c, h, w)) for h, w in _window(op, shapes[0], row, column))


def _matmul(op: MatMul, shapes: Sequence[Shape], _: Shape, index: Index) -> Reads:
    *batch, row, column = index
    a, b = shapes[:2]
    for k in range(a[-1]):
        yield 0, (*_broadcast(a[:-2], batch), row, k)
        yield 1, (*_broadcast(b[:-2], batch), k, column)
    if op.has_bias:
        yield 2, (column,)


def _broadcast(shape: Shape, index: Sequence[int]) -> Index:
    tail = list(index)[len(index) - len(shape) :]
    return tuple(0 if length == 1 else i for length, i in zip(shape, tail, strict=True))


def _pointwise(_: Any, shapes: Sequence[Shape], __: Shape, index: Index) -> Reads:
    yield from ((position, _broadcast(shape, index)) for position, shape in enumerate(shapes))


def read_row(_: RowSum | RowMoments, shapes: Sequence[Shape], __: Shape, index: Index) -> Reads:
    yield from ((0, (*index[:3], w)) for w in range(shapes[0][3]))


def _combine_rows(_: CombineRows, shapes: Sequence[Shape], __: Shape, index: Index) -> Reads:
    yield from ((0, (*index[:2], h, 0)) for h in range(shapes[0][2]))


def _affine(_: Affine, __: Sequence[Shape], ___: Shape, index: Index) -> Reads:
    yield from ((0, index), (1, index[1:2]), (2, index[1:2]))


def _concat(op: Concat, shapes: Sequence[Shape], _: Shape, index: Index) -> Reads:
    place = index[op.axis]
    for position, shape in enumerate(shapes):
        if 0 <= place < shape[op.axis]:
            yield position, (*index[: op.axis], place, *index[op.axis + 1 :])
        place -= shape[op.axis]


def _reshape(_: Reshape, shapes: Sequence[Shape], shape: Shape, index: Index) -> Reads:
    flat = 0
    for length, i in zip(shape, index, strict=True):
        flat = flat * length + i
    element: list[int] = []
    for length in reversed(shapes[0]):
        flat, i = divmod(flat, length)
        element.insert(0, i)
    yield 0, tuple(element)


def _softmax(op: Softmax, shapes: Sequence[Shape], _: Shape, index: Index) -> Reads:
    for i in range(shapes[0][op.axis]):
        yield 0, (*index[: op.axis], i, *index[op.axis + 1 :])


def _space_to_depth(op: SpaceToDepth, shapes: Sequence[Shape], _: Shape, index: Index) -> Reads:
    n, out_channel, row, column = index
    offset, channel = divmod(out_channel, shapes[0][1])
    if op.is_column_major:
        channel, offset = divmod(out_channel, op.block**2)
    down, right = divmod(offset, op.block)
    yield 0, (n, channel, row * op.block + down, column * op.block + right)


READS: Readers = {
    Conv2d: _conv2d,
    Pool2d: _pool2d,
    MatMul: _matmul,
    Unary: _pointwise,
    Binary: _pointwise,
    RowSum: read_row,
    CombineRows: _combine_rows,
    Affine: _affine,
    Concat: _concat,
    Reshape: _reshape,
    Softmax: _softmax,
    SpaceToDepth: _space_to_depth,
}

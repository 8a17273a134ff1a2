"""Hypothesis strategies: graphs of one normalization, mean or transposed convolution, and what they read."""

import math
from collections.abc import Sequence
from itertools import product

from hypothesis import assume
from hypothesis import strategies as st

from codl.ir.graph import Graph, Shape
from codl.ir.ops import (
    CombineMoments,
    ConvTranspose2d,
    LayerNorm,
    LocalResponseNorm,
    Normalize,
    ReduceMean,
    RowMoments,
)
from tests.ir.random_nodes import Index, Readers, Reads, one_node, read_row, shapes


@st.composite
def transposed_axes(draw: st.DrawFn) -> tuple[int, int, int, int, int, int, int]:
    """Return kernel, stride, dilation, leading and trailing pad, input and output length of one axis."""
    kernel, stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    before, after, length = draw(st.integers(0, 3)), draw(st.integers(0, 3)), draw(st.integers(1, 5))
    extra = draw(st.integers(0, max(stride, dilation) - 1))
    out_length = (length - 1) * stride + (kernel - 1) * dilation + 1 + extra - before - after
    assume(out_length > 0)
    return kernel, stride, dilation, before, after, length, out_length


@st.composite
def transposed_convolutions(draw: st.DrawFn) -> Graph:
    """Return a transposed convolution in groups, with or without bias and residual."""
    rows, columns = draw(transposed_axes()), draw(transposed_axes())
    groups, batch, has_bias = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.booleans())
    group_inputs, group_outputs = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    op = ConvTranspose2d(
        kernel=(rows[0], columns[0]),
        stride=(rows[1], columns[1]),
        dilation=(rows[2], columns[2]),
        pads=(rows[3], columns[3], rows[4], columns[4]),
        groups=groups,
        has_bias=has_bias,
    )
    inputs: list[Shape] = [
        (batch, groups * group_inputs, rows[5], columns[5]),
        (groups * group_inputs, group_outputs, rows[0], columns[0]),
    ]
    if has_bias:
        inputs.append((groups * group_outputs,))
    output = (batch, groups * group_outputs, rows[6], columns[6])
    return one_node(op, inputs, output, has_residual=draw(st.booleans()))


@st.composite
def normalizations(draw: st.DrawFn) -> Graph:
    """Return one of the three steps of instance normalization, or one of a layer along any axis."""
    batch, channels, height, width = draw(shapes(least=4))
    image, row_moments = (batch, channels, height, width), (batch, channels, height, 2)
    factors = (batch, channels, 1, 2)
    match draw(st.integers(0, 3)):
        case 0:
            return one_node(RowMoments(), [image], row_moments)
        case 1:
            op = CombineMoments(epsilon=1e-5, row_length=width)
            return one_node(op, [row_moments, (channels,), (channels,)], factors)
        case 2:
            shape = draw(shapes(least=1))
            axis, has_shift = draw(st.integers(0, len(shape) - 1)), draw(st.booleans())
            weights = [shape[axis : axis + 1]] * (1 + has_shift)
            layer = LayerNorm(axis=axis, epsilon=1e-5, has_shift=has_shift)
            return one_node(layer, [shape, *weights], shape)
        case _:
            return one_node(Normalize(), [image, factors], image, has_residual=draw(st.booleans()))


@st.composite
def reductions(draw: st.DrawFn) -> Graph:
    """Return a mean over any axes."""
    shape = draw(shapes(least=1))
    axes = draw(st.sets(st.integers(0, len(shape) - 1)))
    output = tuple(1 if axis in axes else length for axis, length in enumerate(shape))
    return one_node(ReduceMean(axes=tuple(sorted(axes))), [shape], output)


@st.composite
def response_norms(draw: st.DrawFn) -> Graph:
    """Return a normalization over neighbouring channels, even windows included."""
    shape = (draw(st.integers(1, 2)), draw(st.integers(1, 8)), *draw(shapes(most=2)))
    op = LocalResponseNorm(size=draw(st.integers(1, 6)), alpha=1e-4, beta=0.75, bias=1.0)
    return one_node(op, [shape], shape)


def _conv_transpose2d(op: ConvTranspose2d, shapes: Sequence[Shape], shape: Shape, index: Index) -> Reads:
    (n, oc, row, column), (x, weight) = index, shapes[:2]
    group, place = divmod(oc, weight[1])
    for h, w, i, j in product(range(x[2]), range(x[3]), range(op.kernel[0]), range(op.kernel[1])):
        writes = (
            h * op.stride[0] + i * op.dilation[0] - op.pads[0],
            w * op.stride[1] + j * op.dilation[1] - op.pads[1],
        )
        if writes == (row, column):
            inputs = x[1] // op.groups
            yield from ((0, (n, group * inputs + c, h, w)) for c in range(inputs))
    for c in range(x[1] // op.groups):
        ic = group * (x[1] // op.groups) + c
        yield from ((1, (ic, place, i, j)) for i in range(weight[2]) for j in range(weight[3]))
    if op.has_bias:
        yield 2, (oc,)


def _combine_moments(_: CombineMoments, shapes: Sequence[Shape], __: Shape, index: Index) -> Reads:
    n, c = index[:2]
    yield from ((0, (n, c, h, part)) for h in range(shapes[0][2]) for part in (0, 1))
    yield from ((1, (c,)), (2, (c,)))


def _layer_norm(op: LayerNorm, shapes: Sequence[Shape], _: Shape, index: Index) -> Reads:
    for i in range(shapes[0][op.axis]):
        yield 0, (*index[: op.axis], i, *index[op.axis + 1 :])
    yield from ((place, (index[op.axis],)) for place in range(1, len(shapes)))


def _normalize(_: Normalize, __: Sequence[Shape], ___: Shape, index: Index) -> Reads:
    n, c = index[:2]
    yield from ((0, index), (1, (n, c, 0, 0)), (1, (n, c, 0, 1)))


def _reduce_mean(op: ReduceMean, shapes: Sequence[Shape], _: Shape, index: Index) -> Reads:
    ranges = [range(d) if axis in op.axes else [index[axis]] for axis, d in enumerate(shapes[0])]
    yield from ((0, element) for element in product(*ranges))


def _local_response_norm(op: LocalResponseNorm, shapes: Sequence[Shape], _: Shape, index: Index) -> Reads:
    n, c, *pixel = index
    for i in range(c - (op.size - 1) // 2, c + math.ceil((op.size - 1) / 2) + 1):
        if 0 <= i < shapes[0][1]:
            yield 0, (n, i, *pixel)


READS: Readers = {
    ConvTranspose2d: _conv_transpose2d,
    CombineMoments: _combine_moments,
    LayerNorm: _layer_norm,
    Normalize: _normalize,
    LocalResponseNorm: _local_response_norm,
    ReduceMean: _reduce_mean,
    RowMoments: read_row,
}

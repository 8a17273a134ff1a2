"""Hypothesis strategies: a graph of one random normalization, mean or transposed convolution."""

from hypothesis import assume
from hypothesis import strategies as st

from codl.ir.graph import Graph, Shape
from codl.ir.ops import (
    CombineMoments,
    ConvTranspose2d,
    LocalResponseNorm,
    Normalize,
    ReduceMean,
    RowMoments,
)
from tests.ir.random_nodes import one_node, shapes


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
    """Return one of the three steps of instance normalization."""
    batch, channels, height, width = draw(shapes(least=4))
    image, row_moments = (batch, channels, height, width), (batch, channels, height, 2)
    factors = (batch, channels, 1, 2)
    match draw(st.integers(0, 2)):
        case 0:
            return one_node(RowMoments(), [image], row_moments)
        case 1:
            op = CombineMoments(epsilon=1e-5, row_length=width)
            return one_node(op, [row_moments, (channels,), (channels,)], factors)
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

"""Hypothesis strategies: graphs of one attention, with rows or the batch first, and what it reads."""

from collections.abc import Sequence

from hypothesis import strategies as st

from codl.ir.graph import Graph, Shape
from codl.ir.ops import Attention
from tests.ir.random_nodes import Index, Readers, Reads, lengths, one_node


@st.composite
def attentions(draw: st.DrawFn) -> Graph:
    """Return an attention whose heads lie anywhere along the channels, with or without a mask."""
    batch, rows, keys = draw(st.integers(1, 2)), draw(lengths), draw(lengths)
    heads, depth, width = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    row_axis, has_mask = draw(st.integers(0, 1)), draw(st.booleans())
    begins = draw(st.tuples(*[st.integers(0, 3)] * 3))

    def order(length: int, channels: int) -> Shape:
        return (batch, length, channels) if row_axis else (length, batch, channels)

    inputs: list[Shape] = [
        order(length, begin + heads * size + draw(st.integers(0, 2)))
        for length, begin, size in zip((rows, keys, keys), begins, (depth, depth, width), strict=True)
    ]
    if has_mask:
        whole = (batch, heads, rows, keys)
        tail = whole[draw(st.integers(0, 4)) :]
        inputs.append(tuple(draw(st.sampled_from([1, length])) for length in tail))
    op = Attention(
        heads=heads,
        depth=depth,
        width=width,
        scale=0.5,
        begins=begins,
        row_axis=row_axis,
        has_mask=has_mask,
    )
    return one_node(op, inputs, order(rows, heads * width))


def _attention(op: Attention, shapes: Sequence[Shape], _: Shape, index: Index) -> Reads:
    n, row, channel = index[1 - op.row_axis], index[op.row_axis], index[2]
    head = channel // op.width

    def at(place: int, channel: int) -> Index:
        return (n, place, channel) if op.row_axis else (place, n, channel)

    for c in range(op.depth):
        yield 0, at(row, op.begins[0] + head * op.depth + c)
    for key in range(shapes[1][op.row_axis]):
        yield 2, at(key, op.begins[2] + channel)
        for c in range(op.depth):
            yield 1, at(key, op.begins[1] + head * op.depth + c)
        if op.has_mask:
            mask = shapes[3]
            element = (n, head, row, key)[4 - len(mask) :]
            yield 3, tuple(0 if m == 1 else i for m, i in zip(mask, element, strict=True))


READS: Readers = {Attention: _attention}

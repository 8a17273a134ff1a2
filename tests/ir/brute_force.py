"""Which input elements an output element reads, by the definition of each operator, one element at a time."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from codl.ir.graph import Graph, Node, Shape
from codl.ir.ops import (
    Affine,
    Binary,
    CombineRows,
    Concat,
    Conv2d,
    MatMul,
    Pool2d,
    Reshape,
    RowSum,
    Softmax,
    SpaceToDepth,
    Unary,
)
from codl.ir.regions import Region

Index = tuple[int, ...]
Reads = Iterator[tuple[int, Index]]
"""(position of the input, element of it)"""


def find_needs(node: Node, graph: Graph, out: Region) -> list[set[Index]]:
    """Return, for each input of ``node``, the elements that the output box ``out`` depends on."""
    shapes = [graph.shape(name) for name in node.inputs]
    needs: list[set[Index]] = [set() for _ in shapes]
    own = shapes[:-1] if node.residual else shapes
    read = _READS[type(node.op)]
    for index in elements(out):
        for position, element in read(node.op, own, graph.shape(node.output), index):
            needs[position].add(element)
        if node.residual:
            needs[-1].add(index)
    return needs


def elements(region: Region) -> Iterator[Index]:
    """Yield the elements of a box."""
    yield from product(*(range(b, e) for b, e in zip(region.begin, region.end, strict=True)))


def bounding_box(found: set[Index], rank: int) -> Region:
    """Return the smallest box around some elements, an empty one around none."""
    if not found:
        return Region((0,) * rank, (0,) * rank)
    columns = list(zip(*found, strict=True))
    return Region(tuple(min(c) for c in columns), tuple(max(c) + 1 for c in columns))


def _window(op: Conv2d | Pool2d, x: Shape, row: int, column: int) -> Iterator[tuple[int, int]]:
    for i, j in product(range(op.kernel[0]), range(op.kernel[1])):
        h = row * op.stride[0] + i * op.dilation[0] - op.pads[0]
        w = column * op.stride[1] + j * op.dilation[1] - op.pads[1]
        if 0 <= h < x[2] and 0 <= w < x[3]:
            yield h, w


def _conv2d(op: Conv2d, shapes: Sequence[Shape], shape: Shape, index: Index) -> Reads:
    (n, oc, row, column), (x, weight) = index, shapes[:2]
    group = oc // (shape[1] // op.groups)
    for c in range(weight[1]):
        yield from ((0, (n, group * weight[1] + c, h, w)) for h, w in _window(op, x, row, column))
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


def _row_sum(_: RowSum, shapes: Sequence[Shape], __: Shape, index: Index) -> Reads:
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
    down, right = divmod(offset, op.block)
    yield 0, (n, channel, row * op.block + down, column * op.block + right)


_READS: dict[type, Callable[[Any, Sequence[Shape], Shape, Index], Reads]] = {
    Conv2d: _conv2d,
    Pool2d: _pool2d,
    MatMul: _matmul,
    Unary: _pointwise,
    Binary: _pointwise,
    RowSum: _row_sum,
    CombineRows: _combine_rows,
    Affine: _affine,
    Concat: _concat,
    Reshape: _reshape,
    Softmax: _softmax,
    SpaceToDepth: _space_to_depth,
}

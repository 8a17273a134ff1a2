"""Which input elements an output element reads, by the definition of each operator, one element at a time."""

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from codl.ir.graph import Graph, Node, Shape
from codl.ir.ops import (
    Affine,
    Binary,
    ChannelShuffle,
    CombineMoments,
    CombineRows,
    Concat,
    Conv2d,
    ConvTranspose2d,
    Coordinates,
    DepthToSpace,
    LocalResponseNorm,
    MatMul,
    Normalize,
    Pad,
    PadMode,
    Pool2d,
    ReduceMean,
    Reshape,
    Resize2d,
    ResizeMode,
    Rounding,
    RowMoments,
    RowSum,
    Slice,
    Softmax,
    SpaceToDepth,
    Transpose,
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


def _row_sum(_: RowSum | RowMoments, shapes: Sequence[Shape], __: Shape, index: Index) -> Reads:
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
    DepthToSpace: _depth_to_space,
    ConvTranspose2d: _conv_transpose2d,
    RowMoments: _row_sum,
    CombineMoments: _combine_moments,
    Normalize: _normalize,
    LocalResponseNorm: _local_response_norm,
    Slice: _slice,
    Pad: _pad,
    Resize2d: _resize2d,
    ReduceMean: _reduce_mean,
    Transpose: _transpose,
    ChannelShuffle: _channel_shuffle,
}

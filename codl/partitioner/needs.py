"""What slices of many operators read of their inputs, for all places along each axis: found at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from codl.ir.boxes import Region
from codl.ir.graph import Graph, Node
from codl.ir.ops import Conv2d, Pool2d
from codl.ir.regions import input_window
from codl.partitioner.arrays import Flags, Ints
from codl.partitioner.outlines import Outline
from codl.partitioner.positions import Ruler


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What slices along one axis read of an input."""

    low: Ints | None
    """[length + 1] First position that a slice reads that begins here; None: slices read all of it."""
    high: Ints | None
    """[length + 1] One past the last position that a slice reads that ends here."""
    is_exact: bool
    """Whether slices read just that: not where it is interpolated, nor where it is no interval."""


_WINDOW_AXES = (2, 3)
"""Height and width of images."""
_WHOLE_NEED = Need(low=None, high=None, is_exact=True)
_NO_INTERVAL = Need(low=None, high=None, is_exact=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNeeds:
    """What one operator reads."""

    reads: tuple[Region, ...]
    """By input, what the whole operator reads of it."""
    axes: Mapping[int, tuple[Need, ...]]
    """Axis along which a cut saves work -> by input, constants included, what slices read of it."""


@dataclass(slots=True)
class _Input:
    """What all slices of an operator read of one input."""

    whole: Region
    varies: list[list[bool]]
    """By ruler and axis of the input, whether some slices read less than all along it."""
    low: Ints
    """[box, axis of the input] Where slices begin to read; the length of the axis where they read nothing."""
    high: Ints
    """[box, axis of the input] Where they end; 0 where they read nothing."""


def find_needs(outlines: Sequence[Outline], graph: Graph) -> list[NodeNeeds]:
    """Return what operators and their slices read.

    Args:
        outlines: Of the operators.
        graph: The network.
    """
    by_rank: dict[int, list[tuple[int, int]]] = {}
    for number, outline in enumerate(outlines):
        for place, name in enumerate(outline.node.inputs):
            by_rank.setdefault(len(graph.shape(name)), []).append((number, place))
    inputs: dict[tuple[int, int], _Input] = {}
    for asked in by_rank.values():
        found = _read_inputs([(outlines[number], place) for number, place in asked], graph)
        inputs.update(zip(asked, found, strict=True))
    return [
        _join([inputs[number, place] for place in range(len(outline.node.inputs))], outline, graph)
        for number, outline in enumerate(outlines)
    ]


def _read_inputs(asked: Sequence[tuple[Outline, int]], graph: Graph) -> list[_Input]:
    """Return what is read of inputs of one rank."""
    needs = [outline.out.needs[place] for outline, place in asked]
    counts = [need.count for need in needs]
    starts = np.cumsum([0, *counts]).tolist()
    begin = np.concatenate([need.begin for need in needs])
    end = np.concatenate([need.end for need in needs])
    shapes = [graph.shape(outline.node.inputs[place]) for outline, place in asked]
    lengths = np.repeat(np.array(shapes, np.int64).reshape(len(asked), -1), counts, axis=0)
    is_nothing = np.concatenate([outline.is_empty for outline, _ in asked])
    is_nothing = (is_nothing | (end <= begin).any(axis=1))[:, None]
    low, high = np.where(is_nothing, lengths, begin), np.where(is_nothing, 0, end)
    rulers = [
        (start, ruler) for start, (outline, _) in zip(starts, asked, strict=False) for ruler in outline.rulers
    ]
    varies = _find_varying(begin != 0, end != lengths, rulers) if begin.shape[1] else [[] for _ in rulers]
    found, first = [], 0
    wholes = zip(begin[starts[:-1]].tolist(), end[starts[:-1]].tolist(), strict=True)
    for (outline, _), start, count, (left, right) in zip(asked, starts, counts, wholes, strict=False):
        part, last = slice(start, start + count), first + len(outline.rulers)
        whole = Region(tuple(left), tuple(right))
        found.append(_Input(whole, varies[first:last], low[part], high[part]))
        first = last
    return found


def _find_varying(begins: Flags, ends: Flags, rulers: Sequence[tuple[int, Ruler]]) -> list[list[bool]]:
    """Return, by ruler and axis of an input, whether some slices read less than all along it.

    Args:
        begins: [box, axis] Whether a box of the input does not begin at the start.
        ends: [box, axis] Whether it does not end at the end.
        rulers: With the boxes before an input's first one.
    """
    if not rulers:
        return []
    heads = [start + edge for start, ruler in rulers for edge in (ruler.heads.start + 1, ruler.heads.stop)]
    tails = [start + edge for start, ruler in rulers for edge in (ruler.tails.start, ruler.tails.stop - 1)]
    is_shorter = np.logical_or.reduceat(ends, heads, axis=0)[::2]
    is_later = np.logical_or.reduceat(begins, tails, axis=0)[::2]
    varies: list[list[bool]] = (is_shorter | is_later).tolist()
    return varies


def _join(inputs: Sequence[_Input], outline: Outline, graph: Graph) -> NodeNeeds:
    """Return what one operator reads, and along which axes a cut saves work."""
    rank, axes = len(outline.shape), {}
    names = outline.node.inputs
    for place, ruler in enumerate(outline.rulers):
        if not any(any(one.varies[place]) for one in inputs):
            continue
        # What moves along other axes too is no interval: all of it is read.
        interval = [axis == ruler.axis for axis in range(rank)]
        axes[ruler.axis] = tuple(
            [
                _WHOLE_NEED
                if name in graph.constants or not any(one.varies[place])
                else _read_need(one, ruler, outline.node, graph)
                if one.varies[place] == interval
                else _NO_INTERVAL
                for name, one in zip(names, inputs, strict=True)
            ]
        )
    return NodeNeeds(reads=tuple([one.whole for one in inputs]), axes=axes)


def _read_need(one: _Input, ruler: Ruler, node: Node, graph: Graph) -> Need:
    """Return the intervals that slices along an axis read of an input."""
    low, high = one.low[ruler.tails, ruler.axis], one.high[ruler.heads, ruler.axis]
    if ruler.is_complete:
        return Need(low=low, high=high, is_exact=True)
    full = np.arange(ruler.length + 1)
    if np.array_equal(low, ruler.positions) and np.array_equal(high, ruler.positions):
        return Need(low=full, high=full, is_exact=True)
    op = node.op
    if isinstance(op, Conv2d | Pool2d) and ruler.axis in _WINDOW_AXES:
        return _slide(op, ruler, full, length=graph.shape(node.inputs[0])[ruler.axis])
    low = np.floor(np.interp(full, ruler.positions, low)).astype(np.int64)
    high = np.ceil(np.interp(full, ruler.positions, high)).astype(np.int64)
    return Need(low=low, high=high, is_exact=False)


def _slide(op: Conv2d | Pool2d, ruler: Ruler, full: Ints, *, length: int) -> Need:
    """Return the rows of windows under the rows of whole tiles, for slices that begin and end at all places.

    Args:
        op: The operator.
        ruler: Of the axis.
        full: All places.
        length: Of the input's axis.
    """
    place = _WINDOW_AXES.index(ruler.axis)
    tile = op.tile[place] if isinstance(op, Conv2d) else 1
    low, high = input_window(
        full // tile * tile,
        -(-full // tile) * tile,
        length=length,
        kernel=op.kernel[place],
        stride=op.stride[place],
        dilation=op.dilation[place],
        pad=op.pads[place],
    )
    low[-1], high[0] = length, 0
    return Need(low=low, high=high, is_exact=True)

"""What slices of many operators read of their inputs, for all places along each axis: found at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from codl.ir.boxes import Boxes, Region
from codl.ir.graph import Graph, Node
from codl.ir.ops import Conv2d, Pool2d
from codl.ir.regions import input_window
from codl.partitioner.arrays import Ints
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


def find_needs(outlines: Sequence[Outline], graph: Graph) -> list[NodeNeeds]:
    """Return what operators and their slices read.

    Args:
        outlines: Of the operators.
        graph: The network.
    """
    return [_find_needs(outline, graph) for outline in outlines]


def _find_needs(outline: Outline, graph: Graph) -> NodeNeeds:
    """Return what one operator reads, and along which axes a cut saves work."""
    node, rulers = outline.node, outline.rulers
    # Of slices from the start, and to the end, the shortest reads least.
    looked_at = [0, *(place for ruler in rulers for place in (ruler.heads.start + 1, ruler.tails.stop - 2))]
    reads: list[Region] = []
    varies: list[list[list[bool]]] = []
    for name, boxes in zip(node.inputs, outline.out.needs, strict=True):
        begins = boxes.begin.take(looked_at, axis=0).tolist()
        ends = boxes.end.take(looked_at, axis=0).tolist()
        reads.append(Region(tuple(begins[0]), tuple(ends[0])))
        varies.append(_find_varying(ends[1::2], begins[2::2], graph.shape(name)))
    rank, axes = len(outline.shape), {}
    for ruler, varying in zip(rulers, zip(*varies, strict=True), strict=False):
        if not any(map(any, varying)):
            continue
        # What moves along other axes too is no interval: all of it is read.
        interval = [axis == ruler.axis for axis in range(rank)]
        axes[ruler.axis] = tuple(
            [
                _WHOLE_NEED
                if name in graph.constants or not any(one)
                else _read_need(boxes, ruler, node, graph.shape(name)[ruler.axis])
                if one == interval
                else _NO_INTERVAL
                for name, one, boxes in zip(node.inputs, varying, outline.out.needs, strict=True)
            ]
        )
    return NodeNeeds(reads=tuple(reads), axes=axes)


def _find_varying(
    ends: Sequence[Sequence[int]], begins: Sequence[Sequence[int]], shape: Sequence[int]
) -> list[list[bool]]:
    """Return, by ruler and axis of an input, whether some slices read less than all along it.

    Args:
        ends: Where the shortest slice from the start ends to read, by ruler and axis.
        begins: Where the shortest slice to the end begins to, by ruler and axis.
        shape: Of the input.
    """
    return [
        [end != length or begin != 0 for end, begin, length in zip(*edges, shape, strict=True)]
        for edges in zip(ends, begins, strict=True)
    ]


def _read_need(boxes: Boxes, ruler: Ruler, node: Node, length: int) -> Need:
    """Return the intervals that slices along an axis read of an input.

    Args:
        boxes: What all slices of the operator read of it.
        ruler: Of the axis.
        node: The operator.
        length: Of the input's axis.
    """
    axis, heads, tails = ruler.axis, ruler.heads, ruler.tails
    low, high = boxes.begin[tails, axis], boxes.end[heads, axis]
    if not ruler.is_complete and length == ruler.length and _is_alike(low[:-1], high[1:], ruler):
        return _find_alike(ruler.length)
    is_later, is_sooner = boxes.end[tails, axis] > low, high > boxes.begin[heads, axis]
    is_later[-1] = is_sooner[0] = False  # slices of nothing
    low, high = np.where(is_later, low, length), np.where(is_sooner, high, 0)
    if ruler.is_complete:
        return Need(low=low, high=high, is_exact=True)
    full = np.arange(ruler.length + 1)
    op = node.op
    if isinstance(op, Conv2d | Pool2d) and axis in _WINDOW_AXES:
        return _slide(op, ruler, full, length=length)
    low = np.floor(np.interp(full, ruler.positions, low)).astype(np.int64)
    high = np.ceil(np.interp(full, ruler.positions, high)).astype(np.int64)
    return Need(low=low, high=high, is_exact=False)


def _is_alike(low: Ints, high: Ints, ruler: Ruler) -> bool:
    """Return whether slices read what they compute, but for those of nothing."""
    positions = ruler.positions
    return bool((low == positions[:-1]).all() and (high == positions[1:]).all())


@lru_cache(maxsize=512)
def _find_alike(length: int) -> Need:
    """Return the need of slices that read what they compute."""
    full = np.arange(length + 1)
    return Need(low=full, high=full, is_exact=True)


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

"""What slices of an operator read of its inputs, for every position along each axis that may be cut."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from codl.ir.boxes import Boxes, Region
from codl.ir.graph import Graph, Node
from codl.ir.ops import Conv2d, Pool2d
from codl.ir.regions import OutputBoxes, input_window
from codl.simulator.arrays import Ints
from codl.simulator.cut_grid import CutGrid


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What slices along one axis of the output read of one input, along the same axis."""

    low: Ints | None
    """[length + 1] First position that a slice reads that begins here; None: slices read the whole input."""
    high: Ints | None
    """[length + 1] One past the last position that a slice reads that ends here."""
    is_exact: bool
    """Whether slices read exactly that; otherwise it is an upper bound."""


_WINDOW_AXES = (2, 3)
"""Height and width of images."""
_WHOLE_NEED = Need(low=None, high=None, is_exact=True)
_NO_INTERVAL = Need(low=None, high=None, is_exact=False)


def find_needs(
    node: Node, grids: Sequence[CutGrid], out: OutputBoxes, graph: Graph
) -> tuple[tuple[Region, ...], dict[int, tuple[Need, ...]]]:
    """Return what an operator reads of each input, and, by axis, what slices read of each input.

    Axes along which a cut saves no work are left out.

    Args:
        node: The operator.
        grids: Its cut grids.
        out: Its boxes, as `list_boxes` lists them.
        graph: The network.
    """
    # Of slices from the start, and of those to the end, the shortest reads least.
    looked_at = [0, *(place for grid in grids for place in (grid.heads.start + 1, grid.tails.stop - 2))]
    reads: list[Region] = []
    varies: list[list[list[bool]]] = []
    """[input][grid][axis] Whether some slices along a grid read less than all along an axis of an input."""
    for name, boxes in zip(node.inputs, out.needs, strict=True):
        begins = boxes.begin.take(looked_at, axis=0).tolist()
        ends = boxes.end.take(looked_at, axis=0).tolist()
        reads.append(Region(tuple(begins[0]), tuple(ends[0])))
        varies.append(
            [
                [
                    high != length or low != 0
                    for high, low, length in zip(*edges, graph.shape(name), strict=True)
                ]
                for edges in zip(ends[1::2], begins[2::2], strict=True)
            ]
        )
    axes = {}
    for place, grid in enumerate(grids):
        varying = [by_grid[place] for by_grid in varies]
        if any(map(any, varying)):
            axes[grid.axis] = tuple(
                _WHOLE_NEED
                if name in graph.constants or not any(one)
                else _find_need(node, grid, boxes, one, graph.shape(name))
                for name, one, boxes in zip(node.inputs, varying, out.needs, strict=True)
            )
    return tuple(reads), axes


def _find_need(
    node: Node, grid: CutGrid, boxes: Boxes, varying: Sequence[bool], shape: Sequence[int]
) -> Need:
    """Return what slices along the axis of a grid read of one input.

    Args:
        node: The operator.
        grid: Of the axis.
        boxes: What all of the operator's boxes read of the input.
        varying: By axis of the input, whether some slices read less than all along it.
        shape: Of the input.
    """
    axis, op = grid.axis, node.op
    if [place for place, is_varying in enumerate(varying) if is_varying] != [axis]:
        return _NO_INTERVAL
    length = shape[axis]
    low, high = boxes.begin[grid.tails, axis], boxes.end[grid.heads, axis]
    is_same = (low[:-1] == grid.positions[:-1]).all() and (high[1:] == grid.positions[1:]).all()
    if length == grid.length and is_same:
        return _find_identity(length)
    low = np.where(boxes.end[grid.tails, axis] > low, low, length)
    high = np.where(high > boxes.begin[grid.heads, axis], high, 0)
    low[-1], high[0] = length, 0  # slices of nothing
    is_exact = len(grid.positions) == grid.length + 1
    if not is_exact and isinstance(op, Conv2d | Pool2d) and axis in _WINDOW_AXES:
        return _slide_window(op, grid, length=length)
    return Need(low=low.take(grid.at_or_before), high=high.take(grid.at_or_after), is_exact=is_exact)


@lru_cache(maxsize=512)
def _find_identity(length: int) -> Need:
    """Return the need of slices that read the interval that they compute."""
    full = np.arange(length + 1)
    return Need(low=full, high=full, is_exact=True)


def _slide_window(op: Conv2d | Pool2d, grid: CutGrid, *, length: int) -> Need:
    """Return the rows (or columns) that windows read, where the grid does not have every position.

    Args:
        op: The operator; convolutions in tiles compute whole tiles.
        grid: Of the axis.
        length: Of the input's axis.
    """
    place, full = _WINDOW_AXES.index(grid.axis), np.arange(grid.length + 1)
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

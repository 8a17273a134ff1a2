"""Cut grids: the positions of an axis at which slices are looked up, and where planners may cut it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb, lcm

import numpy as np

from codl.catalog.spec import Selection
from codl.ir.boxes import Boxes
from codl.ir.graph import Node, Shape
from codl.simulator.arrays import Flags, Floats, Ints

WHOLE = -1
"""Stands for an axis where a device reads or has all of a tensor."""
FAR = 1 << 40
"""Where empty intervals begin, so that a hull with them is the other interval."""
_ROWS = 2
"""The height of images: halos end at any row."""
_MOST_ROWS = 384
"""Positions of a grid along the height of images."""
_MOST_POSITIONS = 64
"""Positions of a grid along any other axis."""
_LONGEST_AXIS = 4096
"""Longer axes, such as a list of all anchors of a detector, are not cut."""
_WIDEST_PANEL = 32
"""Channels that a kernel computes at once, where its parameters do not say."""
_MOST_CUTS = 33
"""Candidate cuts of an axis between two devices."""
_MOST_SHARES = 300
"""Candidate divisions of an axis among three or more devices."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CutGrid:
    """The positions of one axis at which slices are predicted.

    A slice that begins or ends elsewhere is taken for the next larger one of the grid.
    """

    axis: int
    length: int
    granule: int
    """Positions that kernels compute at once."""
    positions: Ints
    """Ascending, from 0 to the length."""
    at_or_after: Ints
    """[length + 1] Index of the first position of the grid that is not before each position of the axis."""
    at_or_before: Ints
    """[length + 1] Index of the last position of the grid that is not after each position of the axis."""
    heads: slice
    """Which of the operator's boxes (`list_boxes`) are slices from 0 to each position of the grid."""
    tails: slice
    """Which of them are slices from each position of the grid to the end."""

    def find_index(self, place: int) -> int | None:
        """Return the index of a position of the axis; None for a position that is not on the grid."""
        after, before = int(self.at_or_after[place]), int(self.at_or_before[place])
        return after if after == before else None


def list_cut_grids(node: Node, shape: Shape, selections: Sequence[Selection]) -> tuple[CutGrid, ...]:
    """Return the grids of the axes of a node's output that planners may cut.

    Args:
        node: The operator.
        shape: Of its output.
        selections: The kernel that computes it on each device.
    """
    axes = list_axes(shape)
    granules = tuple([_find_granule(node, axis, shape, selections) for axis in axes])
    return _make_grids(shape, axes, granules)


def list_axes(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the axes that planners may cut: height, channels and batch of images, all of other tensors."""
    axes = (2, 1, 0) if len(shape) == 4 else range(len(shape))
    return tuple(axis for axis in axes if 1 < shape[axis] <= _LONGEST_AXIS)


@lru_cache(maxsize=128)
def list_boxes(shape: Shape, grids: tuple[CutGrid, ...]) -> tuple[Boxes, Flags]:
    """Return the output boxes that are predicted for an operator, and [box] which of them are empty.

    The first box is the whole output; heads and tails of each grid follow. Empty slices are replaced by the
    whole output, as kernels can only be described for boxes that hold something.
    """
    count = 1 + sum(2 * len(grid.positions) for grid in grids)
    begin = np.zeros((count, len(shape)), np.int64)
    end = np.empty((count, len(shape)), np.int64)
    end[:] = shape
    is_empty = np.zeros(count, bool)
    for grid in grids:
        end[grid.heads, grid.axis] = grid.positions
        begin[grid.tails, grid.axis] = grid.positions
        end[grid.heads.start, grid.axis], begin[grid.tails.stop - 1, grid.axis] = grid.length, 0
        is_empty[[grid.heads.start, grid.tails.stop - 1]] = True
    return Boxes(begin, end), is_empty


@lru_cache(maxsize=128)
def _make_grids(shape: Shape, axes: tuple[int, ...], granules: tuple[int, ...]) -> tuple[CutGrid, ...]:
    """Return the grids of axes; many operators of a network share them."""
    found: list[CutGrid] = []
    start = 1
    for axis, granule in zip(axes, granules, strict=True):
        length = shape[axis]
        positions, at_or_after, at_or_before = _list_positions(axis, length, granule)
        count = len(positions)
        grid = CutGrid(
            axis=axis,
            length=length,
            granule=granule,
            positions=positions,
            at_or_after=at_or_after,
            at_or_before=at_or_before,
            heads=slice(start, start + count),
            tails=slice(start + count, start + 2 * count),
        )
        found.append(grid)
        start += 2 * count
    return tuple(found)


@lru_cache(maxsize=512)
def _list_positions(axis: int, length: int, granule: int) -> tuple[Ints, Ints, Ints]:
    """Return `positions`, `at_or_after` and `at_or_before` of a `CutGrid`."""
    most = _MOST_ROWS if axis == _ROWS else _MOST_POSITIONS
    unit = 1 if length <= most else granule
    step = unit * max(1, -(-length // (unit * most)))
    positions = np.append(np.arange(0, length, step), length)
    full = np.arange(length + 1)
    return positions, np.searchsorted(positions, full), np.searchsorted(positions, full, side="right") - 1


def _find_granule(node: Node, axis: int, shape: Sequence[int], selections: Sequence[Selection]) -> int:
    """Return how many positions kernels compute at once, 1 where the axis is too short for that."""
    granule = 1
    if axis == (1 if len(shape) == 4 else len(shape) - 1):
        panels = [_find_panel(one) for one in selections]
        granule = lcm(*panels)
        granule = granule if granule <= _WIDEST_PANEL else max(panels)
    elif len(shape) == 4 and axis == _ROWS:
        granule = getattr(node.op, "tile", (1, 1))[0]
    while granule > 1 and 2 * granule > shape[axis]:
        granule //= 2
    return max(1, granule)


def _find_panel(selection: Selection) -> int:
    """Return how many channels a kernel computes at once."""
    parameters = selection.parameters
    if selection.implementation.cuts_panels:
        return parameters["VECTOR"]
    if "NR" in parameters:
        return parameters["NR"]
    return parameters.get("VECTOR", 8) * parameters.get("VECTORS", 1)


@lru_cache(maxsize=512)
def list_shares(length: int, granule: int, devices: int) -> Floats:
    """Return [candidate, device + 1] boundaries in [0, 1] between the devices' shares of an axis.

    Two devices are divided at granules; more of them in steps of a tenth or coarser, some with nothing.
    """
    if devices == 2:
        places = np.arange(granule, length, granule)
        if len(places) > _MOST_CUTS:
            wanted = np.linspace(places[0], places[-1], _MOST_CUTS)
            places = np.round(wanted / granule).astype(np.int64) * granule
            places = places[np.diff(places, prepend=0) > 0]
        inner = places[:, None] / length
    else:
        steps = next(
            (steps for steps in (10, 5, 4, 3, 2) if comb(steps + devices - 1, steps) <= _MOST_SHARES), 1
        )
        splits = combinations(range(steps + devices - 1), devices - 1)
        inner = np.array([[(bar - index) / steps for index, bar in enumerate(bars)] for bars in splits])
        inner = inner[(np.diff(inner, axis=1, prepend=0, append=1) < 1).all(axis=1)]
    edges = np.zeros((len(inner), 1)), np.ones((len(inner), 1))
    return np.concatenate([edges[0], inner, edges[1]], axis=1)


@lru_cache(maxsize=4096)
def cut_axis(shares_of: tuple[int, int], devices: int, length: int, granule: int) -> Ints:
    """Return [candidate, device + 1] boundaries of an axis, each at the granule next to a share.

    Args:
        shares_of: Length and granule of the axis that the shares are made for, as in `list_shares`.
        devices: How many share it.
        length: Of the axis to cut.
        granule: Of that axis.
    """
    found = np.round(list_shares(*shares_of, devices) * (length / granule)).astype(np.int64) * granule
    found = np.minimum(found, length)
    found[:, -1] = length
    return found


@lru_cache(maxsize=4096)
def list_intervals(shares_of: tuple[int, int], devices: int, length: int, granule: int) -> tuple[Ints, Ints]:
    """Return [candidate, device] where the intervals of `cut_axis` begin and end.

    Empty intervals begin at `FAR` and end at 0.
    """
    bounds = cut_axis(shares_of, devices, length, granule)
    low, high = bounds[:, :-1], bounds[:, 1:]
    return np.where(high > low, low, FAR), np.where(high > low, high, 0)

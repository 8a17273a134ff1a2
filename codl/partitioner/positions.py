"""Where axes are cut to see what slices take: which axes, which places; and candidates for cuts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import lcm

import numpy as np

from codl.catalog.spec import Selection
from codl.ir.boxes import Boxes
from codl.ir.graph import Node, Shape
from codl.partitioner.arrays import Flags, Floats, Ints
from codl.partitioner.spreads import ROWS, Spread, find_middle, find_spread, list_knots

FAR = 1 << 40
"""Where empty intervals begin, so that a hull with them is the other one."""
_MOST_ROWS = 384
"""Rows of images up to which each of them is a place whose slices are predicted: halos end at any of them."""
_LONGEST_AXIS = 4096
"""What is longer, such as a list of all anchors of a detector, is no axis to cut along."""
_WIDEST_PANEL = 32
"""Channels that a kernel computes at once, where its parameters do not tell."""
_MOST_CANDIDATES = 33
_MOST_SHARES = 300


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ruler:
    """The places of one axis that are looked at, and where their slices stand among a node's boxes."""

    axis: int
    length: int
    granule: int
    """Positions that kernels compute at once."""
    positions: Ints
    """The ends of the axis included."""
    is_complete: bool
    """Whether every position is looked at."""
    is_split: bool
    """Whether two more slices are looked at, behind all others, that end within tiles of rows."""
    heads: slice
    """Boxes of the slices from the start to each place."""
    tails: slice
    """Boxes of the slices to the end."""

    @property
    def count(self) -> int:
        """Of its boxes."""
        return 2 * len(self.positions) + 2 * self.is_split

    @property
    def places(self) -> Mapping[int, int]:
        """By position that is looked at, where it stands among those."""
        return _find_places(self.axis, self.length, self.granule)

    @property
    def spread(self) -> Spread:
        """How times at the places that are looked at become those that plans are sought by."""
        is_complete, is_tiled = self.is_complete, self.is_split
        return find_spread(self.length, self.granule, is_complete=is_complete, is_tiled=is_tiled)


def list_rulers(node: Node, shape: Shape, selections: Sequence[Selection]) -> tuple[Ruler, ...]:
    """Return where the axes of a node's output are looked at, given what computes it on each device."""
    axes = list_axes(shape)
    return _make_rulers(shape, axes, tuple([_find_granule(node, axis, shape, selections) for axis in axes]))


@lru_cache(maxsize=128)
def _make_rulers(shape: Shape, axes: tuple[int, ...], granules: tuple[int, ...]) -> tuple[Ruler, ...]:
    """Return the rulers of axes: the same ones for many operators of a network."""
    found: list[Ruler] = []
    start = 1
    for axis, granule in zip(axes, granules, strict=True):
        found.append(_make_ruler(axis, shape[axis], granule, start))
        start += found[-1].count
    return tuple(found)


def _make_ruler(axis: int, length: int, granule: int, start: int) -> Ruler:
    positions = _list_positions(axis, length, granule)
    count, is_complete = len(positions), len(positions) == length + 1
    return Ruler(
        axis=axis,
        length=length,
        granule=granule,
        positions=positions,
        is_complete=is_complete,
        is_split=axis == ROWS and granule > 1 and not is_complete,
        heads=slice(start, start + count),
        tails=slice(start + count, start + 2 * count),
    )


@lru_cache(maxsize=128)
def list_boxes(shape: Shape, rulers: tuple[Ruler, ...]) -> tuple[Boxes, Flags]:
    """Return the whole output, then slices from the start and to the end of each axis; which are of nothing.

    Slices of nothing are the whole here: so all devices are asked about the same boxes.
    """
    count = 1 + sum(ruler.count for ruler in rulers)
    begin = np.zeros((count, len(shape)), np.int64)
    end = np.empty((count, len(shape)), np.int64)
    end[:] = shape
    is_empty = np.zeros(count, bool)
    for ruler in rulers:
        first, last = ruler.heads.start, ruler.tails.stop - 1
        end[ruler.heads, ruler.axis] = ruler.positions
        begin[ruler.tails, ruler.axis] = ruler.positions
        end[first, ruler.axis], begin[last, ruler.axis] = ruler.length, 0
        is_empty[[first, last]] = True
        if ruler.is_split:
            edge = find_middle(ruler.positions)
            end[ruler.tails.stop, ruler.axis] = edge - 1
            begin[ruler.tails.stop + 1, ruler.axis] = edge + 1
    return Boxes(begin, end), is_empty


def list_axes(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the axes that planners may cut: height, channels and batch of images, all of other tensors."""
    axes = (2, 1, 0) if len(shape) == 4 else range(len(shape))
    return tuple(axis for axis in axes if 1 < shape[axis] <= _LONGEST_AXIS)


def _find_granule(node: Node, axis: int, shape: Sequence[int], selections: Sequence[Selection]) -> int:
    """Return how many positions kernels compute at once, 1 where the axis is too short for that."""
    is_channel = axis == (1 if len(shape) == 4 else len(shape) - 1)
    granule = 1
    if is_channel:
        panels = [_find_panel(one) for one in selections]
        granule = lcm(*panels)
        granule = granule if granule <= _WIDEST_PANEL else max(panels)
    elif len(shape) == 4 and axis == ROWS:
        granule = getattr(node.op, "tile", (1, 1))[0]
    while granule > 1 and 2 * granule > shape[axis]:
        granule //= 2
    return max(1, granule)


def _find_panel(selection: Selection) -> int:
    parameters = selection.parameters
    if selection.implementation.cuts_panels:
        return parameters["VECTOR"]
    if "NR" in parameters:
        return parameters["NR"]
    return parameters.get("VECTOR", 8) * parameters.get("VECTORS", 1)


@lru_cache(maxsize=512)
def _list_positions(axis: int, length: int, granule: int) -> Ints:
    """Return the places of an axis that are predicted, its ends included."""
    if axis == ROWS and length <= _MOST_ROWS:
        return np.arange(length + 1)
    return list_knots(length, granule)


@lru_cache(maxsize=512)
def _find_places(axis: int, length: int, granule: int) -> Mapping[int, int]:
    """Return by position that is predicted where it stands among those."""
    return {position: place for place, position in enumerate(_list_positions(axis, length, granule).tolist())}


@lru_cache(maxsize=512)
def list_shares(length: int, granule: int, devices: int) -> Floats:
    """Return [candidate, device + 1] boundaries in [0, 1] to cut an axis at: every granule, or every tenth.

    With more than two devices some may have nothing.
    """
    if devices == 2:
        places = np.arange(granule, length, granule)
        if len(places) > _MOST_CANDIDATES:
            wanted = np.linspace(places[0], places[-1], _MOST_CANDIDATES)
            places = np.round(wanted / granule).astype(np.int64) * granule
            places = places[np.diff(places, prepend=0) > 0]
        inner = places[:, None] / length
    else:
        steps = next(
            (steps for steps in (10, 5, 4, 3, 2) if _count_splits(steps, devices) <= _MOST_SHARES), 1
        )
        splits = combinations(range(steps + devices - 1), devices - 1)
        inner = np.array([[(bar - index) / steps for index, bar in enumerate(bars)] for bars in splits])
        inner = inner[(np.diff(inner, axis=1, prepend=0, append=1) < 1).all(axis=1)]
    edges = np.zeros((len(inner), 1)), np.ones((len(inner), 1))
    return np.concatenate([edges[0], inner, edges[1]], axis=1)


def _count_splits(steps: int, devices: int) -> int:
    count = 1
    for index in range(1, devices):
        count = count * (steps + index) // index
    return count


@lru_cache(maxsize=4096)
def cut_axis(ends: tuple[int, int], devices: int, length: int, granule: int) -> Ints:
    """Return [candidate, device + 1] boundaries of an axis at the granules next to some shares of it.

    Args:
        ends: Length and granule of the axis that the shares are of, as `list_shares` takes them.
        devices: How many share it.
        length: Of the axis to cut.
        granule: Of that axis.
    """
    found = np.round(list_shares(*ends, devices) * (length / granule)).astype(np.int64) * granule
    found = np.minimum(found, length)
    found[:, -1] = length
    return found


@lru_cache(maxsize=4096)
def list_intervals(ends: tuple[int, int], devices: int, length: int, granule: int) -> tuple[Ints, Ints]:
    """Return [candidate, device] where intervals of `cut_axis` begin and end; empty ones begin at `FAR`."""
    bounds = cut_axis(ends, devices, length, granule)
    low, high = bounds[:, :-1], bounds[:, 1:]
    return np.where(high > low, low, FAR), np.where(high > low, high, 0)

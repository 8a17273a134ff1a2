"""Where axes are cut to see what slices take: which axes, which places, and what lies between them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import lcm

import numpy as np
import numpy.typing as npt

from codl.catalog.spec import Parameters
from codl.ir.boxes import Boxes
from codl.ir.graph import Node

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
FAR = 1 << 40
"""Where empty intervals begin, so that a hull with them is the other one."""
_ROWS = 2
"""The axis of images that some kernels compute in tiles."""
_MOST_POSITIONS = 48
"""Places along an axis whose slices are predicted; between them times are interpolated."""
_LONGEST_AXIS = 4096
"""What is longer, such as a list of all anchors of a detector, is no axis to cut along."""
_WIDEST_PANEL = 32
"""Channels that a kernel computes at once, where its parameters do not tell."""
_MOST_CANDIDATES = 33
_MOST_SHARES = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruler:
    """The places of one axis that are looked at, and where their slices stand among a node's boxes."""

    axis: int
    granule: int
    """Positions that kernels compute at once."""
    positions: Ints
    """The ends of the axis included."""
    start: int
    """Of the slices from the start to each place; those from there to the end follow them."""

    @property
    def length(self) -> int:
        """Of the axis."""
        return int(self.positions[-1])

    @property
    def is_complete(self) -> bool:
        """Whether every position is looked at."""
        return len(self.positions) == self.length + 1

    @property
    def heads(self) -> slice:
        """Boxes of the slices from the start."""
        return slice(self.start, self.start + len(self.positions))

    @property
    def tails(self) -> slice:
        """Boxes of the slices to the end."""
        return slice(self.start + len(self.positions), self.start + 2 * len(self.positions))

    @property
    def is_split(self) -> bool:
        """Whether two more slices are looked at, behind all others, that end within tiles of rows."""
        return self.axis == _ROWS and self.granule > 1 and not self.is_complete

    @property
    def sampled(self) -> frozenset[int] | None:
        """Positions that are looked at; None for all."""
        return None if self.is_complete else _list_sampled(self.length, self.granule)

    @property
    def count(self) -> int:
        """Of its boxes."""
        return 2 * len(self.positions) + 2 * self.is_split

    @property
    def spread(self) -> "Spread":
        """How times at the places that are looked at become times at all places."""
        return _find_spread(self.length, self.granule, self.is_complete, self.is_split)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Slices from the start to all places, from there to the end, and of nothing: from those looked at.

    At granules' edges, linear between samples. Within a tile of rows times rise as much as in one that is
    looked at; cut between channels it takes as long as to the next edge.
    """

    before: Ints
    """[2 * length + 3] Sample before each place, counted from a ruler's first box."""
    after: Ints
    """As ``before``, the one behind it."""
    part: Floats
    """How far a place is from the one before it to the one behind it, in [0, 1]."""
    inside: Ints
    """[-] Places within tiles."""
    pairs: Ints
    """[-, 2] For each of them, samples at an edge and next to it, within its tile."""
    distances: Floats
    """[-] How far each is from the edge that it is taken for."""


def list_rulers(node: Node, shape: Sequence[int], parameters: Sequence[Parameters]) -> list[Ruler]:
    """Return where the axes of a node's output are looked at, given what its kernels are built with."""
    found, start = [], 1
    for axis in list_axes(shape):
        granule = _find_granule(node, axis, shape, parameters)
        positions = _list_positions(shape[axis], granule)
        found.append(Ruler(axis=axis, granule=granule, positions=positions, start=start))
        start += found[-1].count
    return found


def list_boxes(shape: Sequence[int], rulers: Sequence[Ruler]) -> tuple[Boxes, Flags]:
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
            edge = int(ruler.positions[_find_middle(len(ruler.positions))])
            end[ruler.tails.stop, ruler.axis] = edge - 1
            begin[ruler.tails.stop + 1, ruler.axis] = edge + 1
    return Boxes(begin, end), is_empty


def list_axes(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the axes that planners may cut: height, channels and batch of images, all of other tensors."""
    axes = (2, 1, 0) if len(shape) == 4 else range(len(shape))
    return tuple(axis for axis in axes if 1 < shape[axis] <= _LONGEST_AXIS)


def _find_granule(node: Node, axis: int, shape: Sequence[int], parameters: Sequence[Parameters]) -> int:
    """Return how many positions kernels compute at once, 1 where the axis is too short for that."""
    is_channel = axis == (1 if len(shape) == 4 else len(shape) - 1)
    granule = 1
    if is_channel:
        granule = lcm(*(_find_panel(one) for one in parameters))
        granule = granule if granule <= _WIDEST_PANEL else max(map(_find_panel, parameters))
    elif len(shape) == 4 and axis == _ROWS:
        granule = getattr(node.op, "tile", (1, 1))[0]
    while granule > 1 and 2 * granule > shape[axis]:
        granule //= 2
    return max(1, granule)


def _find_panel(parameters: Parameters) -> int:
    if "NR" in parameters:
        return parameters["NR"]
    return parameters.get("VECTOR", 8) * parameters.get("VECTORS", 1)


@lru_cache(maxsize=512)
def _list_positions(length: int, granule: int) -> Ints:
    """Return the places of an axis that are predicted, its ends included."""
    if length <= _MOST_POSITIONS:
        return np.arange(length + 1)
    count = -(-length // granule)
    step = granule * -(-count // _MOST_POSITIONS)
    return np.append(np.arange(0, length, step), length)


@lru_cache(maxsize=512)
def _list_sampled(length: int, granule: int) -> frozenset[int]:
    return frozenset(_list_positions(length, granule).tolist())


def _find_middle(count: int) -> int:
    """Return which of so many samples others are next to."""
    return count // 2


@lru_cache(maxsize=512)
def _find_spread(length: int, granule: int, is_complete: bool, is_split: bool) -> Spread:
    if is_complete:
        places, nothing = np.append(np.arange(2 * length + 2), 0), np.zeros(0, np.int64)
        return Spread(
            before=places,
            after=places,
            part=np.zeros(len(places)),
            inside=nothing,
            pairs=nothing.reshape(0, 2),
            distances=np.zeros(0),
        )
    count = len(_list_positions(length, granule))
    (up, up_part), (down, down_part) = (_find_neighbours(length, granule, up) for up in (True, False))
    after = np.concatenate([up, down + count, [0]])
    before = np.concatenate([up - 1, down - 1 + count, [0]])
    full, middle = np.arange(length + 1), _find_middle(count)
    ups = np.minimum(-(-full // granule) * granule, length) - full
    downs = np.where(full == length, 0, full % granule)
    distances = np.concatenate([ups, downs, [0]])
    (inside,) = np.nonzero(distances * is_split)
    pairs = np.where((inside <= length)[:, None], [middle, 2 * count], [middle + count, 2 * count + 1])
    return Spread(
        before=before,
        after=after,
        part=np.concatenate([up_part, down_part, [0.0]]),
        inside=inside,
        pairs=pairs,
        distances=distances[inside].astype(np.float64),
    )


def _find_neighbours(length: int, granule: int, up: bool) -> tuple[Ints, Floats]:
    """Return the sample behind every place, and how far a place is from the one before it."""
    positions = _list_positions(length, granule)
    full = np.arange(length + 1)
    if up:
        full = np.minimum(-(-full // granule) * granule, length)
    else:
        full = np.where(full == length, length, full // granule * granule)
    after = np.clip(np.searchsorted(positions, full), 1, len(positions) - 1)
    before = after - 1
    part = (full - positions[before]) / (positions[after] - positions[before])
    return after, part


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

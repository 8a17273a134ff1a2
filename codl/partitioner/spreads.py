"""Times between the places of an axis that are looked at: what plans are sought by.

Of most images all rows are looked at. Elsewhere the search takes times between some places as linear; what is
found is priced by what is predicted at the very place.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from codl.partitioner.arrays import Floats, Ints

ROWS = 2
"""The axis of images that some kernels compute in tiles."""
_MOST_KNOTS = 48
"""Places along an axis between which times are linear."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Slices from the start to all places, from there to the end, and of nothing: from those looked at.

    At granules' edges, linear between knots. Within a tile of rows times rise as much as in one that is
    looked at; cut between channels it takes as long as to the next edge.
    """

    before: Ints
    """[2 * length + 3] Sample before each place, counted from a ruler's first box."""
    after: Ints
    """As ``before``, the one behind it."""
    part: Floats
    """How far a place is from the one before it to the one behind it, in [0, 1]."""
    is_tiled: bool
    """Whether there are places within tiles of rows; else what follows tells nothing."""
    distances: Floats
    """How far a place within a tile of rows is from the edge that it is taken for; else 0."""
    edges: Ints
    """Sample at an edge by which it is told how times rise within tiles."""
    beside: Ints
    """The one next to it, within its tile."""

    def find_between(self, samples: Floats, places: Ints) -> Floats:
        """Return [device, place, 2] what slices take at some places, given [device, sample, 2]."""
        part = self.part.take(places)[:, None]
        before, after = (samples.take(known.take(places), axis=1) for known in (self.before, self.after))
        found = before * (1 - part) + after * part
        if self.is_tiled:
            edges, beside = (samples.take(known.take(places), axis=1) for known in (self.edges, self.beside))
            found -= (edges - beside) * self.distances.take(places)[:, None]
        return np.maximum(found, 0.0)


@lru_cache(maxsize=512)
def list_knots(length: int, granule: int) -> Ints:
    """Return the places of an axis between which times are linear, its ends included."""
    if length <= _MOST_KNOTS:
        return np.arange(length + 1)
    count = -(-length // granule)
    step = granule * -(-count // _MOST_KNOTS)
    return np.append(np.arange(0, length, step), length)


def find_middle(knots: Ints) -> int:
    """Return the place of a tile's edge that is looked at closely."""
    return int(knots[len(knots) // 2])


@lru_cache(maxsize=512)
def find_spread(length: int, granule: int, *, is_complete: bool, is_tiled: bool) -> Spread:
    """Return how times at the places that are looked at become times at all places of an axis.

    Args:
        length: Of the axis.
        granule: Positions that kernels compute at once.
        is_complete: Whether all places are looked at; else knots.
        is_tiled: Whether granules are tiles of rows, and two more places tell how times rise within them.
    """
    knots = list_knots(length, granule)
    if is_complete or len(knots) == length + 1:
        return _find_same(length)
    count, full = len(knots), np.arange(length + 1)
    up, down = np.minimum(-(-full // granule) * granule, length), full // granule * granule
    down[-1] = length
    edges = np.concatenate([up, down, [0]])
    following = np.minimum(edges // knots[1] + 1, count - 1)
    low, high = knots.take(following - 1), knots.take(following)
    sizes = [len(up), len(down), 1]
    shift = np.repeat([0, count, 0], sizes)
    (middle,) = np.flatnonzero(knots == find_middle(knots)).tolist()
    return Spread(
        before=following - 1 + shift,
        after=following + shift,
        part=(edges - low) / (high - low),
        is_tiled=is_tiled,
        distances=np.concatenate([up - full, full - down, [0.0]]) if is_tiled else np.zeros(len(edges)),
        edges=np.repeat([middle, middle + count, 0], sizes) if is_tiled else shift,
        beside=np.repeat([2 * count, 2 * count + 1, 0], sizes) if is_tiled else shift,
    )


def _find_same(length: int) -> Spread:
    """Return what leaves times as they are: all places are looked at."""
    places = np.append(np.arange(2 * length + 2), 0)
    none = np.zeros(len(places))
    return Spread(
        before=places,
        after=places,
        part=none,
        is_tiled=False,
        distances=none,
        edges=places,
        beside=places,
    )

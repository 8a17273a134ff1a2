"""Times between the places of an axis that are looked at closely: what plans are sought by.

Kernels take their work in steps, so times at neighbouring places differ by where these lie within a step.
Greedy chains that see this are not faster for it: between some places the search takes times as linear. What
is found is priced by what is predicted at the very place.
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
    inside: Ints
    """[-] Places within tiles."""
    pairs: Ints
    """[-, 2] For each of them, samples at an edge and next to it, within its tile."""
    distances: Floats
    """[-] How far each is from the edge that it is taken for."""


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
        is_complete: Whether all places are looked at; else knots, and with tiles two more places.
        is_tiled: Whether granules are tiles of rows.
    """
    knots = list_knots(length, granule)
    if len(knots) == length + 1:
        return _find_same(length)
    count, places = (length + 1, knots) if is_complete else (len(knots), np.arange(len(knots)))
    full, (middle,) = np.arange(length + 1), places[knots == find_middle(knots)]
    up, down = np.minimum(-(-full // granule) * granule, length), full // granule * granule
    down[-1] = length
    edges = np.concatenate([up, down, [0]])
    following = np.minimum(edges // knots[1] + 1, len(knots) - 1)
    low, high = knots.take(following - 1), knots.take(following)
    shift = np.repeat([0, count, 0], [len(up), len(down), 1])
    distances = np.concatenate([up - full, full - down, [0]])
    (inside,) = np.nonzero(distances * is_tiled)
    heads, tails = [middle, 2 * count], [middle + count, 2 * count + 1]
    if is_complete:
        heads, tails = [middle, middle - 1], [middle + count, middle + count + 1]
    return Spread(
        before=places.take(following - 1) + shift,
        after=places.take(following) + shift,
        part=(edges - low) / (high - low),
        inside=inside,
        pairs=np.where((inside <= length)[:, None], heads, tails),
        distances=distances[inside].astype(np.float64),
    )


def _find_same(length: int) -> Spread:
    """Return what leaves times as they are: all places are knots."""
    places, nothing = np.append(np.arange(2 * length + 2), 0), np.zeros(0, np.int64)
    return Spread(
        before=places,
        after=places,
        part=np.zeros(len(places)),
        inside=nothing,
        pairs=nothing.reshape(0, 2),
        distances=np.zeros(0),
    )

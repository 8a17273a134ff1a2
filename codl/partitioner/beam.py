"""Which of all ways to a place are followed further: the best of two rankings."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from codl.partitioner.states import Columns, States
from codl.simulator.arrays import Floats, Ints

BEAM = 8
"""States kept at a place, in each of two rankings: more find nothing that is better by a thousandth."""
_LOOKED_AT = 3
"""As many times as many are looked at, for equal ones among them."""
_FEW = 128
"""So many are sorted at once, which takes no longer than to seek those first that are looked at."""


@dataclass(slots=True)
class Arrivals:
    """Ways to reach a place: arrays over many of them."""

    ways: Floats
    """[device + 4, way] All that is known of each, as in `Columns`."""
    place: int
    """Where they lead to: the position behind the last unit."""
    followed: int | None = None
    """One that is followed further whatever is better."""


class Beam:
    """The ways that are kept at one place.

    Args:
        arrivals: All ways to the place.
        columns: What is known of them.
        width: As how many are kept in each of two rankings.
    """

    def __init__(self, arrivals: Sequence[Arrivals], columns: Columns, *, width: int) -> None:
        self._arrivals, self._columns, self._width = arrivals, columns, width
        self._ways = np.concatenate([one.ways for one in arrivals], axis=1)

    def select(self, states: States) -> tuple[range, int | None]:
        """Add the earliest states, and those with the least work behind them; return where they stand.

        With them comes one that is followed whatever is better, and its place; None where there is none.
        """
        places, start, is_followed = self._find_best(), 0, False
        for one in self._arrivals:
            if one.followed is not None:
                places.append(start + one.followed)
                is_followed = True
            start += one.ways.shape[1]
        columns, ways = self._columns, self._ways.take(places, axis=1)
        # Equal ones are kept once, where they were found first.
        keys = list(
            zip(ways.view(np.int64)[columns.marks].tolist(), *ways[columns.clock].tolist(), strict=True)
        )
        rows = dict(zip(reversed(keys), range(len(keys) - 1, -1, -1), strict=True))
        if len(rows) < len(keys):
            chosen = sorted(rows.values())
            ways = ways.take(chosen, axis=1)
            rows = {keys[place]: row for row, place in enumerate(chosen)}
        kept = states.follow(ways)
        return kept, kept[rows[keys[-1]]] if is_followed else None

    def _find_best(self) -> list[int]:
        """Return as many ways as the beam is wide of each ranking: of equal cuts the first only.

        One device may be ahead for now: a branch is done, and another one is left for the others. So beside
        the earliest those are found that have done the least work.
        """
        clock, marks = self._ways[self._columns.clock], self._ways.view(np.int64)[self._columns.marks]
        work = np.add.reduce(clock, axis=0)
        found: list[int] = []
        for ranking in (np.maximum.reduce(clock, axis=0) + 1e-6 * work, work):
            places, best = self._rank(ranking), dict[int, int]()
            for place, mark in zip(places.tolist(), marks.take(places).tolist(), strict=True):
                if best.setdefault(mark, place) == place and len(best) == self._width:
                    break
            found += best.values()
        return found

    def _rank(self, ranking: Floats) -> Ints:
        """Return the ways that are looked at, those first with the least of what is told of each."""
        many = _LOOKED_AT * self._width
        if len(ranking) <= max(_FEW, many):
            return ranking.argsort(kind="stable")[:many]
        chosen = ranking.argpartition(many - 1)[:many]
        return chosen.take(ranking.take(chosen).argsort(kind="stable"))

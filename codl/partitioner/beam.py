"""Which of all ways to a place are followed further: the best of two rankings."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from codl.partitioner.arrays import Floats
from codl.partitioner.ledger import Words
from codl.partitioner.options import Options
from codl.partitioner.states import Origin, States

BEAM = 8
"""States kept at a place, in each of two rankings: more find nothing that is better by a thousandth."""
_LOOKED_AT = 3
"""As many times as many are looked at, for equal ones among them."""


@dataclass(slots=True)
class Arrivals:
    """Ways to reach a place: arrays over many of them."""

    before: range
    """The states they come from."""
    options: Options
    part: slice
    """Those options that lead here."""
    told: Floats
    """[state, candidate, device + 4] All that is known of each way, in the order of `Columns`."""
    marks: Words
    """[state, candidate] Equal where what is read on is divided alike."""
    state: int | None = None
    """One that is followed further by the last candidate, whatever is better."""

    @property
    def count(self) -> int:
        """Number of ways."""
        return self.marks.size


class Columns:
    """Where it stands what is known of a way.

    Args:
        devices: How many there are.
    """

    def __init__(self, devices: int) -> None:
        self.clock = slice(0, devices)
        """When each device has done what it has to do."""
        self.rankings = (devices, devices + 1)
        """The smaller, the better."""
        self.host_us = devices + 2
        """When the host goes on."""
        self.met = devices + 3
        """Which set of devices the host waits for first, as `MoveCosts` numbers it."""
        self.count = devices + 4


class Beam:
    """The ways that are kept at one place.

    Args:
        arrivals: All ways to the place.
        states: Those of all places before.
        width: As how many are kept in each ranking.
    """

    def __init__(self, arrivals: Sequence[Arrivals], states: States, *, width: int) -> None:
        self._arrivals, self._states = arrivals, states
        self._width, self._columns = width, Columns(states.clock.shape[1])
        self._told = np.concatenate([one.told.reshape(one.count, -1) for one in arrivals])
        self._marks = np.concatenate([one.marks.ravel() for one in arrivals])

    def select(self) -> tuple[range, int | None]:
        """Add the earliest states, and those with the least work behind them; return where they stand.

        With them comes one that is followed whatever is better, and its place; None where there is none.
        """
        found: dict[object, int] = {}
        # One device may be ahead for now: a branch is done, and another one is left for the others.
        for column in self._columns.rankings:
            self._add_best(self._told[:, column], found)
        row, start = None, 0
        for one in self._arrivals:
            if one.state is not None:
                place = start + (one.state - one.before.start + 1) * one.told.shape[1] - 1
                key = self._marks.item(place), *self._told[place, self._columns.clock].tolist()
                found.setdefault(key, place)
                row = list(found).index(key)
            start += one.count
        kept = self._arrive(list(found.values()))
        return kept, None if row is None else kept[row]

    def _add_best(self, ranking: Floats, found: dict[object, int]) -> None:
        """Add as many ways as the beam is wide: the first in a ranking, of equal cuts the first only."""
        width = self._width
        many = _LOOKED_AT * width
        if len(ranking) > many:
            chosen = ranking.argpartition(many - 1)[:many]
            chosen = chosen.take(ranking.take(chosen).argsort(kind="stable"))
        else:
            chosen = ranking.argsort(kind="stable")
        seen: set[int] = set()
        clocks = self._told[chosen, self._columns.clock].tolist()
        marks = self._marks.take(chosen).tolist()
        for place, mark, us in zip(chosen.tolist(), marks, clocks, strict=True):
            if mark in seen:
                continue
            seen.add(mark)
            found.setdefault((mark, *us), place)
            if len(seen) >= width:
                break

    def _arrive(self, places: Sequence[int]) -> range:
        """Add the states that some ways lead to, counted through all arrivals; return where they stand."""
        states, arrivals, ledger = self._states, self._arrivals, self._states.ledger
        starts = list(accumulate([one.count for one in arrivals], initial=0))
        origins: list[Origin] = []
        before, candidates, positions = [], [], []
        for place in places:
            number = bisect_right(starts, place) - 1
            one = arrivals[number]
            index, candidate = divmod(place - starts[number], one.told.shape[1])
            index, candidate = index + one.before.start, candidate + one.part.start
            origins.append((index, one.options, candidate))
            before.append(index)
            candidates.append(candidate + one.options.start)
            positions.append(one.options.first)
        owned = states.owned.take(before, axis=0)
        sent = ledger.sent.take(candidates, axis=0)[:, :, None]
        np.copyto(owned[:, :, 1:], sent, where=ledger.is_any.take(sent[:, :, 0], axis=0))
        published = ledger.published.take(candidates, axis=0)
        is_new = published >= 0
        owned[is_new] = 0
        np.copyto(owned[:, :, 0], published, where=is_new)
        told, columns = self._told.take(places, axis=0), self._columns
        sets = told[:, columns.met, None].astype(np.int64) >> np.arange(states.met.shape[1])
        met = np.where(sets & 1, np.array(positions)[:, None], states.met.take(before, axis=0))
        return states.add(told[:, columns.clock], told[:, columns.host_us], met, owned, origins)

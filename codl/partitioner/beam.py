"""Which of all ways to a place are followed further: the best of two rankings."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from codl.partitioner.arrays import Flags, Floats
from codl.partitioner.ledger import Words
from codl.partitioner.states import States

BEAM = 8
"""States kept at a place, in each of two rankings: more find nothing that is better by a thousandth."""
_LOOKED_AT = 3
"""As many times as many are looked at, for equal ones among them."""


@dataclass(slots=True)
class Arrivals:
    """Ways to reach a place: arrays over many of them."""

    before: range
    """The states they come from."""
    told: Floats
    """[device + 6, state, candidate] All that is known of each way, in the order of `Columns`."""
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
        self.before = devices + 4
        """The state that it comes from."""
        self.candidate = devices + 5
        """What is done then, as the ledger numbers it."""
        self.count = devices + 6


class Beam:
    """The ways that are kept at one place.

    Args:
        arrivals: All ways to the place.
        states: Those of all places before.
        sets: [set, device] Whether the set with a number has a device, as in `MoveCosts`.
        width: As how many are kept in each ranking.
    """

    def __init__(self, arrivals: Sequence[Arrivals], states: States, sets: Flags, *, width: int) -> None:
        self._arrivals, self._states, self._sets = arrivals, states, sets
        self._width, self._columns = width, Columns(states.clock.shape[1])
        self._told = np.concatenate([one.told.reshape(len(one.told), -1) for one in arrivals], axis=1)
        self._marks = np.concatenate([one.marks.ravel() for one in arrivals])

    def select(self) -> tuple[range, int | None]:
        """Add the earliest states, and those with the least work behind them; return where they stand.

        With them comes one that is followed whatever is better, and its place; None where there is none.
        """
        found: dict[object, int] = {}
        # One device may be ahead for now: a branch is done, and another one is left for the others.
        for column in self._columns.rankings:
            self._add_best(self._told[column], found)
        row, start = None, 0
        for one in self._arrivals:
            if one.state is not None:
                place = start + (one.state - one.before.start + 1) * one.told.shape[2] - 1
                key = self._marks.item(place), *self._told[self._columns.clock, place].tolist()
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
        clocks = zip(*self._told[self._columns.clock].take(chosen, axis=1).tolist(), strict=True)
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
        states, columns, told = self._states, self._columns, self._told.take(places, axis=1)
        before, done = (told[column].astype(np.int64) for column in (columns.before, columns.candidate))
        changes = states.ledger.changes.take(done, axis=0)
        owned = np.where(changes < 0, states.owned.take(before, axis=0), changes)
        is_met = self._sets.take(told[columns.met].astype(np.int64), axis=0)
        met = np.where(is_met, states.firsts.take(done)[:, None], states.met.take(before, axis=0))
        clock, host_us = told[columns.clock].T, told[columns.host_us]
        return states.add(clock, host_us, met, owned, before=before, done=done)

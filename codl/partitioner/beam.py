"""Which of all ways to a place are followed further: the best of two rankings."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from codl.partitioner.arrays import Floats, Ints
from codl.partitioner.ledger import Words
from codl.partitioner.options import Options
from codl.partitioner.states import Origin, Seats, States

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
    """[state, candidate, 2 * device + 3] All that is known of each way, in the order of `Columns`."""
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
        self.is_met = slice(devices + 3, 2 * devices + 3)
        """Whether the host waits for each device first: 0 or 1."""
        self.count = 2 * devices + 3


class Beam:
    """The ways that are kept at one place.

    Args:
        arrivals: All ways to the place.
        position: The place.
        states: Those of all places before.
        seats: Which columns tell of which tensors.
        width: As how many are kept in each ranking.
    """

    def __init__(
        self, arrivals: Sequence[Arrivals], position: int, states: States, seats: Seats, *, width: int
    ) -> None:
        self._arrivals, self._position, self._states, self._seats = arrivals, position, states, seats
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
        states, arrivals = self._states, self._arrivals
        starts = np.array(list(accumulate([one.count for one in arrivals], initial=0)))
        numbers = starts.searchsorted(places, side="right") - 1
        facts = np.array(
            [(one.told.shape[1], one.before.start, one.part.start, one.options.first) for one in arrivals]
        )
        widths, firsts, begins, positions = facts.take(numbers, axis=0).T
        index, candidates = np.divmod(np.array(places) - starts.take(numbers), widths)
        before, candidates = index + firsts, candidates + begins
        owned = states.owned.take(before, axis=0)
        options = [arrivals[number].options for number in numbers.tolist()]
        origins: list[Origin] = list(zip(before.tolist(), options, candidates.tolist(), strict=True))
        self._note_reads(owned, numbers.tolist(), candidates)
        published = [
            (way, column, row + candidate)
            for way, (one, candidate) in enumerate(zip(options, candidates.tolist(), strict=True))
            for column, row in one.divisions[one.owners[candidate]]
        ]
        if published:
            way, column, row = np.array(published).T
            owned[way, column] = 0
            owned[way, column, 0] = row
        told, columns = self._told.take(places, axis=0), self._columns
        met = np.where(told[:, columns.is_met] > 0, positions[:, None], states.met.take(before, axis=0))
        return states.add(told[:, columns.clock], told[:, columns.host_us], met, owned, origins)

    def _note_reads(self, owned: Ints, numbers: Sequence[int], candidates: Ints) -> None:
        """Note in what ways own [way, column, 1 + device] what devices are sent by their last steps.

        Args:
            owned: Before them.
            numbers: Of each way's arrivals.
            candidates: What is done.
        """
        seats, last, states = self._seats, self._position - 1, self._states
        reads = {
            number: [
                (seats.columns[name], row)
                for name, row in self._arrivals[number].options.readings.items()
                if seats.last_reads.get(name, -1) > last
            ]
            for number in dict.fromkeys(numbers)
        }
        read = [(way, *one) for way, number in enumerate(numbers) for one in reads[number]]
        if read:
            way, column, row = np.array(read).T
            row = row + candidates.take(way)
            is_any = states.ledger.is_any.take(row, axis=0)
            owned[way, column, 1:] = np.where(is_any, row[:, None], owned[way, column, 1:])

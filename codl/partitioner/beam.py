"""Which of all ways to a place are followed further: the best of two rankings."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from codl.partitioner.ledger import Words
from codl.partitioner.options import Options
from codl.partitioner.positions import Flags, Floats, Ints
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
    clock: Floats
    """[state, candidate, device]"""
    host_us: Floats
    is_met: Flags
    rankings: Sequence[Floats]
    """[state, candidate] each: the smaller, the better."""
    state: int | None = None
    """One that is followed further by the last candidate, whatever is better."""


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
        self._width = width
        self._marks: dict[int, Words] = {}
        """By first state of a place before."""

    def select(self) -> tuple[range, int | None]:
        """Add the earliest states, and those with the least work behind them; return where they stand.

        With them comes one that is followed whatever is better, and its place; None where there is none.
        """
        arrivals = self._arrivals
        marks = np.concatenate([self._mark(one) for one in arrivals])
        clock = np.concatenate([one.clock.reshape(-1, one.clock.shape[2]) for one in arrivals])
        found: dict[object, int] = {}
        # One device may be ahead for now: a branch is done, and another one is left for the others.
        for ranking in zip(*[one.rankings for one in arrivals], strict=True):
            self._add_best(np.concatenate([one.ravel() for one in ranking]), marks, clock, found)
        row, start = None, 0
        for one in arrivals:
            if one.state is not None:
                place = start + (one.state - one.before.start + 1) * one.host_us.shape[1] - 1
                key = marks.item(place), *clock[place].tolist()
                found.setdefault(key, place)
                row = list(found).index(key)
            start += one.host_us.size
        kept = self._arrive(list(found.values()), clock)
        return kept, None if row is None else kept[row]

    def _mark(self, arrival: Arrivals) -> Words:
        """Return a number for all ways of some arrivals: equal where what is read on is divided alike."""
        before, ledger = arrival.before, self._states.ledger
        mine = self._marks.get(before.start)
        if mine is None:
            columns = self._seats.list_live(arrival.options.first, self._position - 1)
            if columns:
                rows = self._states.owned[before.start : before.stop, columns, 0]
                mine = np.add.reduce(ledger.marks.take(rows), axis=1)[:, None]
            else:
                mine = np.zeros((len(before), 1), np.uint64)
            self._marks[before.start] = mine
        return (mine + arrival.options.marks[arrival.part]).ravel()

    def _add_best(self, ranking: Floats, marks: Words, clock: Floats, found: dict[object, int]) -> None:
        """Add as many ways as the beam is wide: the first in a ranking, of equal cuts the first only."""
        width = self._width
        many = _LOOKED_AT * width
        if len(ranking) > many:
            chosen = ranking.argpartition(many - 1)[:many]
            chosen = chosen.take(ranking.take(chosen).argsort(kind="stable"))
        else:
            chosen = ranking.argsort(kind="stable")
        seen: set[int] = set()
        clocks = clock.take(chosen, axis=0).tolist()
        for place, mark, us in zip(chosen.tolist(), marks.take(chosen).tolist(), clocks, strict=True):
            if mark in seen:
                continue
            seen.add(mark)
            found.setdefault((mark, *us), place)
            if len(seen) >= width:
                break

    def _arrive(self, places: Sequence[int], clock: Floats) -> range:
        """Add the states that some ways lead to, counted through all arrivals; return where they stand."""
        states, arrivals = self._states, self._arrivals
        starts = np.cumsum([0, *[one.host_us.size for one in arrivals]])
        numbers = starts.searchsorted(places, side="right") - 1
        facts = np.array(
            [(one.host_us.shape[1], one.before.start, one.part.start, one.options.first) for one in arrivals]
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
        host_us = np.concatenate([one.host_us.ravel() for one in arrivals]).take(places)
        is_met = np.concatenate([one.is_met.reshape(-1, clock.shape[1]) for one in arrivals])
        met = np.where(is_met.take(places, axis=0), positions[:, None], states.met.take(before, axis=0))
        return states.add(clock.take(places, axis=0), host_us, met, owned, origins)

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

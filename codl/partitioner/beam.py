"""Which of all ways to a place are followed further: the best of two rankings."""

from bisect import bisect_right
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

import numpy as np

from codl.partitioner.options import Options
from codl.partitioner.positions import Flags, Floats
from codl.partitioner.states import Choice, Owned, State, count_devices, own, send

T = TypeVar("T")
BEAM = 8
"""States kept at a place, in each of two rankings: more find nothing that is better by a thousandth."""
_LOOKED_AT = 3
"""As many times as many are looked at, for equal ones among them."""


@dataclass(slots=True)
class Arrivals:
    """Ways to reach a place: arrays over many of them."""

    states: Sequence[State]
    options: Options
    part: slice
    """Those options that lead here."""
    clock: Floats
    """[state, candidate, device]"""
    host_us: Floats
    is_met: Flags
    rankings: Sequence[Floats]
    """[state, candidate] each: the smaller, the better."""
    row: int | None = None
    """A state that is followed further by the only candidate, whatever is better."""

    def list_tensors(self) -> set[str]:
        """Return the tensors that devices have on the way, and those that the options publish."""
        batch = self.options.batches[self.options.owners[self.part.start]]
        return {*self.states[0].owned, *batch.bounds}


@dataclass(slots=True)
class _Step:
    """What ways over one candidate have in common."""

    choice: Choice
    reads: Sequence[tuple[str, int, Sequence[int], Sequence[int]]]
    """Tensor, axis and each device's interval."""
    owned: dict[str, Owned]
    """What the step publishes for those behind the place."""
    cuts: dict[str, int]
    """How that is divided."""
    key: tuple[int, ...]


class _Origins:
    """What ways from the states of one place have in common.

    Args:
        states: At least one; all have the same tensors.
        live: Tensors that are read behind the place that the ways lead to.
    """

    def __init__(self, states: Sequence[State], live: Container[str]) -> None:
        names = [name for name in states[0].cuts if name in live]
        self._is_all, self.names = len(names) == len(states[0].cuts), names
        self.keys: list[tuple[int, ...]] = (
            [tuple(state.cuts.values()) for state in states]
            if self._is_all
            else [tuple([state.cuts[name] for name in names]) for state in states]
        )

    def take(self, known: Mapping[str, T]) -> dict[str, T]:
        """Return what is known of the tensors that are read behind the place."""
        return dict(known) if self._is_all else {name: known[name] for name in self.names}


class Beam:
    """The ways that are kept at one place.

    Args:
        arrivals: All ways to the place.
        live: Tensors that are read behind it.
        width: As how many are kept in each ranking.
        numbers: Of what states have in common, for all places: numbers are compared faster.
    """

    def __init__(
        self, arrivals: Sequence[Arrivals], live: Container[str], *, width: int, numbers: dict[object, int]
    ) -> None:
        self._arrivals, self._live, self._width, self._numbers = arrivals, live, width, numbers
        self._starts = [0, *accumulate(arrival.host_us.size for arrival in arrivals)]
        origins: dict[int, _Origins] = {}
        for arrival in arrivals:
            place = id(arrival.states)
            if place not in origins:
                origins[place] = _Origins(arrival.states, live)
        self._origins = [origins[id(arrival.states)] for arrival in arrivals]
        self._steps: dict[tuple[int, int], _Step] = {}
        self._found: dict[object, State] = {}

    def select(self) -> tuple[list[State], int | None]:
        """Return the earliest states, and those with the least work behind them.

        With them comes one that is followed whatever is better, and its place; None where there is none.
        """
        # One device may be ahead for now: a branch is done, and another one is left for the others.
        for rankings in zip(*(arrival.rankings for arrival in self._arrivals), strict=True):
            self._add_best(np.concatenate([ranking.ravel() for ranking in rankings]))
        row = None
        for number, arrival in enumerate(self._arrivals):
            if arrival.row is not None:
                key = self._add(number, arrival.row, 0)
                row = list(self._found).index(key)
        return list(self._found.values()), row

    def _add_best(self, ranking: Floats) -> None:
        """Add as many states as the beam is wide: the first in a ranking, of equal cuts the first only."""
        starts, width = self._starts, self._width
        seen: set[object] = set()
        many = _LOOKED_AT * width
        if len(ranking) > many:
            chosen = ranking.argpartition(many - 1)[:many]
            chosen = chosen[ranking[chosen].argsort(kind="stable")]
        else:
            chosen = ranking.argsort(kind="stable")
        for place in chosen.tolist():
            number = bisect_right(starts, place) - 1
            index, candidate = divmod(place - starts[number], self._arrivals[number].host_us.shape[1])
            key = self._find_step(number, candidate).key, self._origins[number].keys[index]
            if key in seen:
                continue
            seen.add(key)
            self._add(number, index, candidate)
            if len(seen) >= width:
                break

    def _add(self, number: int, index: int, candidate: int) -> object:
        """Add where a candidate leads to from a state of some arrivals; return what it is known by."""
        arrival, origins, step = (
            self._arrivals[number],
            self._origins[number],
            self._find_step(number, candidate),
        )
        clock = tuple(arrival.clock[index, candidate].tolist())
        key = step.key, origins.keys[index], clock
        if key not in self._found:
            self._found[key] = _arrive(arrival, index, candidate, clock, origins=origins, step=step)
        return key

    def _find_step(self, number: int, candidate: int) -> _Step:
        step = self._steps.get((number, candidate))
        if step is None:
            arrival = self._arrivals[number]
            step = self._make_step(arrival.options, arrival.part.start + candidate)
            self._steps[number, candidate] = step
        return step

    def _make_step(self, options: Options, place: int) -> _Step:
        batch, index = options.batches[options.owners[place]], options.indices[place]
        live = self._live
        owned = {
            name: own(batch.axis, bounds[index].tolist(), since=batch.first)
            for name, bounds in batch.bounds.items()
            if name in live
        }
        cuts = {name: self._number((name, one[: 1 + 2 * count_devices(one)])) for name, one in owned.items()}
        return _Step(
            choice=Choice(first=batch.first, last=batch.last, batch=batch, index=index),
            reads=[
                (name, reading.axis, reading.low[index].tolist(), reading.high[index].tolist())
                for name, reading in batch.reads.items()
                if name in live
            ],
            owned=owned,
            cuts=cuts,
            key=tuple(cuts.values()),
        )

    def _number(self, key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def _arrive(
    arrival: Arrivals,
    index: int,
    candidate: int,
    clock: tuple[float, ...],
    *,
    origins: _Origins,
    step: _Step,
) -> State:
    before, first = arrival.states[index], step.choice.first
    known = before.owned
    owned = origins.take(known)
    owned.update(step.owned)
    for name, axis, lows, highs in step.reads:
        if name in origins.names:
            owned[name] = send(known[name], axis, lows, highs)
    cuts = origins.take(before.cuts)
    cuts.update(step.cuts)
    met, is_met = before.met, arrival.is_met[index, candidate].tolist()
    if True in is_met:
        met = tuple([first if now else then for now, then in zip(is_met, met, strict=True)])
    return State(
        clock=clock,
        host_us=arrival.host_us.item(index, candidate),
        met=met,
        owned=owned,
        cuts=cuts,
        before=before,
        choice=step.choice,
    )

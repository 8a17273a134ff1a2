"""Which of all ways to a place are followed further: the best of two rankings."""

from bisect import bisect_right
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from codl.partitioner.options import Options
from codl.partitioner.positions import Flags, Floats
from codl.partitioner.states import Choice, Owned, State, count_devices, own, send

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

    def list_tensors(self) -> set[str]:
        """Return the tensors that devices have on the way, and those that the options publish."""
        batch = self.options.batches[self.options.owners[self.part.start]]
        return {*self.states[0].owned, *batch.bounds}


@dataclass(slots=True)
class _Origin:
    """What ways from one state have in common."""

    cuts: dict[str, int]
    """Of tensors that are read behind the place, as `State` has them."""
    key: int


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
    key: int


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
        self._origins: dict[int, _Origin] = {}
        self._steps: dict[tuple[int, int], _Step] = {}
        self._found: dict[object, State] = {}

    def select(self) -> list[State]:
        """Return the earliest states, and those with the least work behind them."""
        # One device may be ahead for now: a branch is done, and another one is left for the others.
        for rankings in zip(*(arrival.rankings for arrival in self._arrivals), strict=True):
            self._add_best(np.concatenate([ranking.ravel() for ranking in rankings]))
        return list(self._found.values())

    def _add_best(self, ranking: Floats) -> None:
        """Add as many states as the beam is wide: the first in a ranking, of equal cuts the first only."""
        seen: set[tuple[int, int]] = set()
        many = min(len(ranking), _LOOKED_AT * self._width)
        ranked = np.argpartition(ranking, many - 1)[:many]
        ranked = ranked[np.argsort(ranking[ranked], kind="stable")]
        for place in ranked.tolist():
            number = bisect_right(self._starts, place) - 1
            arrival = self._arrivals[number]
            index, candidate = divmod(place - self._starts[number], arrival.host_us.shape[1])
            origin = self._origins.get(id(arrival.states[index])) or self._note_origin(arrival.states[index])
            step = self._steps.get((number, candidate)) or self._note_step(number, candidate)
            key = step.key, origin.key
            if key in seen:
                continue
            seen.add(key)
            clock = tuple(arrival.clock[index, candidate].tolist())
            if (key, clock) not in self._found:
                self._found[key, clock] = _arrive(arrival, index, candidate, clock, origin=origin, step=step)
            if len(seen) >= self._width:
                break

    def _note_origin(self, state: State) -> _Origin:
        live = self._live
        cuts = {name: cut for name, cut in state.cuts.items() if name in live}
        origin = self._origins[id(state)] = _Origin(cuts, self._number(tuple(cuts.values())))
        return origin

    def _note_step(self, number: int, candidate: int) -> _Step:
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
            key=self._number(tuple(cuts.values())),
        )

    def _number(self, key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def _arrive(
    arrival: Arrivals,
    index: int,
    candidate: int,
    clock: tuple[float, ...],
    *,
    origin: _Origin,
    step: _Step,
) -> State:
    before, first = arrival.states[index], step.choice.first
    known = before.owned
    owned = {name: known[name] for name in origin.cuts} | step.owned
    for name, axis, lows, highs in step.reads:
        if name in origin.cuts:
            owned[name] = send(known[name], axis, lows, highs)
    is_met = arrival.is_met[index, candidate].tolist()
    return State(
        clock=clock,
        host_us=float(arrival.host_us[index, candidate]),
        met=tuple([first if now else then for now, then in zip(is_met, before.met, strict=True)]),
        owned=owned,
        cuts=origin.cuts | step.cuts,
        before=before,
        choice=step.choice,
    )

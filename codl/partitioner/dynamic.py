"""Dynamic programming over the topological order: states are how the tensors that are still read are cut.

Each state keeps the clock of every device, so that a step which needs nothing from others costs no meeting,
and devices run ahead of each other as they do in a run. Of states with equal cuts the earliest is kept, of
all states at a place as many as the beam is wide, and as many with the least work: where branches are
independent, one device may be ahead while the other still has its branch to do.

Source:
    AdaOper (2024) partitions operators by dynamic programming; chains, halos and residuals are CoDL's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from codl.ir.graph import FLOAT_BYTES, Graph
from codl.partitioner.chains import WHOLE, ChainBatch, ChainFinder, Reading, make_single
from codl.partitioner.moves import MoveCosts
from codl.partitioner.order import Unit
from codl.partitioner.tables import Floats, Ints

BEAM = 8
"""States kept at a place, in each of two rankings: more find nothing that is better by a thousandth."""
_LOOKED_AT = 3
"""As many times as many are looked at, for equal ones among them."""
_BEST_CUTS = 6
"""Candidates of a chain: those that take least by themselves."""
_SPREAD = 1.3
"""Candidates that take longer than the best one by more than this are dropped."""


@dataclass(frozen=True, slots=True)
class Owned:
    """How a tensor is divided among the devices."""

    axis: int
    low: tuple[int, ...]
    high: tuple[int, ...]
    since: int
    """Position of the step that published it."""
    sent: tuple[tuple[int, int, int], ...]
    """By device, axis and interval of what it was sent last; an empty interval at first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What becomes of a stretch of units: one candidate of a batch; no batch for the host's."""

    first: int
    last: int
    batch: ChainBatch | None
    index: int


@dataclass(frozen=True, slots=True)
class State:
    """All that matters of how a place was reached."""

    clock: tuple[float, ...]
    """When each device has done what it has to do."""
    host_us: float
    """When the host went on last."""
    met: tuple[int, ...]
    """By device, position of the step before which the host waited for it last."""
    owned: Mapping[str, Owned] = field(repr=False)
    """Tensors still read, those from the host left out."""
    before: "State | None" = field(repr=False)
    choice: Choice | None = field(repr=False)

    @property
    def span_us(self) -> float:
        """When the last device is done."""
        return max(self.clock)

    def list_choices(self) -> list[Choice]:
        """Return what was chosen, from the start."""
        found: list[Choice] = []
        state: State | None = self
        while state is not None and state.choice is not None:
            found.append(state.choice)
            state = state.before
        return found[::-1]


@dataclass(slots=True)
class _Arrivals:
    """Ways to reach a place: arrays over many of them."""

    states: Sequence[State]
    batch: ChainBatch
    clock: Floats
    """[state, candidate, device]"""
    host_us: Floats
    is_met: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


class DynamicProgram:
    """Finds the fastest ways through a network.

    Args:
        graph: The network.
        order: Its units in the order in which they are decided.
        finder: What chains cost.
        moves: What transfers and meetings cost.
        devices: How many there are.
        beam: States kept at a place.
    """

    def __init__(
        self,
        graph: Graph,
        order: Sequence[Unit],
        finder: ChainFinder,
        moves: MoveCosts,
        *,
        devices: int,
        beam: int = BEAM,
    ) -> None:
        self._graph, self._order, self._finder, self._moves = graph, tuple(order), finder, moves
        self._devices, self._beam = devices, beam
        self._arrivals: list[list[_Arrivals]] = [[] for _ in range(len(order) + 1)]
        self._from_host = set(graph.inputs) | {
            node.output for unit in order if unit.is_host for node in unit.nodes
        }

    def run(self, chains: Mapping[int, Sequence[ChainBatch]], *, best: int = 3) -> list[State]:
        """Return the states at the end that take least, the fastest first.

        Args:
            chains: By position of the head, the chains that may begin there.
            best: Most states to return.
        """
        nobody = (0.0,) * self._devices
        states = [
            State(clock=nobody, host_us=0.0, met=(-1,) * self._devices, owned={}, before=None, choice=None)
        ]
        for position, unit in enumerate(self._order):
            if unit.is_host:
                states = [self._call(state, position) for state in states]
            else:
                self._expand(states, position, chains.get(position, ()))
                states = self._select(position + 1)
        return sorted(states, key=self.find_end_us)[:best]

    def find_end_us(self, state: State) -> float:
        """Return when the host has all outputs that a state at the end leads to."""
        awaited = np.array(
            [met < 0 or clock > state.host_us for met, clock in zip(state.met, state.clock, strict=True)]
        )
        awaited &= np.array(state.clock) > 0
        end_us = state.span_us + float(self._moves.find_meeting_us(awaited[None])[0])
        for name in self._graph.outputs:
            one = state.owned.get(name)
            if one is None:
                continue
            length = self._find_lengths(name, np.array([one.axis]))
            for device in range(self._devices):
                part = np.array([[max(0, one.high[device] - one.low[device])]]) / length
                if part[0, 0] > 0:
                    axes = np.array([one.axis])
                    amounts = self._count_amounts(name, part, axes, axes)[0, 0]
                    end_us += float(amounts @ self._moves.reading_us[device])
        return end_us

    def follow(self, choices: Sequence[Choice]) -> State:
        """Return the state at the end of a way that is chosen already."""
        nobody = (0.0,) * self._devices
        state = State(
            clock=nobody, host_us=0.0, met=(-1,) * self._devices, owned={}, before=None, choice=None
        )
        for choice in choices:
            if choice.batch is None:
                state = self._call(state, choice.first)
                continue
            only = choice.batch.choose(np.array([choice.index]))
            self._note_arrivals([state], [only])
            (state,) = self._select(choice.last + 1)
        return state

    def _expand(self, states: Sequence[State], position: int, chains: Sequence[ChainBatch]) -> None:
        """Note all that a stretch from here may become."""
        single = make_single(self._graph, self._order, self._finder, position)
        self._note_arrivals(states, [single, *chains])

    def _note_arrivals(self, states: Sequence[State], batches: Sequence[ChainBatch]) -> None:
        """Note where some ways lead to from some states."""
        busy = np.concatenate([batch.busy_us for batch in batches])
        clock = np.array([state.clock for state in states])
        host = np.array([state.host_us for state in states])
        awaited, moving, queued = self._find_moves(states, batches, len(busy))
        is_any = awaited.any(axis=2)
        if is_any.any():
            ends = np.where(awaited, clock[:, None, :], 0.0).max(axis=2)
            host_us = np.maximum(host[:, None], ends) + self._moves.find_meeting_us(awaited)
            host_us = np.where(is_any, host_us, host[:, None])
        else:
            host_us = np.broadcast_to(host[:, None], is_any.shape)
        host_us = host_us + moving
        load = busy[None] + queued
        ends = np.where(
            load > 0, np.maximum(clock[:, None, :], host_us[:, :, None]) + load, clock[:, None, :]
        )
        start = 0
        for batch in batches:
            part = slice(start, start + len(batch.busy_us))
            start = part.stop
            self._arrivals[batch.last + 1].append(
                _Arrivals(
                    states=states,
                    batch=batch,
                    clock=ends[:, part],
                    host_us=host_us[:, part],
                    is_met=awaited[:, part],
                )
            )

    def _find_moves(
        self, states: Sequence[State], batches: Sequence[ChainBatch], count: int
    ) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.bool_]], Floats, Floats]:
        """Return who is waited for, and what it takes the host and the queues to move what is missing.

        They are [state, candidate, device], [state, candidate] and [state, candidate, device].
        """
        awaited = np.zeros((len(states), count, self._devices), bool)
        moving = np.zeros((len(states), count))
        queued = np.zeros((len(states), count, self._devices))
        is_busy = np.array([[clock > state.host_us for clock in state.clock] for state in states])
        for tensor in dict.fromkeys(name for batch in batches for name in batch.reads):
            axes, low, high = self._gather_need(tensor, batches, count)
            if tensor in self._from_host:
                self._bring_from_host(tensor, low, high, axes, queued)
                continue
            owned = [state.owned[tensor] for state in states]
            own_axes = np.array([one.axis for one in owned])
            own_low, own_high = (np.array([getattr(one, edge) for one in owned]) for edge in ("low", "high"))
            unmet = np.array(
                [[met <= one.since for met in state.met] for state, one in zip(states, owned, strict=True)]
            )
            is_same = own_axes[:, None] == axes[None, :]
            sent = np.array([one.sent for one in owned])
            is_there = (
                (sent[:, None, :, 0] == axes[None, :, None])
                & (sent[:, None, :, 1] <= low[None])
                & (sent[:, None, :, 2] >= high[None])
            )
            for source in range(self._devices):
                if not (own_high[:, source] > own_low[:, source]).any():
                    continue
                for target in range(self._devices):
                    if target == source:
                        continue
                    common = np.minimum(own_high[:, None, source], high[None, :, target]) - np.maximum(
                        own_low[:, None, source], low[None, :, target]
                    )
                    crosses = (own_high[:, source] > own_low[:, source])[:, None] & (
                        high[:, target] > low[:, target]
                    )[None, :]
                    crosses &= (~is_same | (common > 0)) & ~is_there[:, :, target]
                    awaited[:, :, source] |= crosses & unmet[:, None, source]
                    if self._moves.is_free:
                        continue
                    parts = self._measure(
                        tensor,
                        (own_axes, own_high[:, source] - own_low[:, source]),
                        (axes, high[:, target] - low[:, target]),
                    )
                    lengths = self._find_lengths(tensor, axes)
                    parts = np.where(is_same, np.maximum(common, 0) / lengths[None, :], parts)
                    amounts = self._count_amounts(tensor, parts, own_axes, axes)
                    moving += np.where(crosses, amounts @ self._moves.host_us[source, target], 0.0)
                    queued[:, :, target] += np.where(
                        crosses, amounts @ self._moves.queue_us[source, target], 0.0
                    )
                    awaited |= crosses[:, :, None] & (self._moves.held[source, target] & is_busy)[:, None, :]
        return awaited, moving, queued

    def _gather_need(self, tensor: str, batches: Sequence[ChainBatch], count: int) -> tuple[Ints, Ints, Ints]:
        """Return the axis [candidate] and the intervals [candidate, device] of what is read of a tensor."""
        axes = np.full(count, WHOLE, np.int64)
        low, high = np.zeros((2, count, self._devices), np.int64)
        start = 0
        for batch in batches:
            stop = start + len(batch.busy_us)
            reading = batch.reads.get(tensor)
            if reading is not None:
                axes[start:stop] = reading.axis
                low[start:stop], high[start:stop] = reading.low, reading.high
            start = stop
        return axes, low, high

    def _bring_from_host(self, tensor: str, low: Ints, high: Ints, axes: Ints, queued: Floats) -> None:
        """Add what it costs that devices are sent what the host has."""
        if self._moves.is_free:
            return
        lengths = self._find_lengths(tensor, axes)
        for target in range(self._devices):
            part = np.maximum(high[:, target] - low[:, target], 0) / lengths
            amounts = self._count_amounts(tensor, part[None, :], axes[:1] * 0 + WHOLE, axes)
            us = amounts @ self._moves.queue_us[self._devices, target]
            queued[:, :, target] += np.where(part > 0, us, 0.0)

    def _measure(self, tensor: str, own: tuple[Ints, Ints], need: tuple[Ints, Ints]) -> Floats:
        """Return [state, candidate] which share of a tensor lies in both intervals, of different axes."""
        parts = [np.maximum(extent, 0) / self._find_lengths(tensor, axes) for axes, extent in (own, need)]
        return np.asarray(parts[0][:, None] * parts[1][None, :])

    def _count_amounts(self, tensor: str, parts: Floats, own_axes: Ints, axes: Ints) -> Floats:
        """Return [state, candidate, 3] transfers, bytes, and runs of neighbouring bytes."""
        shape = self._graph.shape(tensor)
        size = float(np.prod(shape, dtype=np.float64))
        runs = size / shape[1] if len(shape) == 4 else 1.0
        is_apart = (
            (own_axes == 1)[:, None] | (axes == 1)[None, :] if len(shape) == 4 else np.zeros_like(parts)
        )
        return np.stack(
            [np.ones_like(parts), parts * size * FLOAT_BYTES, np.where(is_apart, runs, 1.0)], axis=2
        )

    def _find_lengths(self, tensor: str, axes: Ints) -> Ints:
        """Return the length of each axis, 1 where a tensor is taken whole."""
        assert WHOLE == -1
        return np.array([*self._graph.shape(tensor), 1])[axes]

    def _select(self, position: int) -> list[State]:
        """Return the states at a place: the earliest, and those with the least work behind them."""
        arrivals = self._arrivals[position]
        self._arrivals[position] = []
        spans = np.concatenate([arrival.clock.max(axis=2).ravel() for arrival in arrivals])
        works = np.concatenate([arrival.clock.sum(axis=2).ravel() for arrival in arrivals])
        starts = np.cumsum([0, *(arrival.clock[:, :, 0].size for arrival in arrivals)])
        found: dict[object, State] = {}
        # One device may be ahead for now: a branch is done, and another one is left for the others.
        self._add_best(spans + 1e-6 * works, starts, arrivals, position, found=found)
        self._add_best(works, starts, arrivals, position, found=found)
        return list(found.values())

    def _add_best(
        self,
        ranking: Floats,
        starts: Ints,
        arrivals: Sequence[_Arrivals],
        position: int,
        *,
        found: dict[object, State],
    ) -> None:
        """Add as many states as the beam is wide: the first in a ranking, of equal cuts the first only."""
        seen: set[object] = set()
        many = min(len(ranking), _LOOKED_AT * self._beam)
        ranked = np.argpartition(ranking, many - 1)[:many]
        ranked = ranked[np.argsort(ranking[ranked], kind="stable")]
        for place in ranked.tolist():
            which = int(np.searchsorted(starts, place, side="right")) - 1
            arrival = arrivals[which]
            index, candidate = divmod(place - int(starts[which]), arrival.clock.shape[1])
            key = self._find_key(arrival, index, candidate, position)
            if key not in seen:
                seen.add(key)
                clock = tuple(arrival.clock[index, candidate].tolist())
                if (key, clock) not in found:
                    found[key, clock] = self._arrive(arrival, index, candidate, position)
                if len(seen) >= self._beam:
                    break

    def _find_key(self, arrival: _Arrivals, index: int, candidate: int, position: int) -> object:
        """Return what states have in common whose tensors that are still read are cut alike."""
        batch = arrival.batch
        live = [name for name in batch.bounds if self._finder.is_published(name, position - 1)]
        return (
            batch.axis,
            tuple((name, batch.bounds[name][candidate].tobytes()) for name in live),
            tuple(
                (name, one.axis, one.low, one.high)
                for name, one in arrival.states[index].owned.items()
                if self._finder.is_published(name, position - 1)
            ),
        )

    def _arrive(self, arrival: _Arrivals, index: int, candidate: int, position: int) -> State:
        before, batch = arrival.states[index], arrival.batch
        is_met = arrival.is_met[index, candidate].tolist()
        owned = {
            name: one for name, one in before.owned.items() if self._finder.is_published(name, position - 1)
        }
        for name, reading in batch.reads.items():
            if name in owned:
                owned[name] = _send(owned[name], reading, candidate)
        for name, bounds in batch.bounds.items():
            if self._finder.is_published(name, position - 1):
                edges = tuple(bounds[candidate].tolist())
                nothing = ((WHOLE, 0, 0),) * self._devices
                owned[name] = Owned(batch.axis, edges[:-1], edges[1:], batch.first, nothing)
        return State(
            clock=tuple(arrival.clock[index, candidate].tolist()),
            host_us=float(arrival.host_us[index, candidate]),
            met=tuple(batch.first if now else then for now, then in zip(is_met, before.met, strict=True)),
            owned=owned,
            before=before,
            choice=Choice(first=batch.first, last=batch.last, batch=batch, index=candidate),
        )

    def _call(self, state: State, position: int) -> State:
        """Return the state behind a step of the host, which waits for all whose results it reads."""
        names = {name for node in self._order[position].nodes for name in node.inputs}
        ends = [
            state.clock[device]
            for name in names & set(state.owned)
            for device in range(self._devices)
            if state.owned[name].high[device] > state.owned[name].low[device]
        ]
        return State(
            clock=state.clock,
            host_us=max([state.host_us, *ends]),
            met=state.met,
            owned=state.owned,
            before=state,
            choice=Choice(first=position, last=position, batch=None, index=0),
        )


def _send(owned: Owned, reading: Reading, candidate: int) -> Owned:
    """Return who has what of a tensor after a step has read it."""
    lows, highs = reading.low[candidate].tolist(), reading.high[candidate].tolist()
    sent = tuple(
        (reading.axis, low, high) if high > low else before
        for low, high, before in zip(lows, highs, owned.sent, strict=True)
    )
    return replace(owned, sent=sent)


def choose_candidates(batch: ChainBatch) -> ChainBatch:
    """Return the candidates of a chain that take least by themselves."""
    span = batch.span_us
    places = np.argsort(span, kind="stable")[:_BEST_CUTS]
    return batch.choose(places[span[places] <= _SPREAD * span[places[0]]])

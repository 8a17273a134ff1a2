"""Dynamic programming over the topological order: states are how the tensors that are still read are cut.

Each state keeps the clock of every device, so that a step which needs nothing from others costs no meeting,
and devices run ahead of each other as they do in a run. Of states with equal cuts the earliest is kept, of
all states at a place as many as the beam is wide, and as many with the least work: where branches are
independent, one device may be ahead while the other still has its branch to do.

Source:
    AdaOper (2024) partitions operators by dynamic programming; chains, halos and residuals are CoDL's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from codl.ir.graph import FLOAT_BYTES, Graph
from codl.partitioner.beam import BEAM, Arrivals, Beam
from codl.partitioner.chains import WHOLE, ChainBatch
from codl.partitioner.finder import ChainFinder
from codl.partitioner.moves import MoveCosts
from codl.partitioner.options import NO_LIMITS, Demand, Limits, Options, make_only_option, make_options
from codl.partitioner.order import Unit
from codl.partitioner.positions import Flags, Floats, Ints
from codl.partitioner.states import Choice, State, list_parts


@dataclass(frozen=True, slots=True)
class _Crossing:
    """What devices read of a tensor that others have."""

    rows: Ints
    """[state, ...] How the tensor is divided, as `Owned`."""
    order: Ints
    """[source] Who reads from each."""
    crosses: Flags
    """[state, candidate, source] Whether something is sent."""
    common: Ints
    """[state, candidate, source] How much of it lies along a common axis."""


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
        self._arrivals: list[list[Arrivals]] = [[] for _ in range(len(order) + 1)]
        self._numbers: dict[object, int] = {}
        """Of what states have in common."""
        self._from_host = set(graph.inputs) | {
            node.output for unit in order if unit.is_host for node in unit.nodes
        }

    def run(
        self,
        chains: Mapping[int, Sequence[ChainBatch]],
        singles: Mapping[int, ChainBatch],
        *,
        limits_us: Limits = NO_LIMITS,
        best: int = 3,
    ) -> list[State]:
        """Return the states at the end that take least, the fastest first.

        Args:
            chains: By position of the head, the chains that may begin there.
            singles: By position, what runs an operator whole; none for the host's.
            limits_us: By first and last position, what no candidate of a chain may take longer than.
            best: Most states to return.
        """
        heads = [[single, *chains.get(place, ())] for place, single in singles.items()]
        options = dict(zip(singles, make_options(heads, limits_us), strict=True))
        states = [self._begin()]
        for position, unit in enumerate(self._order):
            if unit.is_host:
                states = [self._call(state, position) for state in states]
            else:
                self._note_arrivals(states, options[position])
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
            axes = np.array([one[0]])
            length = self._find_lengths(name, axes)
            for device, (low, high) in enumerate(list_parts(one)):
                part = np.array([[max(0, high - low)]]) / length
                if part[0, 0] > 0:
                    amounts = self._count_amounts(name, part, axes, axes)
                    end_us += _price(amounts, self._moves.reading_us[device]).item()
        return end_us

    def follow(self, choices: Sequence[Choice]) -> State:
        """Return the state at the end of a way that is chosen already."""
        state = self._begin()
        for choice in choices:
            if choice.batch is None:
                state = self._call(state, choice.first)
                continue
            self._note_arrivals([state], make_only_option(choice.batch, choice.index))
            (state,) = self._select(choice.last + 1)
        return state

    def _begin(self) -> State:
        """Return the state before the first unit: nobody has done anything."""
        count = self._devices
        return State(
            clock=(0.0,) * count, host_us=0.0, met=(-1,) * count, owned={}, cuts={}, before=None, choice=None
        )

    def _note_arrivals(self, states: Sequence[State], options: Options) -> None:
        """Note where some ways lead to from some states."""
        facts = np.array([(state.host_us, *state.clock, *state.met) for state in states])
        host_us, before = facts[:, :1], facts[:, None, 1 : 1 + self._devices]
        awaited, moving, queued = self._find_moves(states, options, facts[:, 1 + self._devices :])
        meeting_us = self._moves.find_meeting_us(awaited)
        ends = np.where(awaited, before, 0.0)
        latest = reduce(np.maximum, [ends[:, :, device] for device in range(self._devices)])
        is_any = reduce(np.logical_or, [awaited[:, :, device] for device in range(self._devices)])
        host_us = np.where(is_any, np.maximum(host_us, latest) + meeting_us, host_us)
        load = options.busy_us[None]
        if moving is not None and queued is not None:
            host_us = host_us + moving
            load = load + queued
        ends = np.where(load > 0, np.maximum(before, host_us[:, :, None]) + load, before)
        devices = [ends[:, :, device] for device in range(self._devices)]
        work = reduce(np.add, devices)
        rankings = reduce(np.maximum, devices) + 1e-6 * work, work
        for last, part in options.parts:
            self._arrivals[last + 1].append(
                Arrivals(
                    states=states,
                    options=options,
                    part=part,
                    clock=ends[:, part],
                    host_us=host_us[:, part],
                    is_met=awaited[:, part],
                    rankings=[ranking[:, part] for ranking in rankings],
                )
            )

    def _find_moves(
        self, states: Sequence[State], options: Options, met: Floats
    ) -> tuple[Flags, Floats | None, Floats | None]:
        """Return who is waited for, and what it takes the host and the queues to move what is missing.

        They are [state, candidate, device], [state, candidate] and [state, candidate, device]; None where
        nothing of the kind takes time.

        Args:
            states: Where everything lies.
            options: The candidates.
            met: [state, device] As in `State`.
        """
        count, devices = len(options.busy_us), self._devices
        awaited = np.zeros((len(states), count, devices), bool)
        moving, queued = None, None
        if not self._moves.is_free:
            moving, queued = np.zeros((len(states), count)), np.zeros((len(states), count, devices))
        places = []
        for place, tensor in enumerate(options.demands.tensors):
            if tensor not in self._from_host:
                places.append(place)
            elif queued is not None:
                self._bring_from_host(tensor, options.demands.find(place), queued)
        if not places:
            return awaited, moving, queued
        demands = options.demands.choose(places)
        rows = np.array([[state.owned[tensor] for state in states] for tensor in demands.tensors])
        # All that follows: [tensor, state, candidate, device].
        low, high = rows[:, :, None, 1 : 1 + devices], rows[:, :, None, 1 + devices : 1 + 2 * devices]
        sent, axes = rows[:, :, None, 2 + 2 * devices :], demands.axes[:, None, :, None]
        needed_low, needed_high = demands.low[:, None], demands.high[:, None]
        is_unmet = (met <= rows[:, :, 1 + 2 * devices, None])[:, :, None]
        is_apart, is_something = rows[:, :, None, :1] != axes, high > low
        is_missing = (
            (sent[..., :devices] != axes)
            | (sent[..., devices : 2 * devices] > needed_low)
            | (sent[..., 2 * devices :] < needed_high)
        ) & demands.is_any[:, None]
        for shift in range(1, devices):
            # Of each source, what the device so many places behind it reads.
            order = (np.arange(devices) + shift) % devices
            turned: Any = slice(None, None, -1) if devices == 2 else order
            common = np.minimum(high, needed_high[..., turned]) - np.maximum(low, needed_low[..., turned])
            crosses = (is_apart | (common > 0)) & is_missing[..., turned] & is_something
            awaited |= np.logical_or.reduce(crosses & is_unmet, axis=0)
            if moving is None or queued is None:
                continue
            for place, tensor in enumerate(demands.tensors):
                crossing = _Crossing(rows[place], order, crosses[place], common[place])
                costs = moving, queued
                awaited |= self._add_moves(states, tensor, demands.find(place), crossing, costs=costs)
        return awaited, moving, queued

    def _add_moves(
        self,
        states: Sequence[State],
        tensor: str,
        demand: Demand,
        crossing: "_Crossing",
        *,
        costs: tuple[Floats, Floats],
    ) -> Flags:
        """Add what it takes to send parts of a tensor; return who is waited for to have their memory mapped.

        Args:
            states: Where it lies.
            tensor: Its name.
            demand: What is read of it.
            crossing: What is sent.
            costs: The host's time and the queues' time, to be added to.
        """
        (moving, queued), devices, axes, rows = costs, self._devices, demand.axes, crossing.rows
        own_axes, extents = rows[:, 0], rows[:, 1 + devices : 1 + 2 * devices] - rows[:, 1 : 1 + devices]
        is_same = own_axes[:, None] == axes
        is_busy = np.array([[clock > state.host_us for clock in state.clock] for state in states])[:, None]
        lengths = self._find_lengths(tensor, axes)
        awaited = np.zeros(crossing.crosses.shape, bool)
        for source, target in enumerate(crossing.order.tolist()):
            crosses, common = crossing.crosses[:, :, source], crossing.common[:, :, source]
            if not crosses.any():
                continue
            needed = demand.high[:, target] - demand.low[:, target]
            parts = self._measure(tensor, (own_axes, extents[:, source]), (axes, needed))
            parts = np.where(is_same, np.maximum(common, 0) / lengths, parts)
            amounts = self._count_amounts(tensor, parts, own_axes, axes)
            host_us, queue_us = (us[source, target] for us in (self._moves.host_us, self._moves.queue_us))
            moving += np.where(crosses, _price(amounts, host_us), 0.0)
            if queue_us.any():
                queued[:, :, target] += np.where(crosses, _price(amounts, queue_us), 0.0)
            held = self._moves.held[source, target]
            if held.any():
                awaited |= crosses[:, :, None] & held & is_busy
        return awaited

    def _bring_from_host(self, tensor: str, demand: Demand, queued: Floats) -> None:
        """Add what it costs that devices are sent what the host has."""
        low, high, axes = demand.low, demand.high, demand.axes
        lengths = self._find_lengths(tensor, axes)
        for target in range(self._devices):
            part = np.maximum(high[:, target] - low[:, target], 0) / lengths
            amounts = self._count_amounts(tensor, part[None, :], axes[:1] * 0 + WHOLE, axes)
            us = _price(amounts, self._moves.queue_us[self._devices, target])
            queued[:, :, target] += np.where(part > 0, us, 0.0)

    def _measure(self, tensor: str, own: tuple[Ints, Ints], need: tuple[Ints, Ints]) -> Floats:
        """Return [state, candidate] which share of a tensor lies in both intervals, of different axes."""
        parts = [np.maximum(extent, 0) / self._find_lengths(tensor, axes) for axes, extent in (own, need)]
        return np.asarray(parts[0][:, None] * parts[1][None, :])

    def _count_amounts(
        self, tensor: str, parts: Floats, own_axes: Ints, axes: Ints
    ) -> tuple[Floats, Floats | float]:
        """Return [state, candidate] the bytes of a transfer, and its runs of neighbouring bytes."""
        shape = self._graph.shape(tensor)
        size, runs = float(prod(shape)), 1.0
        if len(shape) != 4:
            return parts * size * FLOAT_BYTES, runs
        is_apart = (own_axes == 1)[:, None] | (axes == 1)
        return parts * size * FLOAT_BYTES, np.where(is_apart, size / shape[1], runs)

    def _find_lengths(self, tensor: str, axes: Ints) -> Ints:
        """Return the length of each axis, 1 where a tensor is taken whole."""
        assert WHOLE == -1
        return np.array([*self._graph.shape(tensor), 1])[axes]

    def _select(self, position: int) -> list[State]:
        """Return the states at a place."""
        arrivals = self._arrivals[position]
        self._arrivals[position] = []
        tensors = {name for arrival in arrivals for name in arrival.list_tensors()}
        live = self._finder.list_published(tensors, position - 1)
        return Beam(arrivals, live, width=self._beam, numbers=self._numbers).select()

    def _call(self, state: State, position: int) -> State:
        """Return the state behind a step of the host, which waits for all whose results it reads."""
        names = {name for node in self._order[position].nodes for name in node.inputs}
        ends = [
            state.clock[device]
            for name in names & set(state.owned)
            for device, (low, high) in enumerate(list_parts(state.owned[name]))
            if high > low
        ]
        return State(
            clock=state.clock,
            host_us=max([state.host_us, *ends]),
            met=state.met,
            owned=state.owned,
            cuts=state.cuts,
            before=state,
            choice=Choice(first=position, last=position, batch=None, index=0),
        )


def _price(amounts: tuple[Floats, Floats | float], costs: Floats) -> Floats:
    """Return what transfers cost, given what one costs, each of its bytes and each of its runs."""
    bytes_, runs = amounts
    call_us, byte_us, run_us = costs.tolist()
    return np.asarray(call_us + bytes_ * byte_us + runs * run_us)

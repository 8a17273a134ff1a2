"""Dynamic programming over the topological order: states are how the tensors that are still read are cut.

Each state keeps the clock of every device, so that a step which needs nothing from others costs no meeting,
and devices run ahead of each other as they do in a run. Of states with equal cuts the earliest is kept, of
all states at a place as many as the beam is wide, and as many with the least work: where branches are
independent, one device may be ahead while the other still has its branch to do.

Source:
    AdaOper (2024) partitions operators by dynamic programming; chains, halos and residuals are CoDL's.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from codl.ir.graph import Graph
from codl.partitioner.beam import BEAM, Arrivals, Beam
from codl.partitioner.chains import ChainBatch
from codl.partitioner.finder import ChainFinder
from codl.partitioner.moves import MoveCosts
from codl.partitioner.options import NO_LIMITS, Limits, Options, make_only_option, make_options
from codl.partitioner.order import Unit
from codl.partitioner.positions import Flags, Floats
from codl.partitioner.sending import Crossing, Sending
from codl.partitioner.states import Choice, State, list_parts


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
        self._sending = Sending(graph, moves)
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
        known: Sequence[Choice] = (),
        best: int = 3,
    ) -> tuple[list[State], State | None]:
        """Return the states at the end that take least, the fastest first; and that of the known way.

        Args:
            chains: By position of the head, the chains that may begin there.
            singles: By position, what runs an operator whole; none for the host's.
            limits_us: By first and last position, what no candidate of a chain may take longer than.
            known: A whole way that is followed to the end, whatever is faster on the way: what is found takes
                no longer. None by default.
            best: Most states to return.
        """
        heads = [[single, *chains.get(place, ())] for place, single in singles.items()]
        chosen = {choice.first: choice for choice in known}
        also = {
            index: choice.batch.choose(np.array([choice.index]))
            for index, place in enumerate(singles)
            if (choice := chosen.get(place)) is not None and choice.batch is not None
        }
        options = dict(zip(singles, make_options(heads, limits_us, known=also), strict=True))
        states, row = [self._begin()], 0 if known else None
        for position, unit in enumerate(self._order):
            if unit.is_host:
                states = [self._call(state, position) for state in states]
            else:
                self._note_arrivals(states, options[position], row=row)
                states, row = self._select(position + 1)
        ranked = sorted(states, key=self.find_end_us)[:best]
        return ranked, None if row is None else states[row]

    def find_end_us(self, state: State) -> float:
        """Return when the host has all outputs that a state at the end leads to."""
        awaited = np.array(
            [met < 0 or clock > state.host_us for met, clock in zip(state.met, state.clock, strict=True)]
        )
        awaited &= np.array(state.clock) > 0
        end_us = state.span_us + float(self._moves.find_meeting_us(awaited[None])[0])
        for name in self._graph.outputs:
            if name in state.owned:
                end_us += self._sending.find_reading_us(name, state.owned[name])
        return end_us

    def follow(self, choices: Sequence[Choice]) -> State:
        """Return the state at the end of a way that is chosen already."""
        state = self._begin()
        for choice in choices:
            if choice.batch is None:
                state = self._call(state, choice.first)
                continue
            self._note_arrivals([state], make_only_option(choice.batch, choice.index))
            ((state,), _) = self._select(choice.last + 1)
        return state

    def _begin(self) -> State:
        """Return the state before the first unit: nobody has done anything."""
        count = self._devices
        return State(
            clock=(0.0,) * count, host_us=0.0, met=(-1,) * count, owned={}, cuts={}, before=None, choice=None
        )

    def _note_arrivals(self, states: Sequence[State], options: Options, *, row: int | None = None) -> None:
        """Note where some ways lead to from some states.

        Args:
            states: At one place.
            options: All that may be done there.
            row: The state on the way that is followed to the end, whose next step is the last of `options`.
        """
        facts = np.array([(state.host_us, *state.clock, *state.met) for state in states])
        host_us, before = facts[:, :1], facts[:, None, 1 : 1 + self._devices]
        met, is_busy = facts[:, 1 + self._devices :], before > facts[:, None, :1]
        awaited, moving, queued = self._find_moves(states, options, met, is_busy)
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
        for place, (last, part) in enumerate(options.parts, 1):
            self._arrivals[last + 1].append(
                Arrivals(
                    states=states,
                    options=options,
                    part=part,
                    clock=ends[:, part],
                    host_us=host_us[:, part],
                    is_met=awaited[:, part],
                    rankings=[ranking[:, part] for ranking in rankings],
                    row=row if place == len(options.parts) else None,
                )
            )

    def _find_moves(
        self, states: Sequence[State], options: Options, met: Floats, is_busy: Flags
    ) -> tuple[Flags, Floats | None, Floats | None]:
        """Return who is waited for, and what it takes the host and the queues to move what is missing.

        They are [state, candidate, device], [state, candidate] and [state, candidate, device]; None where
        nothing of the kind takes time.

        Args:
            states: Where everything lies.
            options: The candidates.
            met: [state, device] As in `State`.
            is_busy: [state, 1, device] Whether a device still works when the host goes on.
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
                queued += self._sending.bring(tensor, options.demands.find(place))
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
            crossing = Crossing(rows, demands, order, crosses, common)
            host_us, queue_us = self._sending.price(crossing)
            moving += host_us
            if queue_us is not None:
                queued[:, :, order] += queue_us
            held = self._moves.held[np.arange(devices), order]
            if held.any():  # those who still work are waited for to have their memory mapped
                awaited |= (np.logical_or.reduce(crosses, axis=0) @ held) & is_busy
        return awaited, moving, queued

    def _select(self, position: int) -> tuple[list[State], int | None]:
        """Return the states at a place, and which of them is on the way that is followed to the end."""
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

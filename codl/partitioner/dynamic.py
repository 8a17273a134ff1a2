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

import numpy as np

from codl.ir.graph import Graph
from codl.partitioner.arrays import Floats, Ints
from codl.partitioner.beam import BEAM, Arrivals, Beam, Columns
from codl.partitioner.chains import ChainBatch
from codl.partitioner.crossings import Crossings
from codl.partitioner.finder import ChainFinder
from codl.partitioner.ledger import Ledger, Words
from codl.partitioner.moves import MoveCosts
from codl.partitioner.options import NO_LIMITS, Limits, Options, make_options
from codl.partitioner.order import Unit
from codl.partitioner.sending import Sending
from codl.partitioner.states import Choice, Seats, State, States


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
        self._devices, self._beam, self._columns = devices, beam, Columns(devices)
        self._arrivals: list[list[Arrivals]] = [[] for _ in range(len(order) + 1)]
        self._rows: Ints = len(moves.sets) * np.arange(2 * beam + 1)[:, None]
        """[state, 1] Sets of devices told of before those of a state."""
        self._sending = Sending(graph, moves)
        self._seats = Seats(finder.list_spans(), len(order))
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
            index: choice.batch.choose(slice(choice.index, choice.index + 1))
            for index, place in enumerate(singles)
            if (choice := chosen.get(place)) is not None and choice.batch is not None
        }
        states = self._make_states(1 + len(self._order) * (2 * self._beam + 1))
        made = make_options(heads, states.ledger, limits_us, known=also)
        states.know(made)
        options = dict(zip(singles, made, strict=True))
        self._crossings = self._list_crossings(states)
        here, followed = range(1), 0 if known else None
        for position, unit in enumerate(self._order):
            if unit.is_host:
                row = None if followed is None else here.index(followed)
                here = self._call(states, here, position)
                followed = None if row is None else here[row]
            else:
                self._note_arrivals(states, here, options[position], followed=followed)
                here, followed = self._select(states, position + 1)
        ways = [State(states, place) for place in here]
        ranked = sorted(ways, key=self.find_end_us)[:best]
        return ranked, None if followed is None else State(states, followed)

    def find_end_us(self, state: State) -> float:
        """Return when the host has all outputs that a state at the end leads to."""
        states, place = state.states, state.place
        clock, met = states.clock[place], states.met[place]
        awaited = ((met < 0) | (clock > states.host_us[place])) & (clock > 0)
        end_us = float(clock.max() + self._moves.find_meeting_us(awaited))
        columns = self._seats.columns
        outputs = {name: columns[name] for name in self._graph.outputs if name in columns}
        for name, division in state.list_divisions(outputs).items():
            end_us += self._sending.find_reading_us(name, division)
        return end_us

    def follow(self, choices: Sequence[Choice]) -> State:
        """Return the state at the end of a way that is chosen already."""
        states, here = self._make_states(1 + len(choices)), range(1)
        heads = [
            [choice.batch.choose(slice(choice.index, choice.index + 1))]
            for choice in choices
            if choice.batch is not None
        ]
        options = make_options(heads, states.ledger)
        states.know(options)
        made = iter(options)
        self._crossings = self._list_crossings(states)
        for choice in choices:
            if choice.batch is None:
                here = self._call(states, here, choice.first)
                continue
            self._note_arrivals(states, here, next(made))
            here, _ = self._select(states, choice.last + 1)
        return State(states, here[0])

    def _make_states(self, most: int) -> States:
        """Return room for states, the first of them before the first unit: nobody has done anything."""
        ledger = Ledger(self._devices, self._seats.columns, self._seats.last_reads)
        return States(ledger, devices=self._devices, columns=self._seats.count, most=most)

    def _list_crossings(self, states: States) -> Crossings:
        """Return what is sent, once all options are known to the ledger."""
        return Crossings(states.ledger, self._sending.find_sizes(states.ledger.tensors), self._moves)

    def _note_arrivals(
        self, states: States, here: range, options: Options, *, followed: int | None = None
    ) -> None:
        """Note where some ways lead to from some states.

        Args:
            states: Those of all places.
            here: Where those stand that the ways begin with.
            options: All that may be done there.
            followed: The one on the way that is followed to the end; its next step is the last of `options`.
        """
        mine = slice(here.start, here.stop)
        awaited, moving, queued = self._find_moves(states, mine, options)
        host_us = self._meet(states, mine, awaited)
        if moving is not None:
            host_us += moving
        columns, before = self._columns, states.clock[mine].T[:, :, None]
        load = options.busy_us.T[:, None]
        if queued is not None:
            load = load + np.moveaxis(queued, 2, 0)
        told = np.empty((columns.count, *host_us.shape))
        ends = told[columns.clock]
        ends[:] = np.where(load > 0, np.maximum(before, host_us) + load, before)
        work = told[columns.rankings[1]] = reduce(np.add, ends)
        told[columns.rankings[0]] = reduce(np.maximum, ends) + 1e-6 * work
        told[columns.host_us], told[columns.met] = host_us, awaited
        told[columns.before] = np.arange(here.start, here.stop)[:, None]
        told[columns.candidate] = np.arange(options.start, options.start + len(options.lasts))
        marks = self._mark(states, mine, options)
        for place, (last, part) in enumerate(options.parts, 1):
            self._arrivals[last + 1].append(
                Arrivals(
                    before=here,
                    told=told[:, :, part],
                    marks=marks[:, part],
                    state=followed if place == len(options.parts) else None,
                )
            )

    def _meet(self, states: States, here: slice, awaited: Ints) -> Floats:
        """Return [state, candidate] when the host goes on that waits for a set of devices."""
        sets, clocks = self._moves.sets, states.clock[here].T[:, :, None]
        latest = reduce(np.maximum, [us * is_in for us, is_in in zip(clocks, sets.T, strict=True)])
        # Of nobody the host has seen all, and meeting nobody takes no time.
        ends = np.maximum(states.host_us[here, None], latest) + self._moves.meetings_us
        return np.asarray(ends.take(awaited + self._rows[: len(awaited)]))

    def _mark(self, states: States, here: slice, options: Options) -> Words:
        """Return [state, candidate] a number for each way: equal where what is read on is divided alike."""
        columns, last_reads = self._seats.live[options.first]
        if not len(columns):
            return np.broadcast_to(options.marks, (here.stop - here.start, len(options.marks)))
        before = states.ledger.marks.take(states.owned[here].take(columns, axis=1)[:, :, 0])
        is_read_on = last_reads[:, None] > options.lasts
        return np.asarray(before @ is_read_on.astype(np.uint64) + options.marks)

    def _find_moves(
        self, states: States, here: slice, options: Options
    ) -> tuple[Ints, Floats | None, Floats | None]:
        """Return which set is waited for, and what it takes the host and the queues to move what is missing.

        They are [state, candidate], [state, candidate] and [state, candidate, device]; None where nothing of
        the kind takes time.

        Args:
            states: Those of all places.
            here: Where those stand that tell where everything lies.
            options: The candidates.
        """
        known, weights = self._crossings, self._moves.weights
        parts = known.parts[options.reads].reshape(len(options.tensors), -1)
        columns = [self._seats.columns[name] for name in options.tensors if name not in self._from_host]
        moving, queued = None, None
        if len(columns) < len(parts):
            is_there = [name in self._from_host for name in options.tensors]
            if known.bringing_us is not None:
                queued = known.bringing_us.take(parts[is_there], axis=0).sum(axis=0)[None]
            parts = parts[np.logical_not(is_there)]
        awaited = np.zeros((here.stop - here.start, len(options.busy_us)), np.int64)
        if not columns:
            return awaited, moving, queued
        owned = states.owned[here].take(columns, axis=1).swapaxes(0, 1)
        rows = owned[:, :, 0]
        # All that follows: [tensor, state, candidate].
        places = known.division_starts.take(rows)[:, :, None] + parts[:, None]
        sent, read = known.sent_starts.take(owned[:, :, 1:]), parts[:, None]
        missing = reduce(
            np.bitwise_or,
            [one.take(sent[:, :, device, None] + read) for device, one in enumerate(known.missing)],
        )
        is_unmet = states.met[here] <= known.published.take(rows)[:, :, None]
        for crossing in known.crossings:
            crosses = crossing.readers.take(places) & missing
            unmet = is_unmet @ crossing.waits
            waits = np.bitwise_or.reduce(crosses & unmet[:, :, None], axis=0)
            awaited |= crossing.sources_of.take(waits)
            if crossing.host_us is not None:
                us = np.add.reduce(crossing.host_us.take((places << self._devices) + crosses), axis=0)
                moving = us if moving is None else moving + us
            if crossing.queue_us is not None:
                is_read = self._moves.sets.take(crosses, axis=0)
                us = np.add.reduce(crossing.queue_us.take(places, axis=0) * is_read, axis=0)
                queued = us if queued is None else queued + us
            if crossing.held.any():  # those who still work are waited for to have their memory mapped
                busy = (states.clock[here] > states.host_us[here, None]) @ weights
                awaited |= crossing.held.take(np.bitwise_or.reduce(crosses, axis=0)) & busy[:, None]
        return awaited, moving, queued

    def _select(self, states: States, position: int) -> tuple[range, int | None]:
        """Return where the states at a place stand, and the one on the way that is followed to the end."""
        arrivals = self._arrivals[position]
        self._arrivals[position] = []
        return Beam(arrivals, states, self._moves.sets, width=self._beam).select()

    def _call(self, states: States, here: range, position: int) -> range:
        """Add the states behind a step of the host, which waits for all whose results it reads."""
        mine, count = slice(here.start, here.stop), self._devices
        names = {name for node in self._order[position].nodes for name in node.inputs}
        columns = [self._seats.columns[name] for name in names if name in self._seats.columns]
        host_us, clock, owned = states.host_us[mine], states.clock[mine], states.owned[mine]
        if columns:
            rows = states.ledger.divisions.take(owned[:, columns, 0], axis=0)
            is_any = (rows[:, :, 1 + count : 1 + 2 * count] > rows[:, :, 1 : 1 + count]).any(axis=1)
            host_us = np.maximum(host_us, np.where(is_any, clock, 0.0).max(axis=1))
        before = np.arange(here.start, here.stop)
        done = np.full(len(here), -1 - position)
        return states.add(clock, host_us, states.met[mine], owned, before=before, done=done)

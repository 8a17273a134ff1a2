"""Dynamic programming over the topological order: states are how the tensors that are still read are cut.

Each state keeps the clock of every device, so that a step which needs nothing from others costs no meeting,
and devices run ahead of each other as they do in a run. Of states with equal cuts the earliest is kept, of
all states at a place as many as the beam is wide, and as many with the least work: where branches are
independent, one device may be ahead while the other still has its branch to do.

Source:
    AdaOper (2024) partitions operators by dynamic programming; chains, halos and residuals are CoDL's.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from codl.ir.graph import Graph
from codl.partitioner.beam import BEAM, Arrivals, Beam
from codl.partitioner.chains import ChainBatch
from codl.partitioner.crossings import Crossings
from codl.partitioner.finder import ChainFinder
from codl.partitioner.known import MARK, ROW, SENT, START, UNSEEN, Known
from codl.partitioner.ledger import Ledger
from codl.partitioner.options import NO_LIMITS, Limits, Options, make_options
from codl.partitioner.order import Unit
from codl.partitioner.states import Choice, Columns, Seats, State, States
from codl.simulator.arrays import Floats, Ints
from codl.simulator.transfers import TensorSizes, TransferCosts


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
        moves: TransferCosts,
        *,
        devices: int,
        beam: int = BEAM,
    ) -> None:
        self._graph, self._order, self._finder, self._moves = graph, tuple(order), finder, moves
        self._devices, self._beam, self._columns = devices, beam, Columns(devices)
        self._arrivals: list[list[Arrivals]] = [[] for _ in range(len(order) + 1)]
        self._sizes = TensorSizes(graph)
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
        ledger = self._open_ledger()
        made = make_options(heads, ledger, limits_us, known=also)
        states = self._make_states(made, ledger, most=1 + len(self._order) * (2 * self._beam + 1))
        options = dict(zip(singles, made, strict=True))
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
        clock = states.clock[:, place]
        is_unseen = self._moves.members[states.told[place, -1, UNSEEN]]
        awaited = (is_unseen | (clock > states.host_us[place])) & (clock > 0)
        end_us = float(clock.max() + self._moves.ending_us[int(awaited @ self._moves.weights)])
        columns = self._seats.columns
        outputs = {name: columns[name] for name in self._graph.outputs if name in columns}
        for name, division in state.list_divisions(outputs).items():
            end_us += self._find_output_us(name, division)
        return end_us

    def _find_output_us(self, tensor: str, division: Sequence[int]) -> float:
        """Return what it takes the host in us to read an output of the network that is divided so."""
        sizes, number, axis, count = self._sizes, self._sizes.numbers[tensor], division[0], self._devices
        parts = np.subtract(division[1 + count :], division[1 : 1 + count]) / sizes.lengths[number, axis]
        runs = sizes.runs[number] if axis == 1 else 1.0
        costs = self._moves.output_us
        us = costs[:, 0] + parts * sizes.bytes_[number] * costs[:, 1] + runs * costs[:, 2]
        return float(us[parts > 0].sum())

    def follow(self, choices: Sequence[Choice]) -> State:
        """Return the state at the end of a way that is chosen already."""
        heads = [
            [choice.batch.choose(slice(choice.index, choice.index + 1))]
            for choice in choices
            if choice.batch is not None
        ]
        ledger = self._open_ledger()
        options = make_options(heads, ledger)
        states, here = self._make_states(options, ledger, most=1 + len(choices)), range(1)
        made = iter(options)
        for choice in choices:
            if choice.batch is None:
                here = self._call(states, here, choice.first)
                continue
            self._note_arrivals(states, here, next(made))
            here, _ = self._select(states, choice.last + 1)
        return State(states, here[0])

    def _open_ledger(self) -> Ledger:
        return Ledger(self._devices, self._sizes.numbers, self._seats.columns, self._seats.last_reads)

    def _make_states(self, options: Sequence[Options], ledger: Ledger, *, most: int) -> States:
        """Return room for states, the first of them before the first unit: nobody has done anything.

        Args:
            options: All that may be done.
            ledger: Where that is noted.
            most: Most states.
        """
        crossings = Crossings(ledger, self._sizes, self._moves)
        known = Known(options, ledger, crossings, self._moves.members, self._seats.live)
        operators = sum(not unit.is_host for unit in self._order)
        return States(known, self._moves, most=most, start_us=operators * self._moves.delay_us)

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
        mine, count, known = slice(here.start, here.stop), len(here), states.known
        part = slice(options.start, options.start + len(options.lasts))
        awaited, moving, queued = self._find_moves(states, mine, options)
        columns = self._columns
        ways = np.empty((columns.count, *awaited.shape))
        told, host_us = ways.view(np.int64), ways[columns.host_us]
        np.add(awaited, states.firsts[mine], out=told[columns.met])
        states.ends.take(told[columns.met], out=host_us, mode="clip")
        if moving is not None:
            host_us += moving
        before, load, late = states.clock[:, None, mine], known.load_us[:, part], known.late_us[:, part]
        if queued is not None:
            load = load + queued
            late = np.where(load > 0, load, -np.inf)
        np.maximum(before + load, host_us + late, out=ways[columns.clock])
        told[columns.candidate] = known.numbers[part]
        marks = known.is_read_on[part] @ states.told[mine, :, MARK].T
        np.add(marks, known.marks[part], out=told[columns.marks])
        flat = ways.reshape(columns.count, -1)
        arrivals = [
            Arrivals(flat[:, one.start * count : one.stop * count], last + 1) for last, one in options.parts
        ]
        if followed is not None:
            arrivals[-1].followed = arrivals[-1].ways.shape[1] - count + here.index(followed)
        for one in arrivals:
            self._arrivals[one.place].append(one)

    def _find_moves(
        self, states: States, here: slice, options: Options
    ) -> tuple[Ints, Floats | None, Floats | None]:
        """Return which set is waited for, and what it takes the host and the queues to move what is missing.

        They are [candidate, state], [candidate, state] and [device, candidate, state]; None where nothing of
        the kind takes time.

        Args:
            states: Those of all places.
            here: Where those stand that tell where everything lies.
            options: The candidates.
        """
        known, moves = states.known.crossings, self._moves
        parts = known.parts[options.reads].reshape(len(options.tensors), len(options.lasts), 1)
        columns = [self._seats.columns[name] for name in options.tensors if name not in self._from_host]
        moving, queued = None, None
        if len(columns) < len(parts):
            is_there = [name in self._from_host for name in options.tensors]
            if known.bringing_us is not None:
                queued = known.bringing_us.take(parts[is_there, :, 0], axis=0).sum(axis=0).T[:, :, None]
            parts = parts[np.logical_not(is_there)]
        awaited = np.zeros((len(options.lasts), here.stop - here.start), np.int64)
        if not columns:
            return awaited, moving, queued
        # All that follows: [tensor, candidate, state].
        told = states.told[here].take(columns, axis=1).T[:, :, None]
        places = told[START] + parts
        missing = np.bitwise_or.reduce(known.missing.take(told[SENT:] + parts), axis=0)
        for crossing in known.crossings:
            crosses = crossing.readers.take(places)
            crosses &= missing
            waits = np.bitwise_or.reduce(crosses & crossing.readers_of.take(told[UNSEEN]), axis=0)
            awaited |= crossing.sources_of.take(waits)
            if crossing.host_us is not None:
                us = np.add.reduce(crossing.host_us.take((places << self._devices) + crosses), axis=0)
                moving = us if moving is None else moving + us
            if crossing.queue_us is not None:
                is_read = moves.members.take(crosses, axis=0)
                us = np.add.reduce(crossing.queue_us.take(places, axis=0) * is_read, axis=0)
                us = np.moveaxis(us, 2, 0)
                queued = us if queued is None else queued + us
            if crossing.held is not None:  # those who still work are waited for to have their memory mapped
                busy = moves.weights @ (states.clock[:, here] > states.host_us[here])
                awaited |= crossing.held.take(np.bitwise_or.reduce(crosses, axis=0)) & busy
        return awaited, moving, queued

    def _select(self, states: States, position: int) -> tuple[range, int | None]:
        """Return where the states at a place stand, and the one on the way that is followed to the end."""
        arrivals = self._arrivals[position]
        self._arrivals[position] = []
        return Beam(arrivals, self._columns, width=self._beam).select(states)

    def _call(self, states: States, here: range, position: int) -> range:
        """Add the states behind a step of the host, which waits for all whose results it reads."""
        mine, count = slice(here.start, here.stop), self._devices
        names = {name for node in self._order[position].nodes for name in node.inputs}
        columns = [self._seats.columns[name] for name in names if name in self._seats.columns]
        ways, told, places = states.ways[:, mine].copy(), states.told[mine], self._columns
        if columns:
            rows = states.known.divisions.take(told[:, columns, ROW], axis=0)
            is_any = (rows[:, :, 1 + count :] > rows[:, :, 1 : 1 + count]).any(axis=1)
            latest = np.where(is_any.T, ways[places.clock], 0.0).max(axis=0)
            ways[places.host_us] = np.maximum(ways[places.host_us], latest)
        steps = ways[places.steps].view(np.int64)
        steps[0], steps[1] = states.firsts[mine], -1 - position
        return states.add(ways, told)

"""Dynamic programming over the topological order: a search state is how the live tensors are cut.

Each state keeps the clock of every device, so a step that needs nothing from other devices costs no
synchronization, and devices run ahead of each other as they do in a run. Of states with equal cuts only the
earliest is kept. Two beams are kept at each position: the earliest states, and those whose devices have
worked least. The second matters where branches are independent and one device is ahead of the other.

Source:
    AdaOper (2024) partitions operators by dynamic programming; chains, halos and residuals are CoDL's.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, permutations

import numpy as np

from codl.partitioner.candidates import NO_LIMITS, Candidates, Limits, list_candidates
from codl.partitioner.chains import ChainBatch, Reading
from codl.partitioner.enumeration import ChainEnumeration
from codl.partitioner.search_state import Choice, Origin, SearchStates, Slots
from codl.simulator.arrays import Floats, Ints
from codl.simulator.transfers import TensorSizes, TransferCosts

BEAM = 8
"""States kept at a position, in each of the two beams; more of them improve plans by less than 0.1 %."""
_RANKED = 3
"""Ways ranked for each state that is kept, as several may have equal cuts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way through the whole network."""

    end_us: float
    """When the host has all outputs."""
    choices: Sequence[Choice]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arrivals:
    """Ways from the states of one position to another position."""

    states: SearchStates
    """Of the position where they begin."""
    steps: Ints
    """[4, way] Candidate; index of the state; set of devices that the host waits for; the sum of the marks of
    all live tensors, equal where these are divided alike."""
    times_us: Floats
    """[device + 1, way] When each device is done; at the last place, when the host goes on."""


class DynamicProgram:
    """Finds the fastest ways through a network.

    Args:
        finder: Enumerates the network's chains.
        costs: Of transfers and synchronizations.
        beam: States kept at a position, in each of two beams.
    """

    def __init__(self, finder: ChainEnumeration, costs: TransferCosts, *, beam: int) -> None:
        self._graph, self._order, self._costs, self._beam = finder.graph, finder.order, costs, beam
        self._sizes, tensors = TensorSizes(finder.graph), finder.list_tensors()
        self.slots = Slots(tensors, self._sizes.numbers, positions=len(finder.order), devices=costs.count)
        self._sources, self._readers = (
            np.array([*permutations(range(costs.count), 2)], np.int64).reshape(-1, 2).T
        )
        self._is_held = bool(costs.held[:-1].any())

    def run(
        self, heads: Mapping[int, Sequence[ChainBatch]], *, limits_us: Limits = NO_LIMITS, best: int = 3
    ) -> list[Way]:
        """Return the fastest ways to the end, the fastest first.

        Args:
            heads: By position, the chains and whole operators that may begin there.
            limits_us: What no candidate of a chain may take longer than.
            best: Most ways to return.
        """
        candidates = list_candidates(heads, self.slots, self._find_input_us, limits_us)
        arrivals: list[list[_Arrivals]] = [[] for _ in range(len(self._order) + 1)]
        states = self._start()
        for position, unit in enumerate(self._order):
            if arrivals[position]:
                states = self._select(arrivals[position], candidates)
            elif position and not self._order[position - 1].is_host:
                continue  # within a chain that all ways contain
            if unit.is_host:
                states = self._call_host(states, position)
            elif position in candidates.parts:
                for last, one in self._extend(states, candidates, position).items():
                    arrivals[last + 1].append(one)
        if arrivals[-1]:
            states = self._select(arrivals[-1], candidates)
        ends = [self._find_end_us(states, state) for state in range(len(states.host_us))]
        ranked = sorted(range(len(ends)), key=ends.__getitem__)[:best]
        return [Way(end_us=ends[state], choices=states.list_choices(state)) for state in ranked]

    def _start(self) -> SearchStates:
        """Return the state before the first unit."""
        operators, slots = sum(not unit.is_host for unit in self._order), self.slots
        return self._complete(
            clock_us=(operators * self._costs.delay_us)[:, None],
            host_us=np.zeros(1),
            facts=np.zeros((1, slots.count, slots.facts), np.int64),
            unseen=np.full((1, slots.count + 1), len(self._costs.members) - 1),
            origins=[None],
        )

    def _complete(
        self,
        *,
        clock_us: Floats,
        host_us: Floats,
        facts: Ints,
        unseen: Ints,
        origins: Sequence[Origin | None],
    ) -> SearchStates:
        """Return states of a position, with what follows from their clocks and facts."""
        latest = np.where(self._costs.members, clock_us.T[:, None, :], -np.inf).max(axis=2)
        return SearchStates(
            clock_us=clock_us,
            host_us=host_us,
            ends_us=np.maximum(latest, host_us[:, None]) + self._costs.synchronization_us,
            facts=facts,
            marks=self.slots.mark(facts),
            unseen=unseen,
            origins=origins,
        )

    def _extend(self, states: SearchStates, candidates: Candidates, position: int) -> dict[int, _Arrivals]:
        """Return the ways from the states of a position by all candidates, by their last position."""
        ends, count = candidates.parts[position], len(states.host_us)
        parts = list(ends.values())
        part = slice(parts[0].start, parts[-1].stop)
        awaited, sent_us, queue_us = self._find_transfers(states, candidates, position, part)
        host_us = states.ends_us[np.arange(count), awaited] + sent_us
        load = (candidates.busy_us[part] + candidates.input_us[part]).T[:, :, None] + queue_us
        times_us = np.empty((self._costs.count + 1, *host_us.shape))
        late_us = np.where(load > 0, load, -np.inf)
        np.maximum(states.clock_us[:, None, :] + load, host_us + late_us, out=times_us[:-1])
        times_us[-1] = host_us
        steps = np.empty((4, *host_us.shape), np.int64)
        steps[0], steps[1] = np.arange(part.start, part.stop)[:, None], np.arange(count)
        steps[2] = awaited
        steps[3] = candidates.is_live[part] @ states.marks.T + candidates.marks[part, None]
        found = {}
        for last, one in ends.items():
            mine = slice(one.start - part.start, one.stop - part.start)
            found[last] = _Arrivals(
                states=states,
                steps=steps[:, mine].reshape(4, -1),
                times_us=times_us[:, mine].reshape(len(times_us), -1),
            )
        return found

    def _find_input_us(self, name: str, reading: Reading) -> Floats:
        """Return [candidate, device] what it takes queues in us to be sent a tensor that the host has."""
        lengths = np.maximum(reading.high - reading.low, 0)
        return self._sizes.price(self._costs.queue_us[-1], self._sizes.numbers[name], reading.axis, lengths)

    def _find_transfers(
        self, states: SearchStates, candidates: Candidates, position: int, part: slice
    ) -> tuple[Ints, Floats, Floats]:
        """Return what it takes to send the candidates ``part`` of a position what other devices have.

        Returns:
            [candidate, state] The set of devices that the host waits for first; [candidate, state] time of
            the host in us; [device, candidate, state] time of the devices' queues in us.
        """
        costs, sizes, slots = self._costs, self._sizes, self.slots
        shape = part.stop - part.start, len(states.host_us)
        host_us, queue_us = np.zeros(shape), np.zeros((costs.count, *shape))
        sources, readers = self._sources, self._readers
        used = np.flatnonzero((candidates.high[part] > 0).any(axis=(0, 2)))
        # All that follows: [pair of devices, slot, candidate, state].
        facts = states.facts[:, used].transpose(2, 1, 0)[:, :, None]
        axis = candidates.axis[part, used].T[:, :, None]
        low, high = (
            edges[part, used].transpose(2, 1, 0)[readers, :, :, None]
            for edges in (candidates.low, candidates.high)
        )
        own_axis, own_low, own_high = facts[0], facts[slots.low][sources], facts[slots.high][sources]
        is_apart = own_axis != axis
        common = np.minimum(own_high, high) - np.maximum(own_low, low)
        is_sent = (is_apart | (common > 0)) & (own_high > own_low) & (high > low)
        is_there = (facts[slots.sent_axis][readers] == axis) & (facts[slots.sent_low][readers] <= low)
        is_sent &= ~(is_there & (facts[slots.sent_high][readers] >= high))
        waits = states.unseen[:, used].T & costs.weights[sources, None, None]
        if self._is_held:
            is_busy = states.clock_us > states.host_us
            waits = waits | ((costs.weights * costs.held[sources, readers]) @ is_busy)[:, None]
        awaited = np.bitwise_or.reduce(is_sent * waits[:, :, None], axis=(0, 1))
        if not costs.is_free and is_sent.any():
            numbers = slots.numbers[position, used][:, None, None]
            length, own_length = sizes.lengths[numbers, axis], sizes.lengths[numbers, own_axis]
            apart = (own_high - own_low) / own_length * ((high - low) / length)
            bytes_ = np.where(is_apart, apart, common / length) * sizes.bytes_[numbers]
            runs = np.where((own_axis == 1) | (axis == 1), sizes.runs[numbers], 1.0)
            for pair, (source, reader) in enumerate(zip(sources, readers, strict=True)):
                for sums, us in ((host_us, costs.host_us), (queue_us[reader], costs.queue_us)):
                    if us[source, reader].any():
                        call, byte, run = us[source, reader].tolist()
                        each = (call + bytes_[pair] * byte + runs * run) * is_sent[pair]
                        np.add(sums, each.sum(axis=0), out=sums)
        return awaited, host_us, queue_us

    def _select(self, arrivals: Sequence[_Arrivals], candidates: Candidates) -> SearchStates:
        """Return the states that are kept at a position: those of both beams, equal ones once."""
        times_us = np.concatenate([one.times_us for one in arrivals], axis=1)
        steps = np.concatenate([one.steps for one in arrivals], axis=1)
        clock, marks = times_us[:-1], steps[3]
        work = clock.sum(axis=0)
        kept: dict[tuple[int, ...], int] = {}
        for ranking in (clock.max(axis=0) + 1e-6 * work, work):
            places, seen = _rank(ranking, _RANKED * self._beam), set[int]()
            columns = marks.take(places).tolist(), *clock.take(places, axis=1).tolist()
            for place, mark, *times in zip(places.tolist(), *columns, strict=True):
                if mark not in seen:
                    seen.add(mark)
                    kept.setdefault((mark, *times), place)
                    if len(seen) == self._beam:
                        break
        chosen = sorted(kept.values())
        starts = list(accumulate((one.steps.shape[1] for one in arrivals), initial=0))
        before = [arrivals[bisect_right(starts, place) - 1].states for place in chosen]
        picked, indices, awaited, _ = steps.take(chosen, axis=1)
        origins = []
        for states, index, number in zip(before, indices.tolist(), picked.tolist(), strict=True):
            batch, cut = candidates.chains[number]
            origins.append(
                (states, index, Choice(first=batch.first, last=batch.last, batch=batch, index=cut))
            )
        facts = np.array([states.facts[index] for states, index, _ in origins])
        unseen = np.array([states.unseen[index] for states, index, _ in origins]) & ~awaited[:, None]
        everyone = len(self._costs.members) - 1
        return self._complete(
            clock_us=times_us[:-1].take(chosen, axis=1),
            host_us=times_us[-1].take(chosen),
            facts=np.where(
                candidates.is_changed.take(picked, axis=0), candidates.facts.take(picked, axis=0), facts
            ),
            unseen=np.where(candidates.is_published.take(picked, axis=0), everyone, unseen),
            origins=origins,
        )

    def _call_host(self, states: SearchStates, position: int) -> SearchStates:
        """Return the states behind a step of the host, which waits for all devices whose results it reads."""
        names = {name for node in self._order[position].nodes for name in node.inputs}
        slots = [self.slots.columns[name] for name in names if name in self.slots.columns]
        host_us, facts = states.host_us, states.facts[:, slots]
        if slots:
            is_any = (facts[:, :, self.slots.high] > facts[:, :, self.slots.low]).any(axis=1)
            host_us = np.maximum(host_us, np.where(is_any.T, states.clock_us, 0.0).max(axis=0))
        choice = Choice(first=position, last=position, batch=None, index=0)
        return self._complete(
            clock_us=states.clock_us,
            host_us=host_us,
            facts=states.facts,
            unseen=states.unseen,
            origins=[(states, state, choice) for state in range(len(host_us))],
        )

    def _find_end_us(self, states: SearchStates, state: int) -> float:
        """Return when the host has all outputs of the network that a state at the end leads to."""
        costs, slots, sizes = self._costs, self.slots, self._sizes
        clock = states.clock_us[:, state]
        is_unseen = costs.members[states.unseen[state, -1]]
        awaited = (is_unseen | (clock > states.host_us[state])) & (clock > 0)
        end_us = float(clock.max() + costs.ending_us[int(awaited @ costs.weights)])
        for name in self._graph.outputs:
            if name in slots.columns:
                facts, number = states.facts[state, slots.columns[name]], sizes.numbers[name]
                lengths = facts[slots.high] - facts[slots.low]
                end_us += float(sizes.price(costs.output_us, number, facts[0], lengths).sum())
        return end_us


def _rank(ranking: Floats, count: int) -> Ints:
    """Return the indices of the smallest values, the smallest first."""
    if len(ranking) > count:
        chosen = ranking.argpartition(count - 1)[:count]
        return chosen[ranking[chosen].argsort(kind="stable")]
    return ranking.argsort(kind="stable")

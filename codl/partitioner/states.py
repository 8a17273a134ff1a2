"""How places in a network were reached: who has what of each tensor, and when every device is done."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from codl.partitioner.arrays import Floats, Ints
from codl.partitioner.chains import ChainBatch
from codl.partitioner.ledger import Ledger
from codl.partitioner.options import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What becomes of a stretch of units: one candidate of a batch; no batch for the host's."""

    first: int
    last: int
    batch: ChainBatch | None
    index: int


class Seats:
    """Which column tells of a tensor from when it is published until it is last read; then others take it.

    Args:
        spans: Tensors of devices with the positions of the operator and of the last reader, in that order.
        count: Positions.
    """

    def __init__(self, spans: Sequence[tuple[str, int, int]], count: int) -> None:
        self.columns: dict[str, int] = {}
        """By tensor; none for what nobody reads."""
        self.last_reads = {name: last for name, _, last in spans}
        live: list[list[tuple[int, int]]] = [[] for _ in range(count + 1)]
        free_from: list[int] = []
        for name, first, last in spans:
            if last <= first:
                continue
            column = next((place for place, busy in enumerate(free_from) if busy < first), len(free_from))
            free_from[column : column + 1] = [last]
            self.columns[name] = column
            for position in range(first + 1, min(last, count) + 1):
                live[position].append((column, last))
        self.count = len(free_from)
        self.live = [np.array(one, np.int64).reshape(-1, 2).T for one in live]
        """By position, columns of what is published before it and read on, and positions of last readers."""


class States:
    """States, those of one place next to each other.

    Args:
        ledger: Where it stands how tensors are divided and what was sent.
        devices: How many there are.
        columns: Tensors told of at once.
        most: Most states.
    """

    def __init__(self, ledger: Ledger, *, devices: int, columns: int, most: int) -> None:
        self.ledger, self.count = ledger, 1
        self.clock: Floats = np.zeros((most, devices))
        """[state, device] When each device has done what it has to do."""
        self.host_us: Floats = np.zeros(most)
        """[state] When the host went on last."""
        self.met: Ints = np.full((most, devices), -1)
        """[state, device] Position of the step before which the host waited for the device last."""
        self.owned: Ints = np.zeros((most, columns, 1 + devices), np.int64)
        """[state, column, 1 + device] The ledger's rows: how a tensor is divided, what devices were sent."""
        self.before: Ints = np.zeros(most, np.int64)
        """[state] The state before it."""
        self.done: Ints = np.zeros(most, np.int64)
        """[state] What was done then: the ledger's candidate; or -1 less the position of the host's step."""
        self.firsts: Ints = np.zeros(0, np.int64)
        """[candidate] Position of its head."""
        self._options: Sequence[Options] = ()

    def know(self, options: Sequence[Options]) -> None:
        """Note all that may be done, in the order of the ledger's candidates."""
        counts = [len(one.lasts) for one in options]
        self._options = options
        self.firsts = np.repeat(np.array([one.first for one in options], np.int64), counts)

    def find_done(self, candidate: int) -> tuple[Options, int]:
        """Return which of some options a candidate is, and its place among those."""
        options = self._options[bisect_right(self._options, candidate, key=lambda one: one.start) - 1]
        return options, candidate - options.start

    def add(
        self, clock: Floats, host_us: Floats, met: Ints, owned: Ints, *, before: Ints, done: Ints
    ) -> range:
        """Add the states of a place; return where they stand."""
        start, stop = self.count, self.count + len(before)
        part = slice(start, stop)
        self.clock[part], self.host_us[part], self.met[part] = clock, host_us, met
        self.owned[part], self.before[part], self.done[part] = owned, before, done
        self.count = stop
        return range(start, stop)


@dataclass(frozen=True, slots=True)
class State:
    """One way to a place."""

    states: States
    place: int

    def list_choices(self) -> list[Choice]:
        """Return what was chosen, from the start."""
        found: list[Choice] = []
        place = self.place
        while place:
            candidate, place = int(self.states.done[place]), int(self.states.before[place])
            if candidate < 0:
                found.append(Choice(first=-1 - candidate, last=-1 - candidate, batch=None, index=0))
                continue
            done, option = self.states.find_done(candidate)
            batch, index = done.batches[done.owners[option]], done.indices[option]
            found.append(Choice(first=batch.first, last=batch.last, batch=batch, index=index))
        return found[::-1]

    def list_divisions(self, columns: Mapping[str, int]) -> dict[str, Sequence[int]]:
        """Return how tensors with some columns are divided, as the ledger has it."""
        rows = self.states.owned[self.place, :, 0]
        return {name: self.states.ledger.divisions[rows[column]].tolist() for name, column in columns.items()}

"""How places in a network were reached: who has what of each tensor, and when every device is done."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from codl.partitioner.arrays import Floats, Ints
from codl.partitioner.chains import ChainBatch
from codl.partitioner.ledger import Ledger
from codl.partitioner.options import Options

Origin = tuple[int, Options | int, int]
"""The state before, and what was done then: one of some options, or the host's step at a position."""


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
        self._live: list[list[tuple[int, int]]] = [[] for _ in range(count + 1)]
        free_from: list[int] = []
        for name, first, last in spans:
            if last <= first:
                continue
            column = next((place for place, busy in enumerate(free_from) if busy < first), len(free_from))
            free_from[column : column + 1] = [last]
            self.columns[name] = column
            for position in range(first + 1, min(last, count) + 1):
                self._live[position].append((column, last))
        self.count = len(free_from)

    def list_live(self, position: int) -> tuple[list[int], Ints]:
        """Return the columns of what is published before a position and read on, and the last readers."""
        live = self._live[position]
        return [column for column, _ in live], np.array([last for _, last in live], np.int64)


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
        self.origins: list[Origin] = [(0, 0, 0)]

    def add(self, clock: Floats, host_us: Floats, met: Ints, owned: Ints, origins: Sequence[Origin]) -> range:
        """Add the states of a place; return where they stand."""
        start, stop = self.count, self.count + len(origins)
        part = slice(start, stop)
        self.clock[part], self.host_us[part], self.met[part] = clock, host_us, met
        self.owned[part] = owned
        self.origins += origins
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
            place, done, option = self.states.origins[place]
            if isinstance(done, int):
                found.append(Choice(first=done, last=done, batch=None, index=0))
                continue
            batch, index = done.batches[done.owners[option]], done.indices[option]
            found.append(Choice(first=batch.first, last=batch.last, batch=batch, index=index))
        return found[::-1]

    def list_divisions(self, columns: Mapping[str, int]) -> dict[str, Sequence[int]]:
        """Return how tensors with some columns are divided, as the ledger has it."""
        rows = self.states.owned[self.place, :, 0]
        return {name: self.states.ledger.divisions[rows[column]].tolist() for name, column in columns.items()}

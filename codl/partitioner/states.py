"""How places in a network were reached: who has what of each tensor, and when every device is done."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from codl.partitioner.chains import ChainBatch
from codl.partitioner.known import ROW, Known
from codl.simulator.arrays import Floats, Ints
from codl.simulator.transfers import TransferCosts


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
        free_from: list[int] = []
        for name, first, last in spans:
            if last <= first:
                continue
            column = next((place for place, busy in enumerate(free_from) if busy < first), len(free_from))
            free_from[column : column + 1] = [last]
            self.columns[name] = column
        self.count = len(free_from)
        self.live: Ints = np.full((count, self.count), -1)
        """[position, column] Position of the last reader of what is published before and read on; else -1."""
        for name, first, last in spans:
            if last > first:
                self.live[first + 1 : last + 1, self.columns[name]] = last


class Columns:
    """Where it stands what is known of a way; what is no time is an integer in the same place.

    Args:
        devices: How many there are.
    """

    def __init__(self, devices: int) -> None:
        self.clock = slice(0, devices)
        """When each device has done what it has to do."""
        self.host_us = devices
        """When the host goes on."""
        self.met = devices + 1
        """The state that it comes from and the devices that the host waits for first: a place among the sets
        of all states."""
        self.candidate = devices + 2
        """What is done then, as the ledger numbers it; or -1 less the position of the host's step."""
        self.steps = slice(self.met, self.candidate + 1)
        """Both."""
        self.marks = devices + 3
        """Equal where what is read on is divided alike."""
        self.count = devices + 4


class States:
    """States, those of one place next to each other; the first of them is before the first unit.

    Args:
        known: What is known of all that may be done.
        moves: What transfers and meetings cost.
        most: Most states.
        start_us: [device] When each device begins.
    """

    def __init__(self, known: Known, moves: TransferCosts, *, most: int, start_us: Floats) -> None:
        self.known, self.count, devices = known, 1, moves.count
        self._devices, self._columns, self._meetings_us = (
            devices,
            Columns(devices),
            moves.synchronization_us[:, None],
        )
        is_in = np.append(moves.members, np.zeros((len(moves.members), 1), bool), axis=1)
        self._awaited: Ints = np.where(is_in, np.arange(devices + 1), self._columns.host_us)
        """[set, device + 1] Which rows of `ways` tell when all of a set are done and the host is."""
        self.ways: Floats = np.zeros((devices + 4, most))
        """[devices + 4, state] All that is known of the way to a state, as in `Columns`."""
        self.clock, self.host_us = self.ways[:devices], self.ways[devices]
        """[device, state] When each device has done what it has to do; [state] when the host went on last."""
        self.clock[:, 0] = start_us
        self.ends: Floats = np.zeros((most, len(moves.members)))
        """[state, set] When the host goes on that waits for a set of devices."""
        self.ends[0] = moves.synchronization_us
        self.firsts: Ints = np.arange(most) << devices
        """[state] The place of a state's first set among those of all states."""
        self.told: Ints = np.zeros((most, *known.start.shape), np.int64)
        """[state, column, fact] What is known of the tensor that a column tells of, as in `Known`."""
        self.told[0] = known.start

    def find_step(self, place: int) -> tuple[int, int]:
        """Return what was done before a state, and the state before that.

        The first is the ledger's candidate, or -1 less the position of the host's step.
        """
        met, done = self.ways[self._columns.steps, place].view(np.int64).tolist()
        return done, met >> self._devices

    def follow(self, ways: Floats) -> range:
        """Add the states of a place that some ways lead to; return where they stand.

        Args:
            ways: All that is known of them, as in `Columns`.
        """
        known, (met, done) = self.known, ways[self._columns.steps].view(np.int64)
        told = self.told.take(met >> self._devices, axis=0)
        told &= known.kept.take(met & (len(known.kept) - 1), axis=0)
        stay, change = known.changes.take(done, axis=1)
        told &= stay
        told |= change
        return self.add(ways, told)

    def add(self, ways: Floats, told: Ints) -> range:
        """Add the states of a place; return where they stand.

        Args:
            ways: How they are reached, as in `Columns`.
            told: What is known of tensors there.
        """
        start, stop = self.count, self.count + len(told)
        part = slice(start, stop)
        self.ways[:, part], self.told[part] = ways, told
        # Of nobody the host has seen all, and meeting nobody takes no time.
        ends = np.maximum.reduce(ways.take(self._awaited, axis=0), axis=1)
        ends += self._meetings_us
        self.ends[part] = ends.T
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
        place, states = self.place, self.states
        while place:
            candidate, place = states.find_step(place)
            if candidate < 0:
                found.append(Choice(first=-1 - candidate, last=-1 - candidate, batch=None, index=0))
                continue
            done, option = states.known.find_done(candidate)
            batch, index = done.batches[done.owners[option]], done.indices[option]
            found.append(Choice(first=batch.first, last=batch.last, batch=batch, index=index))
        return found[::-1]

    def list_divisions(self, columns: Mapping[str, int]) -> dict[str, Sequence[int]]:
        """Return how tensors with some columns are divided, as the ledger has it."""
        rows, divisions = self.states.told[self.place, :, ROW], self.states.known.divisions
        return {name: divisions[rows[column]].tolist() for name, column in columns.items()}

"""Search states of dynamic programming: how a position was reached, and how tensors are divided there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from codl.partitioner.chains import ChainBatch
from codl.simulator.arrays import Floats, Ints

_SEED = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is done with consecutive units: one cut of a chain, or a step of the host."""

    first: int
    last: int
    batch: ChainBatch | None
    """The chain; None for a step of the host."""
    index: int
    """Of the cut."""


class Slots:
    """The slots of search states: each tensor has one from its operator to its last reader.

    A slot holds integers, the *facts* about the tensor: the axis along which it is divided, where the
    interval of each device begins, where it ends; then, for each device, axis, begin and end of what it was
    last sent of the tensor.

    Args:
        tensors: Of devices, with the positions of their operator and of their last reader, in that order.
        numbers: By tensor, its number.
        positions: Number of units.
        devices: Number of devices.
    """

    def __init__(
        self,
        tensors: Sequence[tuple[str, int, int]],
        numbers: Mapping[str, int],
        *,
        positions: int,
        devices: int,
    ) -> None:
        self.columns: dict[str, int] = {}
        """By tensor, its slot; none for tensors that are not read."""
        free_from: list[int] = []
        for name, first, last in tensors:
            if last > first:
                slot = next((place for place, busy in enumerate(free_from) if busy < first), len(free_from))
                free_from[slot : slot + 1] = [last]
                self.columns[name] = slot
        self.count = len(free_from)
        self.live: Ints = np.full((positions, self.count), -1)
        """[position, slot] Position of the last reader of a tensor published before and read on; else -1."""
        self.numbers: Ints = np.zeros((positions, self.count), np.int64)
        """[position, slot] Number of that tensor, as in `TensorSizes`; else 0."""
        for name, first, last in tensors:
            if last > first:
                part = slice(first + 1, last + 1), self.columns[name]
                self.live[part], self.numbers[part] = last, numbers[name]
        self.facts = 5 * devices + 1
        """Number of facts; the first one is the axis, the slices below are those by device."""
        self.low, self.high, self.sent_axis, self.sent_low, self.sent_high = (
            slice(1 + part * devices, 1 + (part + 1) * devices) for part in range(5)
        )
        division = self.count, 1 + 2 * devices
        self._weights = np.random.default_rng(_SEED).integers(1, 1 << 62, division)

    def mark(self, facts: Ints) -> Ints:
        """Return [..., slot] a hash of how each tensor is divided, given [..., slot, fact]."""
        marks: Ints = (facts[..., : self._weights.shape[1]] * self._weights).sum(axis=-1)
        return marks


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchStates:
    """The search states that are kept at one position."""

    clock_us: Floats
    """[device, state] When each device is done."""
    host_us: Floats
    """[state] When the host goes on."""
    ends_us: Floats
    """[state, set] When the host goes on if it waits for a set of devices (numbers as in `TransferCosts`)."""
    facts: Ints
    """[state, slot, fact] Where tensors lie, as in `Slots`."""
    marks: Ints
    """[state, slot] Equal for equal divisions."""
    unseen: Ints
    """[state, slot + 1] Set of devices that the host has not waited for since a tensor was published; at the
    last place, since the start."""
    origins: Sequence["Origin | None"]
    """By state, the state before it and what was done there; None at the start."""

    def list_choices(self, state: int) -> list[Choice]:
        """Return what was chosen from the start to a state."""
        found: list[Choice] = []
        states = self
        while (origin := states.origins[state]) is not None:
            states, state, choice = origin
            found.append(choice)
        return found[::-1]


Origin = tuple[SearchStates, int, Choice]
"""The states of an earlier position, which of them, and what was done there."""

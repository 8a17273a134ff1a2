"""CoDL's greedy chains on real graphs: a base plan for each operator, then chains as long as they gain.

Source:
    CoDL (MobiSys 2022), section 5 and Algorithm 1. A head pays for its sharing here, and devices do not meet
    inside a chain.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np

from codl.ir.graph import FLOAT_BYTES
from codl.partitioner.chains import ChainBatch
from codl.partitioner.enumeration import ChainEnumeration
from codl.partitioner.search_state import Choice
from codl.simulator.arrays import Floats, list_parts
from codl.simulator.cut_grid import WHOLE
from codl.simulator.transfers import TransferCosts

WINDOW = 0.3
"""By how much a chain's share may differ from its head's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseChoice:
    """The fastest way to compute one operator by itself."""

    us: float
    batch: ChainBatch | None
    """How it is split; None where it runs whole."""
    index: int
    """Of the cut; of the device where it runs whole."""


class GreedyChains:
    """Finds a base plan and joins its operators to chains.

    Args:
        finder: What chains cost.
        costs: Of transfers and synchronizations.
    """

    def __init__(self, finder: ChainEnumeration, costs: TransferCosts) -> None:
        self._finder, self._transfers = finder, costs
        self._devices = costs.count
        self._synchronization_us = float(costs.synchronization_us[-1])
        self._each_us: list[list[list[float]]] = (costs.host_us + costs.queue_us).tolist()
        """[source][destination][3]"""
        self._known: dict[tuple[str, int, int, bool], list[float]] = {}
        """What `_find_costs` has returned."""
        self._homes = [
            -1 if unit.is_host else int(np.argmin(finder.find_single_us(place)))
            for place, unit in enumerate(finder.order)
        ]
        """By position, the device that is fastest alone, which has what others have to be sent."""

    def find_base(self, chains: Mapping[int, Sequence[ChainBatch]]) -> list[BaseChoice | None]:
        """Return by position the fastest of all cuts and single devices; None for the host's."""
        found = [
            BaseChoice(us=float(self._finder.find_single_us(place)[device]), batch=None, index=device)
            if device >= 0
            else None
            for place, device in enumerate(self._homes)
        ]
        # Transfers add to slices and the synchronization: where these alone take longer, they are not priced.
        split = [
            batch
            for position, best in enumerate(found)
            for batch in chains.get(position, ())
            if batch.last == position and best and batch.least_us + self._synchronization_us < best.us
        ]
        for batch, us in zip(split, self._price(split), strict=True):
            index, best = int(np.argmin(us)), found[batch.first]
            if best is not None and us[index] < best.us:
                found[batch.first] = BaseChoice(us=float(us[index]), batch=batch, index=index)
        return found

    def run(self, chains: Mapping[int, Sequence[ChainBatch]]) -> list[Choice]:
        """Return what becomes of consecutive units.

        Args:
            chains: By position of the head, the chains that may begin there, with all their candidates.
        """
        base = self.find_base(chains)
        choices: list[Choice] = []
        position = 0
        while position < len(base):
            head = base[position]
            if head is None:
                choices.append(Choice(first=position, last=position, batch=None, index=0))
            elif head.batch is None:
                single = self._finder.make_single(position)
                choices.append(Choice(first=position, last=position, batch=single, index=head.index))
            else:
                choices.append(self._grow(head, head.batch, base, chains[position]))
            position = choices[-1].last + 1
        return choices

    def _grow(
        self,
        head: BaseChoice,
        batch: ChainBatch,
        base: Sequence[BaseChoice | None],
        chains: Sequence[ChainBatch],
    ) -> Choice:
        """Return the chain of largest gain that begins with a head, within the window around its share."""
        best = Choice(first=batch.first, last=batch.last, batch=batch, index=head.index)
        best_gain, share = 0.0, batch.ratios[head.index]
        longer: list[tuple[ChainBatch, float]] = []
        for one in sorted((one for one in chains if one.axis == batch.axis), key=lambda one: one.last):
            members = base[one.first : one.last + 1]
            apart = sum(member.us for member in members if member is not None)
            if apart - (one.least_us + self._synchronization_us) < 0:
                break
            longer.append((one, apart))
        for (one, apart), us in zip(longer, self._price([one for one, _ in longer]), strict=True):
            gains = apart - us
            gains = np.where(np.abs(one.ratios - share) <= WINDOW + 1e-9, gains, -np.inf)
            index = int(np.argmax(gains))
            if gains[index] < 0:
                break
            if gains[index] > best_gain:
                best_gain = float(gains[index])
                best = Choice(first=one.first, last=one.last, batch=one, index=index)
        return best

    def _price(self, batches: Sequence[ChainBatch]) -> list[Floats]:
        """Return what chains take by themselves, [candidate] each: sharing, and the largest sum of slices."""
        if self._transfers.is_free or not batches:
            return [batch.span_us + self._synchronization_us for batch in batches]
        us: Floats = np.concatenate([batch.span_us for batch in batches]) + self._synchronization_us
        stops = np.cumsum([len(batch.span_us) for batch in batches])
        self._add_sharing(us, batches)
        return np.split(us, stops[:-1])

    def _add_sharing(self, us: Floats, batches: Sequence[ChainBatch]) -> None:
        """Add what it costs to send others their parts of tensors, and to have them back.

        Args:
            us: Times [candidate] of all chains, one after the other.
            batches: The chains.
        """
        candidates, lengths, costs = [], [], []
        for batch, part in zip(batches, list_parts(len(one.span_us) for one in batches), strict=True):
            home, mine = self._homes[batch.first], np.arange(part.start, part.stop)
            for tensor, reading in batch.reads.items():
                candidates.append(mine)
                lengths.append(reading.high - reading.low)
                costs.append(self._find_costs(tensor, reading.axis, home, is_back=False))
            for tensor, bounds in batch.bounds.items():
                candidates.append(mine)
                lengths.append(bounds[:, 1:] - bounds[:, :-1])
                costs.append(self._find_costs(tensor, batch.axis, home, is_back=True))
        length = np.concatenate(lengths)
        table = np.array(costs).repeat(list(map(len, lengths)), axis=0)
        call_us, position_us = table[:, : self._devices], table[:, self._devices :]
        each = np.where(length > 0, call_us + position_us * length, 0.0)
        np.add.at(us, np.concatenate(candidates), reduce(np.add, each.T))

    def _find_costs(self, tensor: str, axis: int, home: int, *, is_back: bool) -> list[float]:
        """Return by device what a transfer of a part of a tensor costs, then each position of it, in us.

        Args:
            tensor: The tensor.
            axis: Along which it is cut.
            home: The device that has it, or gets it.
            is_back: Whether it gets it.
        """
        key = tensor, axis, home, is_back
        known = self._known.get(key)
        if known is not None:
            return known
        shape = self._finder.graph.shape(tensor)
        length = 1 if axis == WHOLE else shape[axis]
        size = prod(shape)
        runs = size / shape[1] if len(shape) == 4 and axis == 1 else 1.0
        calls, positions = [0.0] * self._devices, [0.0] * self._devices
        for device in range(self._devices):
            if device != home:
                source, destination = (device, home) if is_back else (home, device)
                call_us, byte_us, run_us = self._each_us[source][destination]
                calls[device] = call_us + run_us * runs
                positions[device] = byte_us * FLOAT_BYTES * size / length
        found = self._known[key] = calls + positions
        return found

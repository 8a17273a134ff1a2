"""CoDL's greedy chains on real graphs: a base plan for each operator, then chains as long as they gain.

Source:
    CoDL (MobiSys 2022), section 5 and Algorithm 1. A head pays for its sharing here, and devices do not meet
    inside a chain.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from codl.ir.graph import FLOAT_BYTES, Graph
from codl.partitioner.arrays import Floats, Ints
from codl.partitioner.chains import WHOLE, ChainBatch
from codl.partitioner.finder import ChainFinder
from codl.partitioner.moves import MoveCosts
from codl.partitioner.order import Unit
from codl.partitioner.states import Choice

WINDOW = 0.3
"""By how much a chain's share may differ from its head's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseChoice:
    """What is best for one operator by itself."""

    us: float
    device: int | None
    """Where it runs whole; None when it is split."""
    batch: ChainBatch | None = None
    index: int = 0


class GreedyChains:
    """Finds a base plan and joins its operators to chains.

    Args:
        graph: The network.
        order: Its units in the order in which they are decided.
        finder: What chains cost.
        moves: What transfers and meetings cost.
        devices: How many there are.
    """

    def __init__(
        self, graph: Graph, order: Sequence[Unit], finder: ChainFinder, moves: MoveCosts, *, devices: int
    ) -> None:
        self._graph, self._order, self._finder, self._moves = graph, tuple(order), finder, moves
        self._devices = devices
        everyone = np.ones((1, devices), bool)
        self._meeting_us = float(moves.find_meeting_us(everyone)[0])
        self._costs: list[list[list[float]]] = (moves.host_us + moves.queue_us).tolist()
        """[source][destination][3]"""
        self._returns: dict[tuple[str, int, int, int], tuple[Ints, Floats]] = {}
        """By tensor, axis, home and identity of its boundaries, with these: what it costs to have it back."""

    def find_base(self, chains: Mapping[int, Sequence[ChainBatch]]) -> list[BaseChoice | None]:
        """Return by position the best of all axes, shares and devices alone; None for the host's."""
        found: list[BaseChoice | None] = []
        for position, unit in enumerate(self._order):
            if unit.is_host:
                found.append(None)
                continue
            whole = self._finder.find_single_us(position)
            device = int(np.argmin(whole))
            best = BaseChoice(us=float(whole[device]), device=device)
            for batch in chains.get(position, ()):
                # Sharing adds to slices and the meeting: what these alone rule out needs no price.
                if batch.last != position or batch.least_us + self._meeting_us >= best.us:
                    continue
                us = self._price(batch)
                index = int(np.argmin(us))
                if us[index] < best.us:
                    best = BaseChoice(us=float(us[index]), device=None, batch=batch, index=index)
            found.append(best)
        return found

    def run(self, chains: Mapping[int, Sequence[ChainBatch]]) -> list[Choice]:
        """Return what becomes of each stretch of units.

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
                choices.append(Choice(first=position, last=position, batch=single, index=head.device or 0))
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
        longer = sorted((one for one in chains if one.axis == batch.axis), key=lambda one: one.last)
        for one in longer:
            members = base[one.first : one.last + 1]
            apart = sum(member.us for member in members if member is not None)
            if apart - (one.least_us + self._meeting_us) < 0:
                break
            gains = apart - self._price(one)
            gains = np.where(np.abs(one.ratios - share) <= WINDOW + 1e-9, gains, -np.inf)
            index = int(np.argmax(gains))
            if gains[index] < 0:
                break
            if gains[index] > best_gain:
                best_gain = float(gains[index])
                best = Choice(first=one.first, last=one.last, batch=one, index=index)
        return best

    def _price(self, batch: ChainBatch) -> Floats:
        """Return [candidate] what a chain takes by itself: sharing, and the largest sum of slices."""
        us: Floats = batch.span_us + self._meeting_us
        if self._moves.is_free:
            return us
        home = int(np.argmin(self._finder.find_single_us(batch.first)))
        for tensor, reading in batch.reads.items():
            us = us + self._share(tensor, reading.axis, reading.high - reading.low, home=home, is_back=False)
        for tensor, bounds in batch.bounds.items():
            key = tensor, batch.axis, home, id(bounds)  # chains that end alike have the same ones
            if key not in self._returns:
                shared = self._share(tensor, batch.axis, np.diff(bounds, axis=1), home=home, is_back=True)
                self._returns[key] = bounds, shared
            us = us + self._returns[key][1]
        return us

    def _share(self, tensor: str, axis: int, lengths: Ints, *, home: int, is_back: bool) -> Floats:
        """Return [candidate] what it costs to send others their parts of a tensor, or to have them back."""
        shape = self._graph.shape(tensor)
        length = 1 if axis == WHOLE else shape[axis]
        size = prod(shape)
        runs = size / shape[1] if len(shape) == 4 and axis == 1 else 1.0
        found = np.zeros(len(lengths))
        for device in range(self._devices):
            if device == home:
                continue
            source, destination = (device, home) if is_back else (home, device)
            call_us, byte_us, run_us = self._costs[source][destination]
            mine = lengths[:, device]
            us = (call_us + run_us * runs) + (byte_us * FLOAT_BYTES * size / length) * mine
            found += np.where(mine > 0, us, 0.0)
        return found

"""Which candidates of chains cannot be part of a fast way: there is a faster one through the same stretch.

A candidate that takes longer than another way through the same operators, all meetings and transfers of that
way paid and half of its own, is not looked at; a stretch that does so even where it pays for none is not
followed further back.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import prod

import numpy as np

from codl.ir.graph import FLOAT_BYTES, Graph
from codl.partitioner.chains import ChainBatch
from codl.partitioner.options import Limits
from codl.simulator.transfers import TransferCosts

_OWN = 0.5
"""How much a candidate pays of the most that it takes to share what it reads and publishes: cut as its
neighbours are, it shares less."""
_FOLLOWED = 1.04
"""By how much longer stretches may take that are followed further back: greedy chains take some that others
pass by."""


class Ways:
    """The fastest ways known through stretches, found while these grow.

    Args:
        singles: By position, whole operators; none for the host's.
        graph: The network.
        moves: What transfers and meetings cost.
        most: Longest chain, in nodes.
    """

    def __init__(
        self, singles: Mapping[int, ChainBatch], graph: Graph, moves: TransferCosts, *, most: int
    ) -> None:
        self._graph, self._moves = graph, moves
        self._meeting_us = float(max(moves.synchronization_us[-1], moves.ending_us[-1]))
        self._sending: dict[str, float] = {}
        self._sharing_us: dict[tuple[int, int], float] = {}
        """By first and last position of a chain, the most that it pays for sharing."""
        self._least = np.full((most, 1 + max(singles, default=0)), np.inf)
        """[nodes - 1, first position]"""
        for place, batch in singles.items():
            self._least[0, place] = batch.least_us + self.find_sharing_us((*batch.reads, *batch.bounds))
        self._apart_us = _find_apart_us(singles, moves)

    def find_sharing_us(self, tensors: Iterable[str]) -> float:
        """Return the most that a stretch pays for a meeting and for tensors that it reads and publishes."""
        us = self._meeting_us
        if self._moves.is_free:
            return us
        for tensor in tensors:
            if tensor not in self._sending:
                self._sending[tensor] = _find_most_us(self._graph.shape(tensor), self._moves)
            us += self._sending[tensor]
        return us

    def grow(self, length: int) -> None:
        """Find ways through stretches of so many nodes that consist of ways through shorter ones."""
        count = self._least.shape[1] - length + 1
        for middle in range(length - 1) if count > 0 else ():
            behind = self._least[length - 2 - middle, middle + 1 :][:count]
            way = self._least[middle, :count] + behind
            self._least[length - 1, :count] = np.minimum(self._least[length - 1, :count], way)

    def note(self, first: int, last: int, *, least_us: float, sharing_us: float) -> None:
        """Note that a chain is a way through a stretch."""
        place = last - first, first
        self._least[place] = min(self._least[place], least_us + sharing_us)
        self._sharing_us[first, last] = sharing_us

    def find_limit_us(self, first: int, last: int) -> float:
        """Return what no candidate of a chain need take longer than, for it to be followed further back."""
        apart_us = self._apart_us.get(first, 0.0)
        return _FOLLOWED * float(self._least[last - first, first]) + self._meeting_us + apart_us

    @property
    def limits_us(self) -> Limits:
        """By first and last position, what no candidate of a chain need take longer than."""
        least = self._least.tolist()
        return {
            (first, last): least[last - first][first] - _OWN * us + self._apart_us.get(first, 0.0)
            for (first, last), us in self._sharing_us.items()
        }


def _find_apart_us(singles: Mapping[int, ChainBatch], moves: TransferCosts) -> dict[int, float]:
    """Return by position by how much devices may still be apart there that do not begin together.

    Who begins first has less and less ahead, the more all of them have done.
    """
    left_us = float(np.max(len(singles) * moves.delay_us))
    found: dict[int, float] = {}
    for place in sorted(singles):
        if left_us <= 0:
            break
        found[place] = left_us
        left_us -= singles[place].least_us / moves.count
    return found


def _find_most_us(shape: Sequence[int], moves: TransferCosts) -> float:
    """Return the most that it takes to send parts of a tensor from all to all others.

    Whatever a device has of it, the others have not: of its bytes none goes from more than one.
    """
    size = float(prod(shape))
    costs = moves.host_us + moves.queue_us
    calls = costs[:, :, 0] + costs[:, :, 2] * (size / shape[1] if len(shape) == 4 else 1.0)
    bytes_ = costs[:, :, 1].sum(axis=1).max() * size * FLOAT_BYTES
    return float(calls.sum() + bytes_)

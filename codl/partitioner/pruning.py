"""Pruning: chains are dropped where another way through the same operators is surely faster.

A candidate is dropped that takes longer than another way through its operators, which pays all of its
synchronizations and transfers while the candidate pays half of its own. A chain is not made longer where it
would be dropped even if it paid for none.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import prod

import numpy as np

from codl.ir.graph import FLOAT_BYTES, Graph
from codl.partitioner.candidates import Limits
from codl.partitioner.chains import ChainBatch
from codl.simulator.transfers import TransferCosts

_OWN_SHARE = 0.5
"""Share of its highest possible transfer costs that a candidate pays: cut as its neighbours, it pays less."""
_LONGER = 1.04
"""By what factor chains may be slower that are still made longer: greedy chains take some of them."""


class Pruning:
    """The fastest known ways through consecutive operators, updated while chains become longer.

    Args:
        singles: By position, whole operators; none for the host's.
        graph: The network.
        costs: Of transfers and synchronizations.
        most: Longest chain, in nodes.
    """

    def __init__(
        self, singles: Mapping[int, ChainBatch], graph: Graph, costs: TransferCosts, *, most: int
    ) -> None:
        self._graph, self._costs = graph, costs
        self._synchronization_us = float(max(costs.synchronization_us[-1], costs.ending_us[-1]))
        self._transfer_us: dict[str, float] = {}
        self._paid_us: dict[tuple[int, int], float] = {}
        """By first and last position of a chain, its highest possible costs beyond slices."""
        self._fastest_us = np.full((most, 1 + max(singles, default=0)), np.inf)
        """[nodes - 1, first position]"""
        for place, batch in singles.items():
            self._fastest_us[0, place] = batch.least_us + self._find_paid_us((*batch.reads, *batch.bounds))
        self._apart_us = _find_apart_us(singles, costs)

    def lengthen(self, length: int) -> None:
        """Combine ways through consecutive operators to ways through ``length`` operators."""
        count = self._fastest_us.shape[1] - length + 1
        for middle in range(length - 1) if count > 0 else ():
            behind = self._fastest_us[length - 2 - middle, middle + 1 :][:count]
            way = self._fastest_us[middle, :count] + behind
            self._fastest_us[length - 1, :count] = np.minimum(self._fastest_us[length - 1, :count], way)

    def note(self, first: int, last: int, least_us: float, tensors: Iterable[str]) -> None:
        """Note that a chain is a way through its operators.

        Args:
            first: Position of its head.
            last: Position of its tail.
            least_us: What its slices take with the best cut.
            tensors: What it reads from outside and publishes.
        """
        paid_us = self._paid_us[first, last] = self._find_paid_us(tensors)
        place = last - first, first
        self._fastest_us[place] = min(self._fastest_us[place], least_us + paid_us)

    def may_lengthen(self, first: int, last: int, least_us: float) -> bool:
        """Return whether a chain may be part of a fast way, itself or made longer; arguments as in `note`."""
        limit_us = _LONGER * float(self._fastest_us[last - first, first]) + self._synchronization_us
        return least_us <= limit_us + self._apart_us.get(first, 0.0)

    @property
    def limits_us(self) -> Limits:
        """By first and last position, what no candidate of a chain may take longer than."""
        fastest = self._fastest_us.tolist()
        return {
            (first, last): fastest[last - first][first] - _OWN_SHARE * us + self._apart_us.get(first, 0.0)
            for (first, last), us in self._paid_us.items()
        }

    def _find_paid_us(self, tensors: Iterable[str]) -> float:
        """Return the highest cost of a synchronization and of transfers of some tensors."""
        us = self._synchronization_us
        if self._costs.is_free:
            return us
        for tensor in tensors:
            if tensor not in self._transfer_us:
                self._transfer_us[tensor] = _find_highest_us(self._graph.shape(tensor), self._costs)
            us += self._transfer_us[tensor]
        return us


def _find_apart_us(singles: Mapping[int, ChainBatch], costs: TransferCosts) -> dict[int, float]:
    """Return by position how far apart the clocks of devices may still be that do not begin together.

    The device that begins first does more of the work, until all are level.
    """
    left_us = float(np.max(len(singles) * costs.delay_us))
    found: dict[int, float] = {}
    for place in sorted(singles):
        if left_us <= 0:
            break
        found[place] = left_us
        left_us -= singles[place].least_us / costs.count
    return found


def _find_highest_us(shape: Sequence[int], costs: TransferCosts) -> float:
    """Return the highest cost of transfers of a tensor: each device has a part, and all others read it."""
    size = float(prod(shape))
    us = costs.host_us + costs.queue_us
    calls = us[:, :, 0] + us[:, :, 2] * (size / shape[1] if len(shape) == 4 else 1.0)
    bytes_ = us[:, :, 1].sum(axis=1).max() * size * FLOAT_BYTES
    return float(calls.sum() + bytes_)

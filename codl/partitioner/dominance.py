"""Which candidates of chains cannot be part of a fast way: there is a faster one through the same stretch.

A candidate that takes longer than another way through the same operators, all meetings and transfers of that
way and around it paid, is not looked at.
"""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from codl.ir.graph import FLOAT_BYTES, Graph
from codl.partitioner.chains import ChainBatch
from codl.partitioner.moves import MoveCosts
from codl.partitioner.options import Limits

_UNEVEN = 1.03
"""By how much longer a candidate may take at that: whole tiles divide work unevenly, and while nobody waits
what one step divides badly the next one makes good."""


def find_limits(
    chains: Mapping[int, Sequence[ChainBatch]],
    singles: Mapping[int, ChainBatch],
    graph: Graph,
    moves: MoveCosts,
    *,
    most: int,
) -> Limits:
    """Return, by first and last position, what no candidate of a chain need take longer than.

    Args:
        chains: By position of the head.
        singles: By position, whole operators; none for the host's.
        graph: The network.
        moves: What transfers and meetings cost.
        most: Longest chain, in nodes.
    """
    meeting_us = float(moves.find_meeting_us(np.ones((1, moves.count), bool))[0])
    sending: dict[str, float] = {}
    around: dict[tuple[int, int], float] = {}
    count = 1 + max(singles, default=0)
    ways = np.full((most, count), np.inf)
    for batch in (*singles.values(), *(batch for batches in chains.values() for batch in batches)):
        us = meeting_us
        if not moves.is_free:
            for tensor in (*batch.reads, *batch.bounds):
                if tensor not in sending:
                    sending[tensor] = _find_most_us(graph.shape(tensor), moves)
                us += sending[tensor]
        key = batch.first, batch.last
        place = batch.last - batch.first, batch.first
        ways[place] = min(ways[place], batch.least_us + us)
        around[key] = max(around.get(key, 0.0), us)
    for length in range(1, min(most, count)):
        firsts = slice(0, count - length)
        for middle in range(length):
            behind = ways[length - 1 - middle, middle + 1 :][: count - length]
            ways[length, firsts] = np.minimum(ways[length, firsts], ways[middle, firsts] + behind)
    return {
        (first, last): _UNEVEN * float(ways[last - first, first]) + us for (first, last), us in around.items()
    }


def _find_most_us(shape: Sequence[int], moves: MoveCosts) -> float:
    """Return the most that it takes to send parts of a tensor from all to all others."""
    size = float(prod(shape))
    amounts = np.array([1.0, size * FLOAT_BYTES, size / shape[1] if len(shape) == 4 else 1.0])
    return float(((moves.host_us + moves.queue_us) @ amounts).sum())

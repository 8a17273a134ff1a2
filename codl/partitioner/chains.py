"""Chains as arrays over their candidate cuts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from codl.ir.graph import Graph, Node
from codl.simulator.arrays import Floats, Ints
from codl.simulator.cut_grid import FAR, WHOLE


@dataclass(slots=True)
class Reading:
    """What each device needs of a tensor from outside a chain."""

    axis: int
    """Along which the intervals lie, or `WHOLE`."""
    low: Ints
    """[candidate, device]; an empty interval needs nothing and begins at `FAR`."""
    high: Ints
    """[candidate, device]; 0 where an interval is empty."""

    def choose(self, places: Ints) -> "Reading":
        """Return the reading of some candidates."""
        return Reading(axis=self.axis, low=self.low[places], high=self.high[places])

    def join(self, other: "Reading") -> "Reading":
        """Return what both need together."""
        if self.axis != other.axis:
            is_any = (self.high > self.low) | (other.high > other.low)
            return Reading(axis=WHOLE, low=np.where(is_any, 0, FAR), high=np.where(is_any, 1, 0))
        return Reading(self.axis, np.minimum(self.low, other.low), np.maximum(self.high, other.high))


@dataclass(slots=True)
class ChainBatch:
    """One chain, cut along one axis at all candidate cuts."""

    first: int
    """Position of the head in the order."""
    last: int
    """Position of the tail."""
    axis: int
    bounds: Mapping[str, Ints]
    """Published tensor -> [candidate, device + 1]."""
    reads: Mapping[str, Reading]
    """Tensor from outside -> what is needed of it."""
    busy_us: Floats
    """[candidate, device] Sum of slices, contention included."""
    span_us: Floats
    """[candidate] Time of the slowest device, in us."""
    ratios: Floats
    """[candidate] Share of the tail's output that the first device has."""
    least_us: float
    """The least of `span_us`."""


def make_single(graph: Graph, nodes: Sequence[Node], position: int, alone_us: Floats) -> ChainBatch:
    """Return the candidates that run operators whole: one for each device.

    Args:
        graph: The network.
        nodes: One operator; or several, each of which alone reads the output of the one before.
        position: Where the first one stands in the order.
        alone_us: [device] What they take.
    """
    inside = {node.output for node in nodes[:-1]}
    reads = [name for node in nodes for name in graph.activations(node) if name not in inside]
    bounds, low, high, ratios = _list_whole(len(alone_us))
    return ChainBatch(
        first=position,
        last=position + len(nodes) - 1,
        axis=WHOLE,
        bounds={nodes[-1].output: bounds},
        reads={name: Reading(axis=WHOLE, low=low, high=high) for name in reads},
        busy_us=np.diag(alone_us),
        span_us=alone_us,
        ratios=ratios,
        least_us=float(alone_us.min()),
    )


@lru_cache(maxsize=16)
def _list_whole(devices: int) -> tuple[Ints, Ints, Ints, Floats]:
    """Return boundaries of a tensor that each device has whole in turn, their edges, and first shares."""
    bounds = np.tril(np.ones((devices + 1, devices), np.int64), -1).T
    low, high = bounds[:, :-1], bounds[:, 1:]
    return bounds, low, high, high[:, 0].astype(np.float64)

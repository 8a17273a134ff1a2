"""What it takes to send parts of tensors from where they are to where they are read: many ways at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from codl.ir.graph import FLOAT_BYTES, Graph
from codl.partitioner.chains import WHOLE
from codl.partitioner.ledger import list_parts
from codl.partitioner.moves import MoveCosts
from codl.partitioner.options import Demand, Demands
from codl.partitioner.positions import Flags, Floats, Ints


@dataclass(frozen=True, slots=True)
class Crossing:
    """What devices read of tensors that others have."""

    rows: Ints
    """[tensor, state, ...] How the tensors are divided, as in a `Ledger`."""
    demands: Demands
    """What is read of them."""
    order: Ints
    """[source] Who reads from each."""
    crosses: Flags
    """[tensor, state, candidate, source] Whether something is sent."""
    common: Ints
    """[tensor, state, candidate, source] How much of it lies along a common axis."""


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Of some tensors."""

    lengths: Floats
    """[tensor, axis] Of each axis, 1 at the end for those taken whole."""
    bytes_: Floats
    """[tensor]"""
    runs: Floats
    """[tensor] Runs of neighbouring bytes in a part that was cut between channels."""


class Sending:
    """Prices transfers.

    Args:
        graph: The network.
        moves: What transfers cost.
    """

    def __init__(self, graph: Graph, moves: MoveCosts) -> None:
        assert WHOLE == -1
        self._graph, self._moves, self._count = graph, moves, moves.count
        tensors = [*graph.inputs, *(node.output for node in graph.nodes)]
        self._places = {name: place for place, name in enumerate(tensors)}
        self._sizes = _measure([graph.shape(name) for name in tensors])

    def price(self, crossing: Crossing) -> tuple[Floats, Floats | None]:
        """Return the host's time [state, candidate], and that of readers' queues [..., source], if any."""
        count, order, demands = self._count, crossing.order, crossing.demands
        rows, axes = crossing.rows, demands.axes
        sizes = self._find_sizes(demands.tensors)
        own_axes, tensors = rows[:, :, 0], np.arange(len(rows))[:, None]
        lengths = sizes.lengths[tensors, axes]
        extents = rows[:, :, 1 + count : 1 + 2 * count] - rows[:, :, 1 : 1 + count]
        owned = np.maximum(extents, 0) / sizes.lengths[tensors, own_axes][:, :, None]
        needed = np.maximum(demands.high - demands.low, 0)[:, :, order] / lengths[:, :, None]
        shared = np.maximum(crossing.common, 0) / lengths[:, None, :, None]
        is_same = (own_axes[:, :, None] == axes[:, None])[..., None]
        parts = np.where(is_same, shared, owned[:, :, None] * needed[:, None])
        bytes_ = parts * sizes.bytes_[:, None, None, None]
        sources, runs = np.arange(count), None
        if self._moves.host_us[..., 2].any() or self._moves.queue_us[..., 2].any():
            is_apart = (own_axes == 1)[:, :, None] | (axes == 1)[:, None]
            runs = np.where(is_apart, sizes.runs[:, None, None], 1.0)[..., None]

        def add(costs: Floats) -> Floats:
            us = costs[:, 0] + bytes_ * costs[:, 1]
            return (us if runs is None else us + runs * costs[:, 2]) * crossing.crosses

        host_us: Floats = np.add.reduce(add(self._moves.host_us[sources, order]), axis=(0, 3))
        queue = self._moves.queue_us[sources, order]
        return host_us, np.add.reduce(add(queue), axis=0) if queue.any() else None

    def bring(self, tensor: str, demand: Demand) -> Floats:
        """Return what it takes the queues [candidate, device] that they are sent what the host has."""
        sizes, queue = self._find_sizes((tensor,)), self._moves.queue_us[self._count]
        part = np.maximum(demand.high - demand.low, 0) / sizes.lengths[0, demand.axes][:, None]
        runs = np.where(demand.axes == 1, sizes.runs[0], 1.0)[:, None]
        us = queue[:, 0] + part * sizes.bytes_[0] * queue[:, 1] + runs * queue[:, 2]
        return np.where(part > 0, us, 0.0)

    def find_reading_us(self, tensor: str, owned: Sequence[int]) -> float:
        """Return what it takes the host to read an output of the network that is divided so."""
        sizes, axis, found = self._find_sizes((tensor,)), owned[0], 0.0
        runs = sizes.runs[0] if axis == 1 else 1.0
        for (low, high), costs in zip(list_parts(owned), self._moves.reading_us, strict=True):
            if high > low:
                part = (high - low) / sizes.lengths[0, axis]
                found += float(costs[0] + part * sizes.bytes_[0] * costs[1] + runs * costs[2])
        return found

    def _find_sizes(self, tensors: Sequence[str]) -> _Sizes:
        places, known = [self._places[name] for name in tensors], self._sizes
        return _Sizes(known.lengths[places], known.bytes_[places], known.runs[places])


def _measure(shapes: Sequence[tuple[int, ...]]) -> _Sizes:
    lengths = np.ones((len(shapes), 1 + max(map(len, shapes), default=0)))
    for row, shape in zip(lengths, shapes, strict=True):
        row[: len(shape)] = shape
    counts = [float(prod(shape)) for shape in shapes]
    runs = [
        count / shape[1] if len(shape) == 4 and shape[1] else 1.0
        for count, shape in zip(counts, shapes, strict=True)
    ]
    return _Sizes(lengths, np.array(counts) * FLOAT_BYTES, np.array(runs))

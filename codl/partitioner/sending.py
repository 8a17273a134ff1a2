"""How large tensors are that are sent, and what it takes the host to read them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from codl.ir.graph import FLOAT_BYTES, Graph
from codl.partitioner.arrays import Floats
from codl.partitioner.chains import WHOLE
from codl.partitioner.ledger import list_parts
from codl.partitioner.moves import MoveCosts


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of some tensors."""

    lengths: Floats
    """[tensor, axis] Of each axis, 1 at the end for those taken whole."""
    bytes_: Floats
    """[tensor]"""
    runs: Floats
    """[tensor] Runs of neighbouring bytes in a part that was cut between channels."""


class Sending:
    """Knows sizes of tensors, and prices what the host reads.

    Args:
        graph: The network.
        moves: What transfers cost.
    """

    def __init__(self, graph: Graph, moves: MoveCosts) -> None:
        assert WHOLE == -1
        self._graph, self._moves = graph, moves
        tensors = ["", *graph.inputs, *(node.output for node in graph.nodes)]
        self._places = {name: place for place, name in enumerate(tensors)}
        self._sizes = _measure([(), *map(graph.shape, tensors[1:])])

    def find_reading_us(self, tensor: str, owned: Sequence[int]) -> float:
        """Return what it takes the host to read an output of the network that is divided so."""
        sizes, axis, found = self.find_sizes((tensor,)), owned[0], 0.0
        runs = sizes.runs[0] if axis == 1 else 1.0
        for (low, high), costs in zip(list_parts(owned), self._moves.reading_us, strict=True):
            if high > low:
                part = (high - low) / sizes.lengths[0, axis]
                found += float(costs[0] + part * sizes.bytes_[0] * costs[1] + runs * costs[2])
        return found

    def find_sizes(self, tensors: Sequence[str]) -> Sizes:
        """Return the sizes of some tensors."""
        places, known = [self._places[name] for name in tensors], self._sizes
        return Sizes(known.lengths[places], known.bytes_[places], known.runs[places])


def _measure(shapes: Sequence[tuple[int, ...]]) -> Sizes:
    lengths = np.ones((len(shapes), 1 + max(map(len, shapes), default=0)))
    for row, shape in zip(lengths, shapes, strict=True):
        row[: len(shape)] = shape
    counts = [float(prod(shape)) for shape in shapes]
    runs = [
        count / shape[1] if len(shape) == 4 and shape[1] else 1.0
        for count, shape in zip(counts, shapes, strict=True)
    ]
    return Sizes(lengths, np.array(counts) * FLOAT_BYTES, np.array(runs))

"""How much slower devices are beside each other, for many candidates at once."""

from collections.abc import Sequence
from itertools import product

import numpy as np

from codl.latency.predictor import Predictor
from codl.partitioner.arrays import Floats


class Slowdowns:
    """What devices do to each other while they work side by side.

    Args:
        predictors: One for each device.
    """

    def __init__(self, predictors: Sequence[Predictor]) -> None:
        self._count = len(predictors)
        self._tables = read_slowdowns(predictors)
        others = ~np.eye(self._count, dtype=bool)[:, :, None, None]
        self._disturbs = ((self._tables != 1) & others).any(axis=(2, 3))

    def apply(self, sums: Floats) -> Floats:
        """Return [candidate, device] times beside each other: as slow as what others do, while they do it.

        Args:
            sums: [candidate, device, 2] Time alone and memory's part of it.
        """
        alone = sums[:, :, 0]
        if not self._disturbs.any():
            return alone.copy()
        bound = np.minimum(sums[:, :, 1] / np.maximum(alone, 1e-9), 1.0)
        free = 1 - bound
        slowed = alone.copy()
        for one, other in product(range(self._count), repeat=2):
            if self._disturbs[one, other]:
                (calm, mixed), (disturbed, both) = self._tables[one, other].tolist()
                slow = free[:, one] * (calm * free[:, other] + mixed * bound[:, other])
                slow += bound[:, one] * (disturbed * free[:, other] + both * bound[:, other])
                slowed[:, one] *= np.where(alone[:, other] > 0, slow, 1.0)
        if self._count > 2:
            return slowed
        beside = np.minimum(slowed[:, :1], slowed[:, 1:])
        return np.where(slowed > beside, beside + (1 - beside / np.maximum(slowed, 1e-9)) * alone, slowed)


def read_slowdowns(predictors: Sequence[Predictor]) -> Floats:
    """Return [device, other, 2, 2] how much slower each sort of work is beside each sort of the other's."""
    found = np.ones((len(predictors), len(predictors), 2, 2))
    for (index, one), (place, other) in product(enumerate(predictors), repeat=2):
        neighbour = one.profile.neighbours.get(other.profile.name)
        if index != place and neighbour is not None:
            found[index, place] = neighbour.slowdown
    return found

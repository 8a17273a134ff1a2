"""Contention: how much longer devices take while others compute, for many candidates at once."""

from collections.abc import Sequence
from itertools import product

import numpy as np

from codl.latency.predictor import Predictor
from codl.latency.profile import mix_slowdown
from codl.simulator.arrays import Floats


class Contention:
    """Adds contention to the times of devices that work at the same time.

    Args:
        predictors: One for each device.
    """

    def __init__(self, predictors: Sequence[Predictor]) -> None:
        self._count = len(predictors)
        self._slowdowns = read_slowdowns(predictors)
        self._has_any = (self._slowdowns != 1).any(axis=(2, 3))

    def apply(self, sums: Floats) -> Floats:
        """Return [candidate, device] times in us of devices that begin together, contention included.

        Args:
            sums: [candidate, device, 2] Time in us of each device alone, and the part that memory limits.
        """
        alone = sums[:, :, 0]
        slowed = alone.copy()
        if not self._has_any.any():
            return slowed
        bound = np.minimum(sums[:, :, 1] / np.maximum(alone, 1e-9), 1.0)
        for one, other in product(range(self._count), repeat=2):
            if self._has_any[one, other]:
                slow = mix_slowdown(self._slowdowns[one, other].tolist(), bound[:, one], bound[:, other])
                slowed[:, one] *= np.where(alone[:, other] > 0, slow, 1.0)
        if self._count > 2:
            return slowed
        # The slower device goes on alone when the other is done.
        together = np.minimum(slowed[:, :1], slowed[:, 1:])
        rest = (1 - together / np.maximum(slowed, 1e-9)) * alone
        return np.where(slowed > together, together + rest, slowed)


def read_slowdowns(predictors: Sequence[Predictor]) -> Floats:
    """Return [device, other, 2, 2] by what factor a device is slower while another one works; 1 if unknown.

    The last two axes are the device's own work and the other's, each compute-bound or memory-bound.
    """
    found = np.ones((len(predictors), len(predictors), 2, 2))
    for (index, one), (place, other) in product(enumerate(predictors), repeat=2):
        neighbour = one.profile.neighbours.get(other.profile.name)
        if index != place and neighbour is not None:
            found[index, place] = neighbour.slowdown
    return found

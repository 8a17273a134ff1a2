"""Costs of a synchronization: the time to start devices and to wait for them."""

from collections.abc import Sequence
from itertools import combinations, permutations

from codl.latency.predictor import Predictor

_P95_DEVIATIONS = 1.645
"""Standard deviations above the mean at which the 95th percentile of a normal distribution lies."""


def find_synchronization_us(
    predictors: Sequence[Predictor], devices: Sequence[int], *, is_signalled: bool = False
) -> float:
    """Return the time in us to start some devices and wait for them, beyond their work.

    Args:
        predictors: One for each device of the plan.
        devices: Indices of those that are waited for, at least one.
        is_signalled: Whether devices wait for each other, and not the host for them.
    """
    if is_signalled:
        devices = range(len(predictors))
    if len(devices) == 1:
        return predictors[devices[0]].profile.wait_us
    return max(
        one.find_meeting(other.profile.name, is_signalled=is_signalled).median_us
        for one, other in combinations((predictors[device] for device in devices), 2)
    )


def find_synchronization_spread_us(predictors: Sequence[Predictor], *, is_signalled: bool = False) -> float:
    """Return the standard deviation of a synchronization of all devices, in us; 0 for a single device.

    Args:
        predictors: One for each device of the plan.
        is_signalled: Whether devices wait for each other, and not the host for them.
    """
    found = [
        one.find_meeting(other.profile.name, is_signalled=is_signalled)
        for one, other in permutations(predictors, 2)
    ]
    return max((one.p95_us - one.median_us for one in found), default=0.0) / _P95_DEVIATIONS


def find_delays_us(predictors: Sequence[Predictor], launches: Sequence[float]) -> list[float]:
    """Return by how many us each device begins later, as the host first enqueues the others' launches.

    Args:
        predictors: One for each device of the plan.
        launches: By device, launches that are enqueued at once.
    """
    return [
        sum(
            count * one.find_handing_us(other.profile.name)
            for other, count in zip(predictors, launches, strict=True)
            if other is not one
        )
        for one in predictors
    ]

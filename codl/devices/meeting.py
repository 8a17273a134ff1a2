"""Meetings: in which order the host starts devices and waits for them."""

from collections.abc import Collection, Iterator, Sequence
from enum import Enum

from codl.machine import DeviceInfo

_START_US = {"intel": 11.0, "nvidia": 10.5, "pocl": 46.0}
"""Empty launch and wait of known drivers; a driver nobody measured goes first."""


def start_order(devices: Sequence[DeviceInfo]) -> tuple[int, ...]:
    """Return the device indices in the order their queues are fed: slowest to start first."""
    return tuple(sorted(range(len(devices)), key=lambda i: -_START_US.get(devices[i].driver, float("inf"))))


class Turn(Enum):
    """What the host does with a device when devices meet."""

    FEED = "feed"
    """Enqueues all that the device is to do, and flushes its queue."""
    WAIT = "wait"
    """Waits until the device has done it."""


def take_turns(
    devices: Sequence[DeviceInfo], *, fed: Collection[int], awaited: Sequence[int]
) -> Iterator[tuple[Turn, int]]:
    """Yield what the host does at a meeting, in order: feeds everyone, slowest to start first, then waits.

    Args:
        devices: All devices of the plan.
        fed: Indices of those that have something to do.
        awaited: Indices of those to wait for.
    """
    for index in start_order(devices):
        if index in fed:
            yield Turn.FEED, index
    for index in awaited:
        yield Turn.WAIT, index

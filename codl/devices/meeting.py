"""Meetings: in which order the host starts devices and waits for them."""

from collections.abc import Sequence

from codl.machine import DeviceInfo

_START_US = {"intel": 11.0, "nvidia": 10.5, "pocl": 46.0}
"""Empty launch and wait of known drivers; a driver nobody measured goes first."""


def start_order(devices: Sequence[DeviceInfo]) -> tuple[int, ...]:
    """Return the device indices in the order their queues are fed: slowest to start first."""
    return tuple(sorted(range(len(devices)), key=lambda i: -_START_US.get(devices[i].driver, float("inf"))))

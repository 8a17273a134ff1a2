"""Synchronization: whether devices wait for each other, and in which order the host starts them."""

import platform
from collections.abc import Sequence

from codl.devices.limits import count_cores, read_switch
from codl.machine import DeviceInfo, DeviceKind

SIGNALS_VARIABLE = "CODL_SIGNALS"
_MOST_DEVICES = 31
"""Bits of an int that say which devices to wait for."""
_ORDERED = ("x86_64", "AMD64")
"""Processors on which other cores see writes in their order; OpenCL 1.2 does not promise it."""

_START_US = {"intel": 11.0, "nvidia": 10.5, "pocl": 46.0}
"""Empty launch and wait of known drivers; an unknown driver goes first."""


def start_order(devices: Sequence[DeviceInfo]) -> tuple[int, ...]:
    """Return the device indices in the order their queues are fed: slowest to start first."""
    return tuple(sorted(range(len(devices)), key=lambda i: -_START_US.get(devices[i].driver, float("inf"))))


def can_signal(devices: Sequence[DeviceInfo]) -> bool:
    """Return whether kernels of these devices may wait for each other.

    Each device needs cores of its own while one of its kernels waits, and memory in which the others see
    writes at once. `CODL_SIGNALS=0` forbids it.
    """
    return (
        1 < len(devices) <= _MOST_DEVICES
        and all(info.kind is DeviceKind.CPU and info.is_unified for info in devices)
        and sum(info.units for info in devices) <= count_cores()
        and platform.machine() in _ORDERED
        and read_switch(SIGNALS_VARIABLE, default=True)
    )

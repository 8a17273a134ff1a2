"""What a script of calls takes on several devices at once: from its first call to its last kernel."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from codl.devices.boundary import at_work
from codl.devices.opencl import Device
from codl.devices.stopwatch import SECONDS_PER_NS, count_ns

Call = tuple[int | None, Callable[[], Any]]
"""What the host does, and the device whose kernel that enqueues, returning its event; None for the rest."""


@dataclass(frozen=True, slots=True)
class Played:
    """What a script took, in seconds."""

    total: float
    """From its first call to where all devices are idle."""
    busy: tuple[float, ...]
    """By device, its kernels alone."""

    @property
    def rest(self) -> float:
        """What is left without the kernels of the device that had most to do."""
        return self.total - max(self.busy)


def play(script: Sequence[Call], devices: Sequence[Device]) -> Played:
    """Return what a script takes until all devices are idle.

    Args:
        script: What to call, in order.
        devices: The devices, with profiling, waited for in this order.

    Raises:
        DeviceError: A driver failed, or keeps no times.
    """
    busy = [0.0] * len(devices)
    names = " and ".join(opened.info.name for opened in devices)
    with at_work(devices, f"kernels timed on {names}"):
        start = time.perf_counter()
        results = [(device, call()) for device, call in script]
        for opened in devices:  # else one may begin when the other is done
            opened.queue.flush()
        for opened in devices:
            opened.finish()
        total = time.perf_counter() - start
        for device, event in results:
            if device is not None:
                busy[device] += SECONDS_PER_NS * count_ns(event)
    return Played(total, tuple(busy))

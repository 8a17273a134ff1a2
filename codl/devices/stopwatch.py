"""How long launches take: by the device's own clock where it has one, by the host's otherwise."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from codl.devices.boundary import at_work
from codl.devices.opencl import Device
from codl.errors import DeviceError

SECONDS_PER_NS = 1e-9
"""OpenCL counts nanoseconds."""

Call = Callable[[], Any]


class Stopwatch:
    """Times launches of one device, without what the host needs to hand them over.

    Args:
        device: The device; launches to be timed are bound to `device` of this object.
    """

    def __init__(self, device: Device) -> None:
        self.device, self.has_events = device, False
        with suppress(DeviceError):
            self.device, self.has_events = device.with_profiling(), True

    def time(self, launches: Sequence[Call], *, before: Sequence[Call] = (), plays: int = 1) -> float:
        """Return how long launches run, in seconds, played in order; of several plays the median.

        Args:
            launches: Calls that enqueue what to time and return its events; none takes no time.
            before: Calls that enqueue what comes first and is not counted, and return its events.
            plays: How often to play both; many for what is short.

        Raises:
            DeviceError: The driver failed.
        """
        return float(np.median(self.time_groups([before, launches], plays=plays)[:, 1]))

    def time_groups(self, groups: Sequence[Sequence[Call]], *, plays: int = 1) -> npt.NDArray[np.float64]:
        """Return how long each group of launches runs in each play, in seconds, [plays, groups].

        Raises:
            DeviceError: The driver failed.
        """
        with at_work([self.device], f"kernels timed on {self.device.info.name}"):
            if not self.has_events:
                return np.array([[self._time_wall(group) for group in groups] for _ in range(plays)])
            events = [[[launch() for launch in group] for group in groups] for _ in range(plays)]
            self.device.finish()
            return SECONDS_PER_NS * np.array(
                [[sum(map(count_ns, group)) for group in play] for play in events], np.float64
            )

    def _time_wall(self, launches: Sequence[Call]) -> float:
        self.device.finish()
        start = time.perf_counter()
        for launch in launches:
            launch()
        self.device.finish()
        return time.perf_counter() - start


def count_ns(event: Any) -> int:
    """Return how long the launch of an event ran, in ns; its queue has profiling."""
    return int(event.profile.end - event.profile.start)

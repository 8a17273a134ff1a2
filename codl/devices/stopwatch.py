"""How long launches take: by the device's own clock where it has one, by the host's otherwise."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt

from codl.devices.boundary import at_work
from codl.devices.opencl import Device
from codl.errors import DeviceError

SECONDS_PER_NS = 1e-9
"""OpenCL counts nanoseconds."""
_TRIALS = 15

Call = Callable[[], Any]


class Stopwatch:
    """Times launches of one device, without what the host needs to hand them over.

    Args:
        device: The device; launches to be timed are bound to `device` of this object.
        uses_events: Whether to ask the device when a launch began and ended, if it can tell.
    """

    def __init__(self, device: Device, *, uses_events: bool = True) -> None:
        self.device = device
        self.has_events = False
        if uses_events:
            try:
                self.device = device.with_profiling()
                self.has_events = True
            except DeviceError:
                pass
        self._idle_seconds = 0.0
        """What the host's clock counts for nothing at all."""

    def time(self, launches: Sequence[Call], *, before: Sequence[Call] = (), plays: int = 1) -> float:
        """Return how long launches run, in seconds, played in order; of several plays the median.

        Args:
            launches: Calls that enqueue what to time and return its events; none takes no time.
            before: Calls that enqueue what comes first and is not counted.
            plays: How often to play both; many for what is short.

        Raises:
            DeviceError: The driver failed.
        """
        with self._at_work():
            if self.has_events:
                return self._time_events(launches, before, plays)
            return float(np.median([self._time_wall(launches, before) for _ in range(plays)]))

    def time_groups(self, groups: Sequence[Sequence[Call]], *, plays: int = 1) -> npt.NDArray[np.float64]:
        """Return how long each group of launches runs in each play, in seconds, [plays, groups].

        Raises:
            DeviceError: The driver failed.
        """
        with self._at_work():
            if not self.has_events:
                return np.array([[self._time_wall(group, ()) for group in groups] for _ in range(plays)])
            events = [[[launch() for launch in group] for group in groups] for _ in range(plays)]
            self.device.finish()
            return SECONDS_PER_NS * np.array(
                [[sum(count_ns(one) for one in group) for group in play] for play in events], np.float64
            )

    def calibrate(self, empty: Call) -> None:
        """Learn what the host's clock counts for a launch that does nothing; the device's counts nothing."""
        if not self.has_events:
            self._idle_seconds = 0.0
            self._idle_seconds = float(np.median([self.time([empty]) for _ in range(_TRIALS)]))

    def _at_work(self) -> AbstractContextManager[None]:
        return at_work([self.device], f"kernels timed on {self.device.info.name}")

    def _time_events(self, launches: Sequence[Call], before: Sequence[Call], plays: int) -> float:
        events = []
        for _ in range(plays):
            for call in before:
                call()
            events.append([launch() for launch in launches])
        self.device.finish()
        times = [sum(map(count_ns, play)) for play in events]
        return float(np.median(times)) * SECONDS_PER_NS

    def _time_wall(self, launches: Sequence[Call], before: Sequence[Call]) -> float:
        for call in before:
            call()
        self.device.finish()
        start = time.perf_counter()
        for launch in launches:
            launch()
        self.device.finish()
        return max(0.0, time.perf_counter() - start - self._idle_seconds)


def count_ns(event: Any) -> int:
    """Return how long the launch of an event ran, in ns; its queue has profiling."""
    return int(event.profile.end - event.profile.start)

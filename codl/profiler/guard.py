"""Tells quiet moments of a machine from disturbed ones."""

import time
from collections import deque

import numpy as np

from codl.devices.loads import prepare_sweep
from codl.devices.opencl import Device
from codl.devices.stopwatch import Stopwatch
from codl.machine import DeviceKind

_CORE_BYTES = 1 << 14
"""Walked over by each core or group: half of a small first-level cache."""
_LEAST_SECONDS = 5e-5
_SLACK = 1.12
"""By how much a quiet reading may lie above the quietest ones.

Source:
    Two virtual cores of a cloud machine that are hardware threads of one core: work in registers takes 1.1
    times as long while the other is busy, work in the first-level cache 1.3 to 1.8 times.
"""
_QUIET_PERCENT = 3
_KEPT = 2000
_LEAST_READINGS = 30
_LOOK_SECONDS = 0.01


class Guard:
    """A short kernel in a core's own cache, which suffers at once from whatever else the core does.

    A neighbour slows kernels down by half, and work in registers by a tenth, for seconds at a time: no ratio
    between them is worth anything then. So what is measured stands between two readings of a guard, counts
    when both are quiet, and is worth its ratio to them: the guard is the compute-bound reference.

    Source:
        Twelve kernels on one of two busy virtual cores, in windows of 1 s: medians of a window differ from
        those of the next by more than 10 % in a third of the cases, between quiet guards in none; their
        standard deviation is 8 %, 2.7 % and, relative to the guards, 2.1 %.

    Args:
        stopwatch: What reads it, on which device.
    """

    def __init__(self, stopwatch: Stopwatch) -> None:
        self._stopwatch = stopwatch
        footprint = 2 * _CORE_BYTES * _count_cores(stopwatch.device)
        rounds = 8
        self.call = prepare_sweep(stopwatch.device, footprint=footprint, rounds=rounds)
        while stopwatch.time([self.call], plays=3) < _LEAST_SECONDS and rounds < 1 << 16:
            rounds *= 2
            self.call = prepare_sweep(stopwatch.device, footprint=footprint, rounds=rounds)
        self.rounds = rounds
        """How often the cache is walked."""
        self._known: deque[float] = deque(maxlen=_KEPT)
        while len(self._known) < _LEAST_READINGS:
            self.read()

    def is_quiet(self, seconds: float) -> bool:
        """Return whether a reading is as short as in quiet moments, and remember it."""
        self._known.append(seconds)
        return seconds <= _SLACK * self.quiet_seconds

    def are_quiet(self, *seconds: float) -> bool:
        """Return whether all of some readings are quiet, and remember each."""
        return all([self.is_quiet(reading) for reading in seconds])  # noqa: C419

    @property
    def quiet_seconds(self) -> float:
        """What a reading takes when the machine is quiet."""
        return float(np.percentile(self._known, _QUIET_PERCENT))

    def read(self) -> bool:
        """Return whether the machine is quiet now."""
        return self.is_quiet(self._stopwatch.time([self.call]))

    def wait(self, most_seconds: float) -> bool:
        """Return whether the machine is quiet, after waiting for that."""
        end = time.monotonic() + most_seconds
        while not (is_quiet := self.read()) and time.monotonic() < end:
            time.sleep(_LOOK_SECONDS)
        return is_quiet


def _count_cores(device: Device) -> int:
    return device.info.units if device.info.kind is DeviceKind.CPU else 4 * device.info.units

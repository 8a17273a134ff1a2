"""Tells how disturbed a machine is at a moment."""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from codl.catalog.spec import can_steal
from codl.devices.loads import Call, prepare_sweep
from codl.devices.opencl import Device
from codl.devices.stopwatch import Stopwatch
from codl.machine import DeviceKind
from codl.profiler.quiet import Reading

_CORE_BYTES = 1 << 14
"""Read by each core or group: half of a small first-level cache."""
_LEAD = 2
"""Walks before each reading that do not count: kernels leave the guard's data out of the caches."""
_PARTS, _LEAST_PARTS = 64, 8
"""Of what several cores walk through, taken by whichever is free: in all, and for each core at least.

Source:
    Both cores of a Zen 4, PoCL. Where each core has one part, which a core that wakes up late begins late, 25
    and 75 of 100 guards of 80 us take less than 82 and 96 us; 84 and 90 in eight parts. Of two sessions by
    single parts what is bound by arithmetic took 12 % less in one, in units of the guard, and what is bound
    by memory as long; by eight what is bound by arithmetic agrees within 1 to 3 %. With eight parts one core
    now and then does nine of sixteen, and three times 300 guards beside other work take 79.8 to 84.0 us, four
    of five of them up to 80.8 to 89.8 (Intel's driver), or 84.1 to 88.8, and up to 88 to 157 (PoCL); with 32
    parts 81.4 to 81.5, up to 82.6 to 83.5, and 85.5 to 86.3, up to 87.4 to 88.2. Sixteen cores of a Xeon
    (PoCL) with 32 parts each need 40 to 50 us to hand them out.
"""
_LEAST_SECONDS, _GAIN = 5e-5, 2.0
"""A guard takes at its quickest, and how many times what an eighth of its walks take: they are most of it."""
_ROUNDS = tuple(1 << power for power in range(1, 17, 3))
"""How often it may walk.

What is read beside a guard is judged by it, so a device should always have the same: few to choose from.

Source:
    Both cores of a Zen 3, PoCL: guards of 256, 512 and 1024 walks, each in a process of its own, most of the
    time took 1.18, 1.09 and 1.04 times what they take when it is quiet, so in units of them all else differs
    by as much. Where the first that took 50 us at eight readings was the guard, sessions differed by 3 to
    12 %: while a core is slow to wake up 256 walks now and then take 42 to 56 us in all eight, which else
    take 22. With Intel's driver 512 walks take 45 us: too few, but not in a slow minute. Sixteen cores of a
    Xeon (PoCL) need 40 us to hand out parts: of four processes two had 16 walks, one 128 and one 512; now
    1024, that take 92 to 109 us.
"""
_TRIALS, _LOOKS, _LOOK_SECONDS = 8, 15, 1.0
"""Readings in a row, how often so many tell what a guard takes at its quickest, and for how long at most."""
_QUIET_PERCENT = 3
_KEPT = 100_000
_LEAST_READINGS = 30
_GROWTH = 1.1
"""By how many times more readings there are, until the quietest of them are looked for again."""


@dataclass(frozen=True, slots=True)
class Play:
    """Launches to be timed, once."""

    launches: Sequence[Call]
    """What enqueues them, each returning its event."""
    before: Sequence[Call] = ()
    """What enqueues that which comes before them and is not counted."""


class Guard:
    """A short kernel in a core's own cache, which suffers at once from whatever else the core does.

    A neighbour slows kernels down by half, and work in registers by a tenth, for seconds at a time, and on
    some machines there is hardly a moment without. So what is measured stands between two readings of a
    guard; and what it would take on a quiet machine is found from all its readings, by how much kernels
    suffer where the guard does. It only reads: what stores take depends on where a driver puts the data.

    Source:
        28 cases of 7 rows, 700 readings each over 45 s, on the same machine. Two windows of 16 consecutive
        readings of a case agree within 10 % in 90 and 69 % of the cases (Intel's driver, PoCL); by their
        medians without guards in 84 and 56 %; by what was read between quiet guards alone, of which there are
        too few, in 27 and 18 %. 30 readings spread over half of the time agree in 99 and 85 %.

    Args:
        stopwatch: What reads it, on which device.
    """

    def __init__(self, stopwatch: Stopwatch) -> None:
        self._stopwatch = stopwatch
        self.sweep = prepare_sweep(stopwatch.device)
        """Enqueues what fills the caches with other data."""
        footprint = 2 * _CORE_BYTES * _count_cores(stopwatch.device)
        info = stopwatch.device.info
        parts = max(_LEAST_PARTS, _PARTS // info.units) if can_steal(info) else 1
        shorter = 0.0
        for rounds in _ROUNDS:
            self.call = prepare_sweep(
                stopwatch.device, footprint=footprint, rounds=rounds, lead=_LEAD, copies=False, parts=parts
            )
            least = self._find_least()  # a first launch is compiled, and none alike is quiet
            if shorter and least >= max(_LEAST_SECONDS, _GAIN * shorter):
                break
            shorter = least
        self.rounds = rounds
        """How often the cache is walked."""
        self._known: deque[float] = deque(maxlen=_KEPT)
        self._quiet_of = 0
        """Readings that the quiet time was last found in."""
        self._quiet_seconds = 0.0
        self._known += self._look(_LEAST_READINGS)

    @property
    def quiet_seconds(self) -> float:
        """What a reading takes when the machine is quiet."""
        if len(self._known) > _GROWTH * self._quiet_of:
            self._quiet_of = len(self._known)
            self._quiet_seconds = float(np.percentile(self._known, _QUIET_PERCENT))
        return self._quiet_seconds

    def watch(self, seconds: float) -> None:
        """Read it now and then for so long: it has to know how quiet the machine can be."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._known.append(self._look(_TRIALS)[-1])

    def _find_least(self) -> float:
        """Return what it takes at its quickest, in seconds."""
        end = time.monotonic() + _LOOK_SECONDS
        least = min(self._look(_TRIALS))
        for _ in range(1, _LOOKS):
            if time.monotonic() > end:
                break
            least = min(least, *self._look(_TRIALS))
        return least

    def _look(self, count: int) -> list[float]:
        """Return readings behind sweeps, in seconds: where others just ran all cores of a driver are at work.

        Source:
            Both cores of a Zen 4. 5 ms after each other, or where one launch is waited for, most take 155
            instead of 79 us with Intel's driver and 80 instead of 40 with PoCL, for one thread still sleeps;
            of two programs one then had twice as many walks as the other.
        """
        groups = [[self.sweep], [self.call]]
        return [float(reading) for reading in self._stopwatch.time_groups(groups, plays=count)[:, 1]]

    def read(self) -> float:
        """Return what it takes now, in seconds."""
        seconds = self._stopwatch.time([self.call])
        self._known.append(seconds)
        return seconds

    def surround(self, plays: Sequence[Play]) -> Reading:
        """Return what some launches take, the median of several plays, between two readings of the guard.

        Caches are swept first: while that goes on the host hands over the rest. It is itself a thread of
        Intel's driver, which has one less until the host waits.

        Source:
            Both cores of a Zen 3, Intel's driver: what follows at once takes 54 us instead of 30.

        Args:
            plays: One at least, all of the same work.

        Raises:
            DeviceError: The driver failed.
        """
        groups: list[Sequence[Call]] = [[self.sweep], [self.call]]
        for play in plays:
            groups += play.before, play.launches
        _, before, *taken, after = self._stopwatch.time_groups([*groups, [self.call]])[0].tolist()
        return self.relate(before, float(np.median(taken[1::2])), after)

    def relate(self, before: float, seconds: float, after: float) -> Reading:
        """Return a reading between two of the guard, which are remembered.

        Args:
            before: What the guard took just before, in seconds.
            seconds: What was measured.
            after: What the guard took just after.
        """
        self._known += before, after
        return Reading(seconds, (before + after) / 2)


def _count_cores(device: Device) -> int:
    return device.info.units if device.info.kind is DeviceKind.CPU else 4 * device.info.units

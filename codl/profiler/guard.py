"""Tells how disturbed a machine is at a moment, and what would take how long if it were quiet."""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from codl.devices.loads import Call, prepare_sweep
from codl.devices.opencl import Device
from codl.devices.stopwatch import Stopwatch
from codl.machine import DeviceKind

_CORE_BYTES = 1 << 14
"""Read by each core or group: half of a small first-level cache."""
_LEAD = 2
"""Walks before each reading that do not count: kernels leave the guard's data out of the caches."""
_LEAST_SECONDS = 5e-5
_ROUNDS, _TRIALS = tuple(1 << power for power in range(3, 17)), 8
_QUIET_PERCENT = 3
_KEPT = 100_000
_LEAST_READINGS = 30
_GROWTH = 1.1
"""By how many times more readings there are, until the quietest of them are looked for again."""
_LOOK_SECONDS = 0.005
_WORST = 1.65
"""Beyond this many times of a quiet one a guard was interrupted itself: kernels rise with it up to there.

Source:
    103 cases of 9 rows, 120 to 190 readings each over 40 s, on one of two virtual cores that are threads of
    one core of an Emerald Rapids, Intel's driver and PoCL. Up to here kernels rise as the guard does, what
    streams constants half as much; beyond, they are 1.2 to 1.4 times slower whatever the guard says. Of all
    pairs of windows of 24 readings 81 and 97 % agree within 10 %; 71 and 94 % where kernels are taken to rise
    by a power of 0.6, without an end.
"""
_CALM, _UPPER_PERCENT = 1.08, 80
"""Up to this many times of what it usually is, this percentile of guards says that a machine was left alone.

Source:
    Both virtual cores of a Zen 4, sessions of five minutes with Intel's driver and PoCL. Guards usually take
    1.07 times their quiet time; now and then, for 2 to 20 s, in 5 to 25 % of a session, most of them 1.4 to
    1.5 times, with no time stolen and nothing else running, as if both were threads of one core. Kernels then
    take up to 1.6 times what guards account for; 9 of 10 reductions are predicted more than 10 % wrongly. Of
    cases measured twice 92 to 100 % repeat in minutes without, 30 to 60 % in others. Some guards are as quick
    as ever: neither single ones nor the median of 100 tell. In a calm session 95 % of rounds of 160 readings
    have a percentile of at most 1.08 times the usual one.
"""
_CROSSING, _NEAR_PERCENT = 1.3, 25
"""By how many times what cores take from each other may take longer than in this percentile of rounds.

Source:
    The same machine: a copy of what another core has written takes twice as long in some seconds as in
    others, so do concatenations and elementwise operators, convolutions up to 1.3 times, and guards, which
    stay in the cache of their own core, see nothing of it: cores that share a cache, and cores that do not.
    By the median round instead, which was near in one half of a session and far in the other, 52 % of cases
    measured twice repeat.
"""
_TO_DEVIATION = 1.4826
"""From the median of absolute deviations to the standard deviation of a normal distribution."""
_MEDIAN_LOSS = 1.2533
"""Standard error of a median, in that of a mean."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What something took, and what the guards beside it took on average, in seconds."""

    seconds: float
    guard_seconds: float


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
        for rounds in _ROUNDS:
            self.call = prepare_sweep(
                stopwatch.device, footprint=footprint, rounds=rounds, lead=_LEAD, copies=False
            )
            if min(stopwatch.time([self.call]) for _ in range(_TRIALS)) >= _LEAST_SECONDS:
                break  # even the fastest: a first launch is compiled, and none alike is quiet
        self.rounds = rounds
        """How often the cache is walked."""
        self._known: deque[float] = deque(maxlen=_KEPT)
        self._quiet_of = 0
        """Readings that the quiet time was last found in."""
        self._quiet_seconds = 0.0
        while len(self._known) < _LEAST_READINGS:
            self.read()

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
            self.read()
            time.sleep(_LOOK_SECONDS)

    def read(self) -> float:
        """Return what it takes now, in seconds."""
        seconds = self._stopwatch.time([self.call])
        self._known.append(seconds)
        return seconds

    def surround(
        self, launches: Sequence[Call], *, before: Sequence[Call] = (), plays: int = 1
    ) -> npt.NDArray[np.float64]:
        """Return in seconds what a guard before, some launches and a guard after took, [plays, 3].

        Caches are swept first: while that goes on the host hands over the rest. It is itself a thread of
        Intel's driver, which has one less until the host waits.

        Source:
            Both cores of a Zen 3, Intel's driver: what follows at once takes 54 us instead of 30.

        Args:
            launches: Calls that enqueue what to time and return its events.
            before: Calls that enqueue what comes between the first guard and the launches, not counted.
            plays: How often to play all of it.

        Raises:
            DeviceError: The driver failed.
        """
        groups = [[self.sweep], [self.call], before, launches, [self.call]]
        return self._stopwatch.time_groups(groups, plays=plays)[:, [1, 3, 4]]

    def relate(self, before: float, seconds: float, after: float) -> Reading:
        """Return a reading between two of the guard, which are remembered.

        Args:
            before: What the guard took just before, in seconds.
            seconds: What was measured.
            after: What the guard took just after.
        """
        self._known += before, after
        return Reading(seconds, (before + after) / 2)


class Calm:
    """Tells in which rounds of readings a machine was left alone, whatever it is like all the time."""

    def __init__(self) -> None:
        self._uppers: list[float] = []
        self._crossings: list[float] = []
        self._most_upper = self._most_crossing = 0.0

    def add(self, readings: Sequence[Reading], crossings: Sequence[float] = ()) -> int:
        """Remember a round, one reading right after the other, and return its number.

        Args:
            readings: One at least.
            crossings: Seconds that cores took to copy what others had written, where there are several.
        """
        guards = [reading.guard_seconds for reading in readings]
        self._uppers.append(float(np.percentile(guards, _UPPER_PERCENT)))
        self._crossings.append(float(np.median(crossings)) if len(crossings) else 1.0)
        self._most_upper = _CALM * float(np.median(self._uppers))
        self._most_crossing = _CROSSING * float(np.percentile(self._crossings, _NEAR_PERCENT))
        return len(self._uppers) - 1

    def is_calm(self, number: int) -> bool:
        """Return whether nothing slowed a round's cores, near each other, as far as is known by now."""
        is_near = self._crossings[number] <= self._most_crossing
        return is_near and self._uppers[number] <= self._most_upper


def find_quiet(readings: Sequence[Reading], quiet_seconds: float) -> tuple[float, float]:
    """Return what takes how many seconds on a quiet machine, and the standard error, relative.

    Args:
        readings: Of the same work, one at least.
        quiet_seconds: What the guards beside take on a quiet machine.
    """
    taken, beside = np.array([(reading.seconds, reading.guard_seconds) for reading in readings]).T
    slowness = np.clip(beside / quiet_seconds, 1 / _WORST, _WORST)
    logs = np.log(np.maximum(taken, 1e-9) / slowness)
    middle = np.median(logs)
    deviation = _TO_DEVIATION * float(np.median(np.abs(logs - middle)))
    return float(np.exp(middle)), _MEDIAN_LOSS * deviation / len(logs) ** 0.5


def _count_cores(device: Device) -> int:
    return device.info.units if device.info.kind is DeviceKind.CPU else 4 * device.info.units

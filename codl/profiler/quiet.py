"""What was read while others disturbed a machine, and what it would take on a quiet one."""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

TO_DEVIATION = 1.4826
"""From the median of absolute deviations to the standard deviation of a normal distribution."""
_WORST = 1.65
"""Beyond this many times of a quiet one a guard was interrupted itself: kernels rise with it up to there.

Source:
    103 cases of 9 rows, 120 to 190 readings each over 40 s, on one of two virtual cores that are threads of
    one core of an Emerald Rapids, Intel's driver and PoCL. Up to here kernels rise as the guard does, what
    streams constants half as much; beyond, they are 1.2 to 1.4 times slower whatever the guard says. Of all
    pairs of windows of 24 readings 81 and 97 % agree within 10 %; 71 and 94 % where kernels are taken to rise
    by a power of 0.6, without an end.
"""
_OWN = 0.3
"""Power of what a reading's own guards take beyond most of its round, by which it rises.

Source:
    1218 and 1395 cases (Intel's driver, PoCL) measured twice, a minute or more apart, both virtual cores of
    a Zen 4. Single guards scatter more than much of what they stand beside: where it was divided by all that
    they took, 92 and 89 % of the cases agreed within 10 %, 74 and 63 % within 5 %; so 92 and 93, 75 and 78 %.
    One core for each driver, 1545 and 1575 cases: 90 and 94 % within 10 % either way.
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
MOST_CROSSING, _NEAR_PERCENT = 1.3, 10
"""By how many times what cores take from each other may take longer than in this percentile of rounds.

Source:
    The same machine: a copy of what another core has written takes twice as long in some seconds as in
    others, so do concatenations and elementwise operators, convolutions up to 1.3 times, and guards, which
    stay in the cache of their own core, see nothing of it: cores that share a cache, and cores that do not.
    By the median round instead, which was near in one half of a session and far in the other, 52 % of cases
    measured twice repeat. Another evening cores were near in 32 and 38 % of five minutes (3.5 us with PoCL,
    12 else), in pieces of 8 to 30 s; ResNet-50 then took 31.5 instead of 37 ms (PoCL), 31.9 instead of 33.
"""
_HOPELESS = 200
"""Rounds, about a minute, after which cores that were not once as near as in earlier sessions never will."""
_SWEEP, _RECENT_SWEEPS = 1.06, 160
"""By how many times most sweeps of late may take longer than in most rounds, and how many of them tell that.

Source:
    One core of a Zen 4 for each driver, 175 cases of 35 rows, three minutes each: in one of these
    walks through 4 MiB, which a core's own caches do not hold, took up to 1.2 times as long for some seconds,
    and most guards, which stay in them, 1.01 to 1.05 times. Of windows of twelve rounds the worst then had 83
    and 61 % of the cases within 10 % of what they take at their best; 97 and 95 % in rounds whose sweeps took
    at most 1.06 times as long as most, as 93 and 86 % of those did that were calm by guards. A session in
    which it was not asked began with 100 s of samples that are 10 to 35 % too long. Single sweeps scatter by
    11 to 30 %. What they take depends on what runs between them: 44 and 47 us, on a GPU 14 and 16; so what is
    usual is only what is usual beside the same work.
"""
FEW = 6
"""Calm readings without which a time is not that of a quiet machine; all of them count then."""
_RIDGE, _MOST_SLOPE = 0.01, 1.2
"""What keeps the power by which a case rises with the distance of cores from going astray, and its limit.

Source:
    The cases of `_OWN` on both cores: without it 89 and 92 % of them agree within 10 %. Rounds with cores far
    from each other are no use even so: with them it is 87 % with Intel's driver.
"""
_ROBUST, _NEVER, _TURNS = 1.0, 10.0, 5
"""Deviations from where on readings count less and not at all, and how often weights are found anew."""
_LEAST_DEVIATION = 1e-3
_LOSS = 1.05
"""Standard error of the weighted mean, in that of a mean, of what is normally distributed."""


@dataclass(frozen=True, slots=True)
class Looks:
    """What probes of a device's memory took at some moments, in seconds."""

    crossings: Sequence[float] = ()
    """To copy what other cores had written; nothing where there is one."""
    sweeps: Sequence[float] = ()
    """To walk through more than a core's own caches."""

    def __add__(self, other: "Looks") -> "Looks":
        return Looks((*self.crossings, *other.crossings), (*self.sweeps, *other.sweeps))


_NO_LOOKS = Looks()


@dataclass(frozen=True, slots=True)
class Mood:
    """What a machine was like in a round of readings, one right after the other."""

    guard_seconds: float
    """What most guards took."""
    upper_seconds: float
    """What four of five took at most."""
    crossing_seconds: float
    """What cores took to copy what others had written; 0 where there is one."""
    sweep_seconds: float = 0.0
    """What most sweeps took; 0 where that is not known."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What something took, and what the guards beside it took on average, in seconds."""

    seconds: float
    guard_seconds: float
    mood: Mood | None = None
    """Of its round, where it was one of many."""


class Distance:
    """How far cores are from each other: what they took to copy what others had written, round by round."""

    def __init__(self) -> None:
        self._seconds: list[float] = []
        self.expected_seconds = math.inf
        """What near cores took before: what takes longer is near only by a little.

        Source:
            Both cores of a Zen 4, PoCL: of three sessions one had hardly a moment with near cores, and took
            for near what was nearest. In it minimal filtering took 7 % longer, shuffles 14 %, so that 78
            instead of 81 % of slices of known layers were predicted within 10 %.
        """
        self.near_seconds = 0.0
        """What they take when they are near each other, as far as is known by now; 0 where there is one."""

    def add(self, crossings: Sequence[float]) -> float:
        """Return what they took in one more round, in seconds, and remember it; 0 of nothing."""
        if not len(crossings):
            return 0.0
        self._seconds.append(float(np.median(crossings)))
        nearest = float(np.percentile(self._seconds, _NEAR_PERCENT))
        is_hopeless = (
            len(self._seconds) >= _HOPELESS and min(self._seconds) > MOST_CROSSING * self.expected_seconds
        )
        self.near_seconds = nearest if is_hopeless else min(self.expected_seconds, nearest)
        return self._seconds[-1]


class Calm:
    """Tells in which rounds of readings a machine was left alone, whatever it is like all the time.

    Args:
        distance: Of its cores, by all that is known; by these rounds alone if none is given.
    """

    def __init__(self, distance: Distance | None = None) -> None:
        self.distance = distance or Distance()
        self._uppers: list[float] = []
        self._sweeps: list[float] = []
        self._swept: deque[float] = deque(maxlen=_RECENT_SWEEPS)
        """Single ones, the latest last."""
        self._usual_seconds = self._usual_sweep_seconds = 0.0

    def add(self, readings: Sequence[Reading], looks: Looks = _NO_LOOKS) -> Mood:
        """Return what the machine was like in a round, and remember it.

        Args:
            readings: One at least.
            looks: In the same round; so many sweeps count, with those before, as tell what most take.
        """
        guards = [reading.guard_seconds for reading in readings]
        middle, upper = np.percentile(guards, [50, _UPPER_PERCENT]).tolist()
        self._swept.extend(looks.sweeps)
        sweep = float(np.median(self._swept)) if self._swept else 0.0
        self._uppers.append(upper)
        self._sweeps.append(sweep)
        self._usual_seconds = float(np.median(self._uppers))
        self._usual_sweep_seconds = float(np.median(self._sweeps))
        return Mood(middle, upper, self.distance.add(looks.crossings), sweep)

    def is_calm(self, mood: Mood) -> bool:
        """Return whether nothing slowed a round's cores, near each other, as far as is known by now."""
        return (
            mood.crossing_seconds <= MOST_CROSSING * self.distance.near_seconds
            and mood.upper_seconds <= _CALM * self._usual_seconds
            and mood.sweep_seconds <= _SWEEP * self._usual_sweep_seconds
        )


def choose_rounds(are_calm: Sequence[bool]) -> list[int]:
    """Return which rounds count: calm ones, or all of them where those are fewer than `FEW`."""
    calm = [place for place, is_calm in enumerate(are_calm) if is_calm]
    return calm if len(calm) >= FEW else list(range(len(are_calm)))


def find_quiet(
    readings: Sequence[Reading], quiet_seconds: float, *, near_seconds: float = 0.0
) -> tuple[float, float]:
    """Return what takes how many seconds on a quiet machine, and the standard error, relative.

    Guards tell how slow the machine is: of a round most of them together, each of its own readings a little.
    How much longer it takes with cores further apart is found from the readings themselves.

    Args:
        readings: Of the same work, one at least.
        quiet_seconds: What the guards beside take on a quiet machine.
        near_seconds: What `Distance` found for cores near each other; 0 if that is not to be looked at.
    """
    moods = [one.mood or Mood(one.guard_seconds, one.guard_seconds, 0.0) for one in readings]
    taken, beside, most, crossed = np.array(
        [
            (one.seconds, one.guard_seconds, mood.guard_seconds, mood.crossing_seconds or near_seconds)
            for one, mood in zip(readings, moods, strict=True)
        ]
    ).T
    slowness = np.clip(most / quiet_seconds, 1 / _WORST, _WORST)
    slowness *= np.clip(beside / most, 1 / _WORST, _WORST) ** _OWN
    apart = np.log(crossed / near_seconds) if near_seconds else np.zeros(len(readings))
    logarithm, error = _find_start(np.log(np.maximum(taken, 1e-9) / slowness), apart)
    return float(np.exp(logarithm)), error


def _find_start(values: npt.NDArray[np.float64], at: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return where a robust line through values begins, and the standard error of that.

    Args:
        values: What is measured, [n].
        at: Where, [n]; the line rises with it, or not at all.
    """
    start, slope, half = np.median(values), 0.0, len(values) // 2
    for _ in range(_TURNS):
        away = np.abs(values - start - slope * at)
        deviation = TO_DEVIATION * float(np.partition(away, half)[half])
        parts = away / max(deviation, _LEAST_DEVIATION)
        weights = (parts <= _NEVER) / np.maximum(1.0, parts / _ROBUST)
        shares = weights / weights.sum()
        middle, centre = shares @ values, shares @ at
        lean = weights * (at - centre)
        scatter = lean @ (at - centre) + _RIDGE
        slope = min(max(lean @ (values - middle) / scatter, 0.0), _MOST_SLOPE)
        start = middle - slope * centre
    return float(start), float(_LOSS * deviation * (1 / len(values) + centre**2 / scatter) ** 0.5)

"""What was read while others disturbed a machine, and what it would take on a quiet one."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from codl.profiler.effects import TO_DEVIATION

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
CROSSING, SWEEP = "crossing", "sweep"
"""What cores take to copy what others have written, and to walk through more than a core's own caches."""
_MOST = {CROSSING: 1.3, SWEEP: 1.1}
"""By how many times each may take longer than at its best where a machine was left alone.

Source:
    Both virtual cores of a Zen 4. A copy of what another core has written takes twice as long in some seconds
    as in others, so do concatenations and elementwise operators, convolutions up to 1.3 times, and guards,
    which stay in the cache of their own core, see nothing of it: cores that share a cache, and cores that do
    not. An evening cores were near in 32 and 38 % of five minutes (3.5 us with PoCL, 12 else), in pieces of 8
    to 30 s; ResNet-50 then took 31.5 instead of 37 ms (PoCL), 31.9 instead of 33.
    One core for each driver, 175 cases of 35 rows, six times a minute: in two of these minutes walks through
    4 MiB took up to 1.2 times their best for some seconds, most guards 1.01 to 1.05 times theirs. Of windows
    of twelve rounds the worst then had 83 and 61 % of the cases within 10 % of what they take at their best;
    95 and 95 % in rounds whose walks took at most 1.1 times their best, as 96 and 89 % of those did that were
    calm by guards. A session in which it was not asked began with 100 s of samples that are 10 to 35 % too
    long.
"""
_BEST_PERCENT = 10
"""Of rounds, which tells what is best.

Source:
    The same machine, copies between cores: by the median round, which was near in one half of a session and
    far in the other, 52 % of cases measured twice repeat.
"""
_HOPELESS = 200
"""Rounds, about a minute, after which what was not once as in an earlier session will not be."""
_LEAST_LOOKS = {CROSSING: 20, SWEEP: 160}
"""Looks of which the median tells what a machine is like: single sweeps scatter by 11 to 30 %."""
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


Looks = Mapping[str, Sequence[float]]
"""By name of a probe, what it took at some moments, in seconds."""


@dataclass(frozen=True, slots=True)
class Mood:
    """What a machine was like in a round of readings, one right after the other."""

    guard_seconds: float
    """What most guards took."""
    upper_seconds: float
    """What four of five took at most."""
    probed_seconds: Mapping[str, float] = field(default_factory=dict)
    """What most looks took, by name of a probe; without copies between cores where there is one."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What something took, and what the guards beside it took on average, in seconds."""

    seconds: float
    guard_seconds: float
    mood: Mood | None = None
    """Of its round, where it was one of many."""


class Probes:
    """What `CROSSING` and `SWEEP` took, round by round, and at their best.

    Guards stay in a core's own cache: they do not tell how far cores are from each other, nor what others do
    to the caches behind.
    """

    def __init__(self) -> None:
        self._recent: dict[str, deque[float]] = {}
        self._rounds: dict[str, list[float]] = {}
        self.expected_seconds: dict[str, float] = {}
        """What they took at their best before, by name: what takes longer now is best only by a little.

        Source:
            Both cores of a Zen 4, PoCL: of three sessions one had hardly a moment with near cores, and took
            for near what was nearest. In it minimal filtering took 7 % longer, shuffles 14 %, so that 78
            instead of 81 % of slices of known layers were predicted within 10 %.
        """
        self.best_seconds: dict[str, float] = {}
        """What they take at their best, as far as is known by now; of no other probes than were looked at."""

    def add(self, looks: Looks) -> Mapping[str, float]:
        """Return by name what they took in one more round, in seconds, and remember it.

        Args:
            looks: Of this round; where there are few, those before count as well.
        """
        found = {}
        for name, seconds in looks.items():
            recent = self._recent.setdefault(name, deque(maxlen=_LEAST_LOOKS[name]))
            recent.extend(seconds)
            if not recent:
                continue
            found[name] = float(np.median(seconds if len(seconds) > _LEAST_LOOKS[name] else recent))
            rounds = self._rounds.setdefault(name, [])
            rounds.append(found[name])
            self.best_seconds[name] = self._find_best(name, rounds)
        return found

    def _find_best(self, name: str, rounds: Sequence[float]) -> float:
        best = float(np.percentile(rounds, _BEST_PERCENT))
        expected = self.expected_seconds.get(name, math.inf)
        is_hopeless = len(rounds) >= _HOPELESS and min(rounds) > _MOST[name] * expected
        return best if is_hopeless else min(expected, best)

    def are_best(self, probed: Mapping[str, float]) -> bool:
        """Return whether all of them took about as long as at their best, as far as is known by now."""
        return all(seconds <= _MOST[name] * self.best_seconds[name] for name, seconds in probed.items())


class Calm:
    """Tells in which rounds of readings a machine was left alone, whatever it is like all the time.

    Args:
        probes: What is known of the machine's; by these rounds alone if none are given.
    """

    def __init__(self, probes: Probes | None = None) -> None:
        self.probes = probes or Probes()
        self._uppers: list[float] = []
        self._usual_seconds = 0.0

    def add(self, readings: Sequence[Reading], looks: Looks | None = None) -> Mood:
        """Return what the machine was like in a round, and remember it.

        Args:
            readings: One at least.
            looks: At the probes, in the same round.
        """
        guards = [reading.guard_seconds for reading in readings]
        middle, upper = np.percentile(guards, [50, _UPPER_PERCENT]).tolist()
        self._uppers.append(upper)
        self._usual_seconds = float(np.median(self._uppers))
        return Mood(middle, upper, self.probes.add(looks or {}))

    def is_calm(self, mood: Mood) -> bool:
        """Return whether nothing slowed a round down, and cores were near, as far as is known by now."""
        return self.probes.are_best(mood.probed_seconds) and mood.upper_seconds <= _CALM * self._usual_seconds


def find_quiet(
    readings: Sequence[Reading], quiet_seconds: float, *, near_seconds: float = 0.0
) -> tuple[float, float]:
    """Return what takes how many seconds on a quiet machine, and the standard error, relative.

    Guards tell how slow the machine is: of a round most of them together, each of its own readings a little.
    How much longer it takes with cores further apart is found from the readings themselves.

    Args:
        readings: Of the same work, one at least.
        quiet_seconds: What the guards beside take on a quiet machine.
        near_seconds: What `Probes` found for copies between near cores; 0 if that is not to be looked at.
    """
    moods = [one.mood or Mood(one.guard_seconds, one.guard_seconds) for one in readings]
    taken, beside, most, crossed = np.array(
        [
            (
                one.seconds,
                one.guard_seconds,
                mood.guard_seconds,
                mood.probed_seconds.get(CROSSING, near_seconds),
            )
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

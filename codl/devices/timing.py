"""The one measurement loop: rows timed in interleaved rounds, compared by the ratios inside each round.

Times on a shared machine drift by a factor of two within a minute, so a time alone compares nothing. Rows to
be compared run in the same round, one after the other, in an order that rotates and turns with each round.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

Row = Callable[[], float]
"""Runs one thing once and returns how long it took, in seconds."""
Reference = Callable[[float], float]
"""Does fixed work until so many seconds have passed, at least once; returns what once takes, in seconds."""
Series = np.ndarray[Any, np.dtype[np.float64]]

CONTROL_SUFFIX = "#2"
_CHECK_EVERY = 5
_LEAD_SECONDS = 0.04
_RESAMPLES = 1000
_LONGEST_REST_SECONDS, _LOOK_SECONDS = 0.2, 0.01
_IDLE_SHARE = 0.1
"""Share of a core that a resting process uses at most."""
_IDLE_LOOKS = 2
"""Looks in a row that must find the process idle: a busy thread may lose its core for one."""
_QUIET_PERCENT = 10
_FASTEST = 3
_AGREEMENT = 0.04


def time_call(call: Callable[[], object]) -> Row:
    """Return the row that times one call."""

    def measure() -> float:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    return measure


def lead_in(row: Row, *, seconds: float = _LEAD_SECONDS) -> Row:
    """Return a row in steady use: untimed runs of its own precede each timed one.

    So programs are compared with their own data in the caches and all their threads awake.

    Args:
        row: What is timed.
        seconds: For how long they do; there is one at least.

    Source:
        After a rest, or while threads of another library still spin, OpenCL drivers for CPUs have one core of
        two for 20 ms and more; networks of 5 ms then seem up to twice as slow.
    """

    def measure() -> float:
        end = time.perf_counter() + seconds
        row()
        while time.perf_counter() < end:
            row()
        return row()

    return measure


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The median of round ratios with its 90 % bootstrap interval."""

    median: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """Width of the interval relative to the median."""
        return (self.high - self.low) / self.median


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """What every row took in every round."""

    seconds: Mapping[str, Series]
    """Times by row name, one for each round, in seconds."""

    @property
    def count(self) -> int:
        """Rounds measured."""
        return min((len(series) for series in self.seconds.values()), default=0)

    def ratio(self, above: str | Sequence[str], below: str | Sequence[str]) -> Ratio:
        """Return how many times longer `above` took than `below`; of several rows the slowest counts."""
        return summarise_ratios(self._slowest(above) / self._slowest(below))

    @property
    def is_settled(self) -> bool:
        """Whether the fastest times of every row agree: no other program took the processor from those."""
        return all(map(self.is_row_settled, self.seconds))

    def is_row_settled(self, name: str) -> bool:
        """Whether the fastest times of a row agree."""
        times = self.seconds[name]
        return len(times) >= _FASTEST and bool(np.sort(times)[_FASTEST - 1] <= (1 + _AGREEMENT) * times.min())

    def settled_ratio(self, above: str, below: str) -> float:
        """Return how many times longer `above` took than `below`, in the fastest rounds of each.

        For few and short samples: where other programs take the processor away for longer than a sample
        lasts, some samples are whole and some are not, and a median of few ratios is neither. At most every
        other round counts: of three, one or two may well be disturbed.
        """
        most = max(1, min(_FASTEST, self.count // 2))
        fastest = [np.sort(self.seconds[name])[:most].mean() for name in (above, below)]
        return float(fastest[0] / fastest[1])

    def median(self, name: str) -> float:
        """Return the median time of a row, in seconds."""
        return float(np.median(self.seconds[name]))

    def percentile(self, name: str, percent: float) -> float:
        """Return a percentile of a row's times, in seconds."""
        return float(np.percentile(self.seconds[name], percent))

    def _slowest(self, names: str | Sequence[str]) -> Series:
        chosen = (names,) if isinstance(names, str) else names
        slowest: Series = np.max([self.seconds[name] for name in chosen], axis=0)
        return slowest


def interleave(
    rows: Mapping[str, Row],
    *,
    watch: Sequence[tuple[str | Sequence[str], str | Sequence[str]]] = (),
    control: str | None = None,
    warmup: int = 2,
    least_rounds: int = 10,
    most_rounds: int = 200,
    most_seconds: float = 300.0,
    width: float = 0.04,
    pause_seconds: float = 0.01,
    until_settled: bool = False,
    sure_rounds: int = 1,
) -> Rounds:
    """Return the times of all rows, taken in rounds until the watched ratios are known well enough.

    Args:
        rows: What to time, by name.
        watch: Pairs (above, below) of row names whose ratio matters; without any, all rounds are taken.
        control: A row to time a second time in each round, as `<name>#2`: its ratio to itself is the noise.
        warmup: Rounds before the first that counts.
        least_rounds: Rounds to take in any case, unless time runs out.
        most_rounds: Rounds at which to stop in any case.
        most_seconds: Time after which no further round starts.
        width: Stop when the interval of every watched ratio is narrower than this share of its median.
        pause_seconds: Least rest before each row; see `rest`.
        until_settled: Stop also when the rounds are settled: for coarse looks, for the fastest there is.
        sure_rounds: Rounds to take however long they last.
    """
    everything = dict(rows)
    if control is not None:
        everything[control + CONTROL_SUFFIX] = rows[control]
    names = list(everything)
    end = time.perf_counter() + most_seconds
    for _ in range(warmup):
        for row in everything.values():
            row()
    taken: dict[str, list[float]] = {name: [] for name in names}
    for index in range(most_rounds):
        first = index % len(names)
        order = names[first:] + names[:first]
        for name in order if index % 2 == 0 else reversed(order):  # so that neighbours change sides too
            rest(pause_seconds)
            taken[name].append(everything[name]())
        if time.perf_counter() >= end and index + 1 >= sure_rounds:
            break
        if index + 1 >= least_rounds and (index + 1) % _CHECK_EVERY == 0:
            rounds = _freeze(taken)
            if until_settled and rounds.is_settled:
                break
            if watch and all(rounds.ratio(above, below).width < width for above, below in watch):
                break
    return _freeze(taken)


class Sampler:
    """Takes samples between reference rows, so that they can be compared with samples of another time.

    A sample is worth its ratio to a reference of the same round. Times are that ratio times the reference's
    quiet time: what the reference takes when the machine is at its best, in this sampler's life.

    Args:
        references: Fixed work, by names that no sample has.
    """

    def __init__(self, references: Mapping[str, Reference]) -> None:
        self.references = dict(references)
        self._taken: dict[str, list[float]] = {name: [] for name in references}

    def take(
        self,
        rows: Mapping[str, Row],
        *,
        references: Collection[str] | None = None,
        watch: Sequence[tuple[str, str]] = (),
        seconds: float = 0.0,
        **limits: Any,
    ) -> Rounds:
        """Return the times of ``rows`` and of the references, in rounds.

        Args:
            rows: What to sample, by name.
            references: Names of the references that samples are compared with; by default all.
            watch: Pairs of names whose ratio matters, as in `interleave`.
            seconds: How long samples are. References run on until they have taken as long, and the mean of
                their runs counts: what other programs take in passing is shared by a long sample and is all
                or nothing in a short one.
            limits: Other arguments of `interleave`.
        """
        chosen = self.references if references is None else references
        beside = {name: partial(self.references[name], seconds) for name in chosen}
        rounds = interleave({**rows, **beside}, watch=watch, **limits)
        for name in beside:
            self._taken[name].extend(rounds.seconds[name].tolist())
        return rounds

    def quiet_seconds(self, reference: str) -> float:
        """Return the 10th percentile of all times of a reference so far, in seconds."""
        return float(np.percentile(self._taken[reference], _QUIET_PERCENT))


def repeat_row(row: Row) -> Reference:
    """Return the reference that is one row, whatever amount of work that tells the time of."""

    def measure(seconds: float) -> float:
        end = time.perf_counter() + seconds
        told = [row()]
        while time.perf_counter() < end:
            told.append(row())
        return sum(told) / len(told)

    return measure


def rest(seconds: float) -> None:
    """Sleep, then on while threads of this process are at work: those of the row before spin on after it.

    Args:
        seconds: Least time to sleep; 0 returns at once, whatever spins.

    Source:
        ONNX Runtime's workers keep a core busy for 30 ms after a run. A row that begins sooner has one core
        less: on 2 cores it takes up to twice as long.
    """
    if seconds <= 0:
        return
    time.sleep(seconds)
    idle, end = 0, time.perf_counter() + _LONGEST_REST_SECONDS
    while idle < _IDLE_LOOKS and time.perf_counter() < end:
        worked, start = time.process_time(), time.perf_counter()
        time.sleep(_LOOK_SECONDS)
        is_idle = time.process_time() - worked < _IDLE_SHARE * (time.perf_counter() - start)
        idle = idle + 1 if is_idle else 0


def summarise_ratios(ratios: Series) -> Ratio:
    """Return the median of some ratios and its 90 % bootstrap interval; equal input gives equal output."""
    generator = np.random.default_rng(0)
    picks = generator.integers(len(ratios), size=(_RESAMPLES, len(ratios)))
    low, high = np.percentile(np.median(ratios[picks], axis=1), [5, 95])
    return Ratio(median=float(np.median(ratios)), low=float(low), high=float(high))


def _freeze(taken: Mapping[str, Sequence[float]]) -> Rounds:
    return Rounds(seconds={name: np.array(series, dtype=np.float64) for name, series in taken.items()})

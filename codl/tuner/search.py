"""The search for one shape: bounds first, a few quick rounds for those worth it, many rounds for the best.

Candidates are taken in the order of their bounds. One whose bound lies above the best time so far is dropped
unbuilt, and so are all behind it. The few fastest are measured again, side by side with what would have been
chosen anyway, and the winner must compute what ONNX Runtime computes.

Source:
    DeepCuts (bounds prune candidates), BOLT (good sets of parameters are few and serve many shapes).
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from codl.catalog.database import digest_row
from codl.catalog.spec import Selection
from codl.devices.launch import time_launches
from codl.devices.reference import COMPUTE
from codl.devices.timing import Row
from codl.errors import CodlError
from codl.ir.graph import FloatArray
from codl.tuner.bound import Bound, find_bound
from codl.tuner.measurement import Measurement
from codl.tuner.reference import relative_error
from codl.tuner.trial import Trial
from codl.tuner.workbench import Workbench, candidate_key

_SAMPLE_SECONDS = 1e-3
"""Launches shorter than this are repeated to make one sample."""
_MOST_REPEATS = 64
_TIE = 0.04
"""Bounds this near to each other are equal; then the candidate that has won more often comes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLimits:
    """How much a search may do for one shape."""

    share: float = 0.25
    """Of the candidates that may be measured, in [0, 1]."""
    least: int = 4
    """Candidates that may be measured in any case."""
    group: int = 4
    """Candidates that share their quick rounds."""
    quick_rounds: int = 9
    finalists: int = 5
    final_rounds: int = 50
    final_seconds: float = 4.0
    margin: float = 0.01
    """By how much a winner must be faster than what would have been chosen anyway."""
    prunes: bool = True
    """Whether bounds drop candidates; without it every candidate is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What a search found."""

    winner: Selection
    default: Selection
    """What would have been chosen without the search."""
    reference: str
    seconds: float
    default_seconds: float
    bound_seconds: float
    """The winner's bound."""
    candidates: int
    measured: int
    refused: tuple[str, ...] = ()
    """Candidates that were fast and wrong, with their error."""


class OutOfTimeError(CodlError):
    """The budget ended before the search did."""


def search(
    trial: Trial,
    candidates: Iterable[Selection],
    *,
    bench: Workbench,
    expected: FloatArray,
    default: Selection,
    first: Sequence[Selection] = (),
    known: Mapping[str, Measurement] | None = None,
    record: Callable[[Measurement], None] = lambda _: None,
    shape: str = "",
    limits: SearchLimits | None = None,
    deadline: float = float("inf"),
) -> SearchResult:
    """Return the fastest candidate that computes what is expected.

    Args:
        trial: The node on its device.
        candidates: Everything that could compute it.
        bench: The device's references and peaks.
        expected: The right output.
        default: What would be chosen without the search.
        first: Candidates to measure before all others, such as those that won for shapes nearby.
        known: Earlier quick measurements by `str(selection)`, which are not taken again.
        record: Is told every new measurement.
        shape: The shape's key, for the measurements.
        limits: How much to do.
        deadline: When to give up, on the clock of `time.monotonic`.

    Raises:
        OutOfTimeError: The deadline passed; everything measured has been recorded.
        DeviceError: Not one candidate could be run.
    """
    return _Search(
        trial,
        tuple(candidates),
        bench=bench,
        default=default,
        known=known or {},
        record=record,
        shape=shape,
        limits=limits or SearchLimits(),
        deadline=deadline,
    ).run(expected, first)


class _Search:
    def __init__(
        self,
        trial: Trial,
        candidates: tuple[Selection, ...],
        *,
        bench: Workbench,
        default: Selection,
        known: Mapping[str, Measurement],
        record: Callable[[Measurement], None],
        shape: str,
        limits: SearchLimits,
        deadline: float,
    ) -> None:
        self._trial, self._candidates, self._bench = trial, candidates, bench
        self._default, self._known, self._record = default, known, record
        self._shape, self._limits, self._deadline = shape, limits, deadline
        self._reference = COMPUTE
        self._ratios: dict[str, float] = {}
        """Quick ratios of what was measured and did not fail."""
        self._tried: set[str] = set()

    def run(self, expected: FloatArray, first: Sequence[Selection]) -> SearchResult:
        self._reference = self._bound(self._default).reference
        by_name = {str(one): one for one in (self._default, *first, *self._candidates)}
        self._measure(list(dict.fromkeys(map(str, (self._default, *first)))), by_name)
        most = max(self._limits.least, int(len(self._candidates) * self._limits.share))
        if not self._limits.prunes:
            most = len(self._candidates)
        for group in self._groups(most):
            self._measure(group, by_name)
        if not self._ratios:
            raise CodlError(
                f"{self._shape}: got {len(self._tried)} candidates that all failed on "
                f"{self._trial.device.info.name}, expected one that runs; see the log of measurements"
            )
        return self._decide(expected, by_name)

    def _groups(self, most: int) -> Iterable[list[str]]:
        """Yield what to measure next, until bounds or the limit say that nothing else is worth it."""
        waiting = self._order()
        while waiting and len(self._tried) < most:
            size = min(self._limits.group, most - len(self._tried))
            best = min(self._ratios.values(), default=float("inf"))
            group: list[str] = []
            while waiting and len(group) < size:
                bound, name, selection = waiting.pop(0)
                if self._limits.prunes and self._refine(bound, selection, best) > best:
                    continue
                group.append(name)
            if not group:
                return
            yield group

    def _order(self) -> list[tuple[float, str, Selection]]:
        """Return what was not tried yet, lowest bound first, and among equal bounds the frequent winner."""
        waiting = []
        for selection in self._candidates:
            name = str(selection)
            if name not in self._tried:
                bound = self._bound(selection, is_rough=True).ratio(self._reference, self._bench.peaks)
                waiting.append((bound, name, selection))
        if not self._limits.prunes:
            return waiting
        best = min(self._ratios.values(), default=float("inf"))
        worth = [(self._refine(b, s, best), n, s) for b, n, s in waiting if b <= best]
        least = min((bound for bound, _, _ in worth), default=0.0)

        def rank(item: tuple[float, str, Selection]) -> tuple[float, int, float]:
            bound, _, selection = item
            wins = self._bench.wins.get(candidate_key(selection), 0)
            return (bound - least) // (_TIE * least or 1.0), -wins, bound

        return sorted(worth, key=rank)

    def _refine(self, bound: float, selection: Selection, best: float) -> float:
        """Return the bound with the inner loop's own rate, where the rough one has not decided yet."""
        if bound > best:
            return bound
        return self._bound(selection).ratio(self._reference, self._bench.peaks)

    def _bound(self, selection: Selection, *, is_rough: bool = False) -> Bound:
        trial = self._trial
        return find_bound(
            selection,
            trial.node,
            trial.graph,
            info=trial.device.info,
            peaks=self._bench.peaks,
            loop_rate=None if is_rough else self._bench.loop_rate,
        )

    def _measure(self, names: Sequence[str], by_name: Mapping[str, Selection]) -> None:
        """Take quick ratios of candidates that have none, all in the same rounds."""
        rows: dict[str, Row] = {}
        for name in names:
            self._tried.add(name)
            known = self._known.get(name)
            if known is not None and known.reference == self._reference and known.ratio is not None:
                self._ratios[name] = known.ratio
                continue
            if known is not None and known.error:
                continue
            self._check_time()
            try:
                rows[name] = self._prepare(by_name[name])
            except CodlError as error:
                self._note(by_name[name], stage="quick", error=" ".join(str(error).split()))
        if not rows:
            return
        rounds = self._bench.references.sampler.take(
            rows, warmup=0, most_rounds=self._limits.quick_rounds, pause_seconds=0.0
        )
        for name in rows:
            ratio = rounds.undisturbed_ratio(name, self._reference)
            self._ratios[name] = ratio
            self._note(by_name[name], stage="quick", ratio=ratio)

    def _prepare(self, selection: Selection) -> Row:
        """Return the row of a candidate: built, run once, repeated when it is short."""
        launches = self._trial.bind(selection)
        once = time_launches(self._trial.device, launches)
        once()
        repeats = max(1, min(_MOST_REPEATS, round(_SAMPLE_SECONDS / max(once(), 1e-6))))
        return time_launches(self._trial.device, launches, repeats=repeats)

    def _note(self, selection: Selection, *, stage: str, ratio: float | None = None, error: str = "") -> None:
        bound = self._bound(selection).ratio(self._reference, self._bench.peaks)
        self._record(
            Measurement(
                shape=self._shape,
                implementation=selection.implementation.name,
                digest=self._digest_of(selection),
                parameters=selection.parameters,
                stage=stage,
                reference=self._reference,
                ratio=ratio,
                bound_ratio=bound,
                error=error,
            )
        )
        if ratio is not None and ratio < bound:
            self._bench.raise_loop(selection, bound / ratio)

    def _decide(self, expected: FloatArray, by_name: Mapping[str, Selection]) -> SearchResult:
        """Measure the best again, side by side, and return the fastest that is right."""
        best = sorted(self._ratios, key=self._ratios.__getitem__)[: self._limits.finalists]
        names = list(dict.fromkeys((str(self._default), *best)))
        rows = {name: self._prepare(by_name[name]) for name in names if name in self._ratios}
        self._check_time()
        sampler, anchor = self._bench.references.sampler, next(iter(rows))
        rounds = sampler.take(
            rows,
            watch=[(name, anchor) for name in rows if name != anchor] or [(anchor, self._reference)],
            warmup=1,
            most_rounds=self._limits.final_rounds,
            most_seconds=self._limits.final_seconds,
            pause_seconds=0.0,
        )
        ratios = {name: rounds.ratio(name, self._reference).median for name in rows}
        to_anchor = {name: rounds.ratio(name, anchor) for name in rows}
        for name in rows:
            self._note(by_name[name], stage="final", ratio=ratios[name])
        order = sorted(rows, key=lambda name: to_anchor[name].median)
        if to_anchor[order[0]].high > 1.0 - self._limits.margin:
            order.insert(0, anchor)
        refused = []
        for name in order:
            selection = by_name[name]
            error = self._find_error(selection, expected)
            if error <= selection.implementation.tolerance:
                break
            refused.append(f"{name}: error {error:.1e}")
            self._note(selection, stage="final", error=f"wrong by {error:.1e}")
        else:
            raise CodlError(
                f"{self._shape}: got wrong results of every candidate ({'; '.join(refused)}), "
                "expected ONNX Runtime's; report it"
            )
        quiet = sampler.quiet_seconds(self._reference)
        return SearchResult(
            winner=selection,
            default=self._default,
            reference=self._reference,
            seconds=ratios[name] * quiet,
            default_seconds=ratios.get(str(self._default), ratios[name]) * quiet,
            bound_seconds=self._bound(selection).ratio(self._reference, self._bench.peaks) * quiet,
            candidates=len(self._candidates),
            measured=len(self._tried),
            refused=tuple(refused),
        )

    def _digest_of(self, selection: Selection) -> str:
        return f"{digest_row(selection.implementation)} {self._trial.device.info.driver_version}"

    def _find_error(self, selection: Selection, expected: FloatArray) -> float:
        return relative_error(self._trial.compute(selection), expected)

    def _check_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise OutOfTimeError(f"{self._shape}: the budget ended; start again to go on")

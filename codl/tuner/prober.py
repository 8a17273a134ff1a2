"""The judge of a search that measures on a device: bounds from its peaks, times against its references."""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, cycle
from math import ceil
from typing import Any

from codl.catalog.source import digest_row
from codl.catalog.spec import Implementation, Selection
from codl.devices.launch import time_launches
from codl.devices.timing import Rounds, Row
from codl.errors import CodlError
from codl.ir.graph import FloatArray
from codl.machine import DeviceInfo
from codl.tuner.bound import Bound, find_bound, find_loops
from codl.tuner.measurement import Measurement
from codl.tuner.reference import relative_error
from codl.tuner.search import Final, SearchLimits
from codl.tuner.trial import Trial
from codl.tuner.workbench import Workbench

_METHOD = "far constants"
"""Version of the method; measurements of another version are made again."""
_FAR_BYTES, _MOST_FAR = 128 << 20, 64
"""Weights among which a candidate finds its own, as in a network: bytes, and how many times its own at most.

Source:
    Two cores of a Granite Rapids. Tuned with weights that the last launch has left near a core, ResNet-50
    takes 1.04 times as long as untuned. A 3x3 convolution of 256 channels takes 373 us then with tiles of
    4 x 4, whose filters are 9 MB, and 465 with tiles of 2 x 2, 4 MB; among 34 to 340 MB 690 and 530, in the
    network 680 and 570.
"""
_SAMPLE_SECONDS = 1e-3
"""Launches shorter than this are repeated to make one sample."""
_SHORT_SECONDS = 0.02
"""A time below this may really be much shorter: other programs hold the processor for about as long."""
_MOST_REPEATS = 64
_LEAST_QUICK, _MOST_QUICK, _QUICK_SECONDS = 5, 40, 1.5
_SURE_QUICK, _SURE_FINAL = 3, 5
"""Rounds of candidates that take long: a reference that was disturbed in the only one makes them all fast.

Source:
    603 candidates of a 3x3 convolution of 0.05 to 2 s, seven processes side by side on an Emerald Rapids: 17
    seemed faster than their bound, all of them of groups of one or two rounds, none by its own time.
"""
_FINAL_ROUNDS = 50
_FINAL_SECONDS = 4.0


def limit_seconds(candidates: int, limits: SearchLimits) -> float:
    """Return the most seconds that the rounds of a search take, without compiling."""
    return ceil(limits.count_most(candidates) / limits.group) * _QUICK_SECONDS + _FINAL_SECONDS


class OutOfTimeError(CodlError):
    """The budget ended before the search did."""


class Prober:
    """Measures the candidates of one shape on its device.

    Args:
        trial: The node on the device.
        bench: The device's references and peaks.
        expected: The right output.
        default: What would be chosen without a search; it decides which reference keeps time.
        shape: The shape's key, for the measurements.
        known: Earlier quick measurements by `str(selection)`, which are not taken again.
        record: Is told every new measurement.
        deadline: When to give up, on the clock of `time.monotonic`.
    """

    def __init__(
        self,
        trial: Trial,
        bench: Workbench,
        *,
        expected: FloatArray,
        default: Selection,
        shape: str,
        known: Mapping[str, Measurement],
        record: Callable[[Measurement], None],
        deadline: float = float("inf"),
    ) -> None:
        self._trial, self._bench, self._expected, self._shape = trial, bench, expected, shape
        self._known, self._record, self._deadline = known, record, deadline
        self.reference = self._find_bound(default).reference
        """The reference kernel whose runs count time."""

    @property
    def quiet_seconds(self) -> float:
        """Time of a run of the reference on an idle machine."""
        return self._bench.references.sampler.quiet_seconds(self.reference)

    def prepare(self, selections: Sequence[Selection]) -> None:
        """Measure the inner loops of candidates that are not known yet.

        Raises:
            OutOfTimeError: The deadline has passed.
        """
        self._check_time()
        self._bench.learn_loops(
            loop
            for one in selections
            for loop in find_loops(one, self._trial.node, self._trial.graph, self._trial.device.info)
        )

    def bound(self, selection: Selection, *, is_rough: bool = False) -> float:
        """Return what the candidate cannot be faster than, in runs of the reference.

        Raises:
            OutOfTimeError: The deadline has passed; finding a bound may take measurements.
        """
        if not is_rough:
            self._check_time()
        return self.count_bound(selection, is_rough=is_rough)

    def count_bound(self, selection: Selection, *, is_rough: bool = False) -> float:
        """Return what `bound` returns, whatever the time."""
        return self._find_bound(selection, is_rough=is_rough).ratio(self.reference, self._bench.peaks)

    def count_wins(self, selection: Selection) -> int:
        """Return for how many shapes the candidate was the best."""
        return self._bench.find_wins(selection)

    def try_out(self, selections: Sequence[Selection]) -> Mapping[str, float]:
        """Return the times of candidates from a few common rounds, or from an earlier session.

        Raises:
            OutOfTimeError: The deadline has passed.
        """
        times: dict[str, float] = {}
        rows: dict[str, tuple[Row, float]] = {}
        for selection in selections:
            name = str(selection)
            known = self._known.get(name)
            if known is not None and known.reference == self.reference:
                if known.ratio is not None:
                    times[name] = known.ratio
                continue
            self._check_time()
            try:
                rows[name] = self._prepare_row(selection)
            except CodlError as error:
                self._note(selection, stage="quick", error=" ".join(str(error).split()))
        if rows:
            measured = [one for one in selections if str(one) in rows]
            rounds = self._take(
                rows,
                references=sorted({self._find_bound(one).reference for one in measured}),
                sure_rounds=_SURE_QUICK,
                warmup=0,
                least_rounds=_LEAST_QUICK,
                most_rounds=_MOST_QUICK,
                most_seconds=_QUICK_SECONDS,
                pause_seconds=0.0,
                until_settled=True,
            )
            for selection in measured:
                times[str(selection)] = ratio = self._find_ratio(rounds, selection)
                self._note(selection, stage="quick", ratio=ratio)
        return times

    def compare(self, selections: Sequence[Selection]) -> Mapping[str, Final]:
        """Return the times of candidates from many common rounds; the first one is the anchor.

        Raises:
            OutOfTimeError: The deadline has passed.
        """
        self._check_time()
        rows = {str(one): self._prepare_row(one) for one in selections}
        anchor, *others = rows
        rounds = self._take(
            rows,
            references=sorted({self.reference, *(self._find_bound(one).reference for one in selections)}),
            watch=[(name, anchor) for name in others] or [(anchor, self.reference)],
            sure_rounds=_SURE_FINAL,
            warmup=1,
            most_rounds=_FINAL_ROUNDS,
            most_seconds=_FINAL_SECONDS,
            pause_seconds=0.0,
        )
        finals = {
            str(one): Final(ratio=self._find_ratio(rounds, one), to_anchor=rounds.ratio(str(one), anchor))
            for one in selections
        }
        for selection in selections:
            self._note(selection, stage="final", ratio=finals[str(selection)].ratio)
        return finals

    def find_error(self, selection: Selection) -> float:
        """Return max|error| / max|reference| of what the candidate computes."""
        error = relative_error(self._trial.compute(selection), self._expected)
        if error > selection.implementation.tolerance:
            self._note(selection, stage="final", error=f"wrong by {error:.1e}")
        return error

    def _find_ratio(self, rounds: Rounds, selection: Selection) -> float:
        """Return a candidate's time by the reference that slows down with it, in runs of this judge's own."""
        quiet, own = self._bench.peaks.reference_seconds, self._find_bound(selection).reference
        return rounds.settled_ratio(str(selection), own) * quiet[own] / quiet[self.reference]

    def _find_bound(self, selection: Selection, *, is_rough: bool = False) -> Bound:
        return find_bound(
            selection,
            self._trial.node,
            self._trial.graph,
            info=self._trial.device.info,
            peaks=self._bench.peaks,
            loop_rate=None if is_rough else self._bench.loop_rate,
        )

    def _prepare_row(self, selection: Selection) -> tuple[Row, float]:
        """Return a candidate built, run, repeated when it is short, and about how long its row takes.

        Each play reads other weights: in a network all others come between two runs of one operator.
        """
        device, constants = self._trial.device, self._bench.constants
        once = time_launches(device, self._trial.bind(selection, constants))
        once()
        seconds = max(once(), 1e-6)
        if seconds < _SHORT_SECONDS:  # or long by accident
            seconds = max(min(seconds, once(), once()), 1e-6)
        plays = max(1, min(_MOST_REPEATS, round(_SAMPLE_SECONDS / seconds)))
        sets = min(_FAR_BYTES / max(self._trial.count_constant_bytes(selection), 1.0), _MOST_FAR)
        turns = cycle([self._prepare_plays(selection, plays) for _ in range(ceil(sets / plays))])

        def measure() -> float:
            return next(turns)()

        return measure, seconds * plays

    def _prepare_plays(self, selection: Selection, plays: int) -> Row:
        bound = [self._trial.bind(selection, self._bench.constants) for _ in range(plays)]
        return time_launches(self._trial.device, list(chain.from_iterable(bound)), plays=plays)

    def _take(self, rows: Mapping[str, tuple[Row, float]], **limits: Any) -> Rounds:
        """Return rounds of prepared rows and of references, which take as long as the shortest row."""
        return self._bench.references.sampler.take(
            {name: row for name, (row, _) in rows.items()},
            seconds=min(seconds for _, seconds in rows.values()),
            **limits,
        )

    def _note(self, selection: Selection, *, stage: str, ratio: float | None = None, error: str = "") -> None:
        """Record a measurement."""
        self._record(
            Measurement(
                shape=self._shape,
                implementation=selection.implementation.name,
                digest=digest_candidate(selection.implementation, self._trial.device.info),
                parameters=selection.parameters,
                stage=stage,
                reference=self.reference,
                ratio=ratio,
                bound_ratio=self.count_bound(selection),
                error=error,
            )
        )

    def _check_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise OutOfTimeError(f"{self._shape}: the budget ended; start again to go on")


def digest_candidate(row: Implementation, info: DeviceInfo) -> str:
    """Return what measurements of a row depend on: the method, its kernel, the driver's version."""
    return f"{_METHOD} {digest_row(row)} {info.driver_version}"

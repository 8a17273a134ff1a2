"""Profiling a device: measure within a budget, learn, measure more where it was learned badly."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice, pairwise

import numpy as np

from codl.catalog.layers import Layer
from codl.devices.opencl import Device
from codl.latency.profile import COMPUTE, MEMORY, DeviceProfile, Neighbour
from codl.profiler.case import Case
from codl.profiler.log import History, Sample, SampleLog, read_log
from codl.profiler.overheads import measure_copies, measure_launches, measure_maps
from codl.profiler.survey import BATCH, PATIENCE_SECONDS, STREAM_BYTES, Survey
from codl.profiler.training import Lesson, find_repeatability, keep_valid, restore_case, teach
from codl.profiler.workload import iterate_near, iterate_row, merge, share_out

_FIRST = 0.5
"""Share of the budget for the workload as it is; the rest goes where errors are."""
_ROUNDS = 4
"""Times that errors are looked at."""
_UNSETTLED = 0.1
"""Share of the budget, at most, for measuring again what did not settle."""
_WATCH = 0.02
"""Share of the budget for looking how quiet the machine can be."""
_PATIENCE = 5e-4
"""Share of the budget for each case at most."""
_AGAIN = 0.1
"""Share of the budget for measuring again."""
_APART_SECONDS = 60.0
"""Between the two measurements of a case, where the budget allows it."""
_PAUSE_SECONDS = 5.0
"""Samples further apart were taken in different sessions."""

_BATCH_BYTES = 1 << 29
"""Of the operators measured together, about."""

Report = Callable[[str, float], None]
"""Is told what is being done and which share of the budget is used."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A profile and what it was learned from."""

    profile: DeviceProfile
    lessons: Mapping[str, Lesson]
    samples: int


class Campaign:
    """The profiling of one device.

    Args:
        device: What to profile.
        layers: What to measure it on.
        log: Where samples are kept.
        budget_seconds: How long to measure; what an interrupted campaign has used counts.
        rows: Implementations to measure; all by default.
        report: Is told of the progress.
    """

    def __init__(
        self,
        device: Device,
        *,
        layers: Sequence[Layer],
        log: SampleLog,
        budget_seconds: float,
        rows: Collection[str] | None = None,
        report: Report = lambda what, share: None,
    ) -> None:
        self.device, self._log, self._report = device, log, report
        history = read_log(log.path)
        self._references = history.references
        self._samples = keep_valid(history.samples)
        works = share_out(layers, device.info)
        self._works = [work for work in works if rows is None or work.row.name in rows]
        self._start = time.monotonic() - _find_spent(history)
        self._budget = budget_seconds
        self._survey = Survey(device, patience_seconds=min(PATIENCE_SECONDS, budget_seconds * _PATIENCE))
        self._unsettled: dict[str, Case] = {}

    def run(self, *, neighbours: Mapping[str, Neighbour] | None = None) -> Outcome:
        """Measure until the budget is used and return what was learned.

        Raises:
            DeviceError: The device failed; what was measured is kept.
            ProfileError: Samples cannot be written.
        """
        self._report("launches and copies", self._used())
        self._survey.guard.watch(_WATCH * self._budget)
        launch_us, wait_us = measure_launches(self.device)
        sharing = measure_copies(self.device) | measure_maps(self.device)
        self._measure_workload(until=_FIRST)
        unsettled = iter(tuple(self._unsettled.values()))
        self._measure(unsettled, until=_FIRST + _UNSETTLED, what="what did not settle", is_again=True)
        for index in range(_ROUNDS):
            self._measure_near_errors(
                until=_FIRST + _UNSETTLED + (1 - _AGAIN - _FIRST - _UNSETTLED) * (index + 1) / _ROUNDS
            )
        self._measure_again()
        references = self._quiet()
        self._log.append_end(references)
        lessons = teach(self._samples, references, self.device.info)
        profile = DeviceProfile(
            info=self.device.info,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=self._used() * self._budget,
            repeatability_pm10=find_repeatability(self._samples, references),
            reference_us=references,
            bandwidth_bytes_per_us=STREAM_BYTES / references[MEMORY],
            launch_us=launch_us,
            wait_us=wait_us,
            rows={name: lesson.model for name, lesson in lessons.items()},
            sharing=sharing,
            neighbours=neighbours or {},
        )
        return Outcome(profile=profile, lessons=lessons, samples=len(self._samples))

    def _measure_workload(self, *, until: float) -> None:
        streams = {work.row.name: iterate_row(work, self.device.info) for work in self._works}
        self._measure(
            merge(self._works, streams), until=until, what="workload", least=0 if self._samples else 1
        )

    def _measure_near_errors(self, *, until: float) -> None:
        """Measure relatives of what is predicted worst, rows that cost networks most time first."""
        if self._used() >= until:
            return
        lessons = teach(self._samples, self._quiet(), self.device.info, is_examined=False)
        rng = np.random.default_rng(len(self._samples))
        works, streams = [], {}
        for work in self._works:
            lesson = lessons.get(work.row.name)
            if lesson is None:
                streams[work.row.name] = iterate_row(work, self.device.info, seed=1)
                works.append(work)
                continue
            missed = float(np.mean(np.abs(lesson.fitted.errors) > 0.1))
            worst = lesson.find_worst(max(4, len(lesson.samples) // 10))
            streams[work.row.name] = iterate_near(worst, work.row, self.device.info, rng)
            works.append(replace(work, weight=work.weight * (0.05 + missed)))
        self._measure(
            merge(works, streams, first=0), until=until, what="where predictions are worst", is_chosen=True
        )

    def _measure_again(self) -> None:
        """Measure some cases a second time, as long after the first as the budget allows."""
        once = {sample.key: sample for sample in reversed(self._samples) if sample.repeat_of is None}
        done = {sample.key for sample in self._samples if sample.repeat_of is not None}
        old = sorted((s for s in once.values() if s.key not in done), key=lambda sample: sample.at)
        old = [s for s in old if time.time() - s.at >= _APART_SECONDS] or old[: len(old) // 3]
        rng = np.random.default_rng(0)
        chosen = {old[place].key: old[place].at for place in rng.permutation(len(old))}
        known = {case.key: case for case in self._rebuild(once[key] for key in chosen)}
        cases = iter([known[key] for key in chosen if key in known])
        self._measure(cases, until=1.0, what="repeatability", repeats=chosen)

    def _rebuild(self, samples: Iterator[Sample]) -> Iterator[Case]:
        rows = {work.row.name: work.row for work in self._works}
        for sample in samples:
            if sample.row in rows:
                yield restore_case(sample, rows[sample.row])

    def _measure(
        self,
        cases: Iterator[Case],
        *,
        until: float,
        what: str,
        repeats: Mapping[str, float] | None = None,
        is_chosen: bool = False,
        is_again: bool = False,
        least: int = 0,
    ) -> None:
        """Measure cases until a share of the budget is used.

        At least some batches are measured in any case: drivers may take long to compile the first kernels.
        """
        done = set() if repeats is not None or is_again else {sample.key for sample in self._samples}
        wanted = _drop_known(cases, done)
        taken = 0
        while taken < least or self._used() < until:
            batch = list(_take_batch(wanted))
            if not batch:
                break
            taken += 1
            self._report(what, self._used())
            by_key = {case.key: case for case in batch}
            for sample in self._survey.measure(batch, repeats=repeats, is_chosen=is_chosen):
                if not sample.is_settled:
                    self._unsettled[sample.key] = by_key[sample.key]
                self._log.append(sample)
                self._samples.append(sample)

    def _used(self) -> float:
        """Return the share of the budget that is used."""
        return min(1.0, (time.monotonic() - self._start) / self._budget)

    def _quiet(self) -> dict[str, float]:
        """Return the references' times in the quietest session that is known."""
        known = [*self._references, self._survey.quiet_us()]
        return {name: min(one[name] for one in known if name in one) for name in (COMPUTE, MEMORY)}


def _take_batch(cases: Iterator[Case]) -> Iterator[Case]:
    """Yield the next cases that are measured together: not too many, and no more than memory holds."""
    size = 0
    for case in islice(cases, BATCH):
        yield case
        size += case.size_bytes
        if size > _BATCH_BYTES:
            break


def _drop_known(cases: Iterator[Case], known: set[str]) -> Iterator[Case]:
    """Yield the cases that are not known yet, each once."""
    for case in cases:
        if case.key not in known:
            known.add(case.key)
            yield case


def _find_spent(history: History) -> float:
    """Return for how long samples were taken since a campaign was last finished, in seconds."""
    times = sorted(sample.at for sample in history.samples if sample.at > history.ended_at)
    return sum(later - sooner for sooner, later in pairwise(times) if later - sooner < _PAUSE_SECONDS)

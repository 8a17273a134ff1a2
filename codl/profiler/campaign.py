"""Profiling a device: measure within a budget, learn, measure more where it was learned badly."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain, count, islice, pairwise
from math import inf
from statistics import median

import numpy as np

from codl.catalog.layers import Layer
from codl.catalog.table import IMPLEMENTATIONS, PAIRS
from codl.devices.opencl import Device
from codl.latency.profile import MEMORY, DeviceProfile, Neighbour
from codl.profiler.case import Case
from codl.profiler.fit import Fitted, fit_rows
from codl.profiler.log import History, SampleLog, read_log
from codl.profiler.overheads import measure_copies, measure_launches, measure_maps
from codl.profiler.placing import place_constants
from codl.profiler.repeats import Repeats
from codl.profiler.samples import find_repeatability, keep_valid
from codl.profiler.sessions import find_quietest, keep_near
from codl.profiler.shared_cache import measure_shared_cache
from codl.profiler.survey import STREAM_BYTES, Survey, Task
from codl.profiler.workload import FIRST_CASES, iterate_near, iterate_row, merge, share_out

_FIRST = 0.5
"""Share of the budget for the workload as it is; the rest goes where errors are."""
_WELL = 0.02
"""Added to the share that is missed: what is predicted well is measured as well."""
_LEAST_SHARE, _LARGE_SHARE = 0.005, 0.1
"""Of a network's time, that a row counts for at least and at most: large ones had most of the workload."""
_ROUNDS = 3
"""Times that errors are looked at."""
_SEEN = 0.25
"""Share of the budget before anything is measured again."""
_REST = 0.07
"""Share of the budget for what is in turn when the last case has joined, and for learning from all."""
_WATCH = 0.02
"""Share of the budget for looking how quiet the machine can be."""
_LOOK = 0.2
"""Share of the budget between two looks at what the driver takes beside kernels.

Source:
    On a Zen 4 single looks at Intel's driver, in sessions of one night, had 3.6, 3.5 and 7.7 us a launch and
    9.6, 9.4 and 25 us a wait, at PoCL 3.9, 8.1 and 4.5, and 13, 20 and 14. By those of 7.7 and 25 us small
    operators all go to the other driver, which takes up to four times as long.
"""
_CACHE_LOOKS = 3
"""At what a shared cache keeps, each time."""
_LEAST_CASES = 14
"""Measured however short the budget is: drivers may take long to compile the first kernels."""
_APART = 0.2
"""Share of the budget between the two measurements of a case, at least."""
_PATIENT_SECONDS = 60.0
"""A shorter budget has no time to wait for calm moments."""
_PAUSE_SECONDS = 30.0
"""Samples further apart were taken in different sessions; compiling the first kernels takes less."""

ROWS = {row.name: row for row in (*IMPLEMENTATIONS, *PAIRS)}
"""The catalog, by name."""
Report = Callable[[str, float], None]
"""Is told what is being done and which share of the budget is used."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A profile and what it was learned from."""

    profile: DeviceProfile
    fitted: Mapping[str, Fitted]
    """By kernel."""
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
        self._references, self._ends = history.references, history.ends
        self._samples = keep_near(keep_valid(history.samples, ROWS), self._ends, self._references)
        works = share_out(layers, device.info)
        self._works = [work for work in works if rows is None or work.row.name in rows]
        self._start = time.monotonic() - _find_spent(history)
        self._budget = budget_seconds
        self._survey = Survey(device)
        self._survey.expect(history.references)
        self._overheads, self._next_look = history.overheads, 0.0
        self._shared_caches = history.shared_caches

    def run(self, *, neighbours: Mapping[str, Neighbour] | None = None) -> Outcome:
        """Measure until the budget is used and return what was learned.

        Raises:
            DeviceError: The device failed; what was measured is kept.
            ProfileError: Samples cannot be written.
        """
        self._report("launches and copies", self._used())
        self._look_at_shared_cache()
        self._survey.watch(_WATCH * self._budget)
        self._look_at_overhead()
        self._look_at_shared_cache()
        sharing = measure_copies(self.device) | measure_maps(self.device)
        self._look_at_shared_cache()
        for sample in self._survey.measure(self._iterate_tasks(), only_calm=self._budget >= _PATIENT_SECONDS):
            self._log.append(sample)
            self._samples.append(sample)
            if self._used() >= self._next_look:
                self._look_at_overhead()
        references = self._quiet()
        found = references | self._survey.near_us()
        self._log.append_end(found)
        self._samples = keep_near(self._samples, [*self._ends, inf], [*self._references, found])
        fitted = fit_rows(self._samples, references, self.device.info, ROWS)
        profile = DeviceProfile(
            info=self.device.info,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=self._used() * self._budget,
            repeatability_pm10=find_repeatability(self._samples, references),
            reference_us=references,
            bandwidth_bytes_per_us=STREAM_BYTES / references[MEMORY],
            shared_cache_bytes=self._shared_cache_bytes(),
            launch_us=median(one.launch_us for one in self._overheads),
            wait_us=median(one.wait_us for one in self._overheads),
            rows={name: one.model for name, one in fitted.items()},
            sharing=sharing,
            neighbours=neighbours or {},
        )
        return Outcome(profile=profile, fitted=fitted, samples=len(self._samples))

    def _look_at_overhead(self) -> None:
        """Look at what the driver takes beside kernels; the median of all looks counts, of all campaigns."""
        self._overheads.append(measure_launches(self.device))
        self._log.append_overhead(self._overheads[-1])
        self._next_look = self._used() + _LOOK

    def _look_at_shared_cache(self) -> None:
        """Look at what a cache that cores share keeps, which for seconds may be nothing."""
        self._shared_caches.append(measure_shared_cache(self.device, looks=_CACHE_LOOKS))
        self._log.append_shared_cache(self._shared_caches[-1])

    def _shared_cache_bytes(self) -> int:
        """Return what a shared cache keeps, by all looks that found one, of all campaigns.

        Source:
            Both cores of a Zen 4, PoCL: 16, 21 and 0 MB in three sessions. By the last all constants were
            taken for near, and of products of matrices 69 instead of 97 % were predicted within 10 %.
        """
        return int(median([kept for kept in self._shared_caches if kept] or [0]))

    def _iterate_tasks(self) -> Iterator[Task]:
        """Yield what to measure next, for as long as the budget lasts."""
        done = {sample.key for sample in self._samples}
        streams = {work.row.name: iterate_row(work, self.device.info) for work in self._works}
        planned = map(self._plan, merge(self._works, streams))
        repeats = Repeats(self._works, self._samples, _APART * self._budget)
        yield from self._take(planned, done, _SEEN, "workload", least=_LEAST_CASES)
        yield from repeats.mix(self._take(planned, done, _FIRST, "workload"))
        missing = FIRST_CASES * len(self._works) - len(done)  # rows that know nothing predict nothing
        yield from self._take(islice(planned, max(0, missing)), done, 1 - _REST, "workload")
        share = (1 - _REST - _FIRST) / _ROUNDS
        for end in (_FIRST + share * (index + 1) for index in range(_ROUNDS)):
            if self._used() < end:
                poor = self._iterate_poor(streams)
                yield from repeats.mix(self._take(poor, done, end, "where predictions are worst"))
        yield from self._take(repeats.iterate_again(), set(), 1 - _REST, "repeatability")

    def _iterate_poor(self, streams: Mapping[str, Iterator[Case]]) -> Iterator[Task]:
        """Yield cases of what networks spend time on and what is predicted badly.

        Of each row in turn the workload's next case and a relative of what is predicted worst.

        Source:
            One core of a Zen 3 for each driver, one log of two sessions. By the 20 to 60 samples that a row
            has of the workload alone 49 and 61 % of depthwise slices are predicted within 10 %, 51 and 72 %
            with a 1x1 convolution behind them, 77 and 61 % of minimal filtering by patches; 63 and 69, 79 and
            92, 84 and 87 % by these and 50 to 170 more that came so.

        Args:
            streams: The rest of the workload, by row.
        """
        fitted = fit_rows(self._samples, self._quiet(), self.device.info, ROWS)
        rng = np.random.default_rng(len(self._samples))
        works = {work.row.name: work for work in self._works}
        poor: dict[str, Iterator[Task]] = {name: map(self._plan, stream) for name, stream in streams.items()}
        for name, one in fitted.items():
            if work := works.get(name):
                worst = one.find_worst(max(4, len(one.samples) // 10))
                near = map(self._plan_chosen, iterate_near(worst, work.row, self.device.info, rng))
                poor[name] = chain(chain.from_iterable(zip(poor[name], near, strict=False)), near)
                missed = _WELL + 1 - one.model.quality.pm10
                share = float(np.clip(work.weight, _LEAST_SHARE, _LARGE_SHARE))
                works[name] = replace(work, weight=share * missed)
        return merge(tuple(works.values()), poor, first=0)

    def _take(
        self, tasks: Iterator[Task], done: set[str], until: float, what: str, *, least: int = 0
    ) -> Iterator[Task]:
        """Yield tasks that are not done until a share of the budget is used, but some in any case."""
        for taken in count():
            if taken >= least and self._used() >= until:
                return
            task = next((task for task in tasks if task.case.key not in done), None)
            if task is None:
                return
            done.add(task.case.key)
            self._report(what, self._used())
            yield task

    def _plan(self, case: Case) -> Task:
        return Task(
            case=place_constants(case, self.device.info, shared_cache_bytes=self._shared_cache_bytes())
        )

    def _plan_chosen(self, case: Case) -> Task:
        return replace(self._plan(case), is_chosen=True)

    def _used(self) -> float:
        """Return the share of the budget that is used."""
        return min(1.0, (time.monotonic() - self._start) / self._budget)

    def _quiet(self) -> dict[str, float]:
        """Return what `Survey.quiet_us` and `near_us` say in the quietest session that is known."""
        return find_quietest([*self._references, self._survey.quiet_us() | self._survey.near_us()])


def _find_spent(history: History) -> float:
    """Return for how long samples were taken since a campaign was last finished, in seconds."""
    ended_at = max(history.ends, default=0.0)
    times = sorted(sample.at for sample in history.samples if sample.at > ended_at)
    return sum(later - sooner for sooner, later in pairwise(times) if later - sooner < _PAUSE_SECONDS)

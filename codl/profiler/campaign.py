"""Profiling a device: measure within a budget, then fit."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from statistics import median

import numpy as np

from codl.catalog.layers import Layer
from codl.catalog.table import IMPLEMENTATIONS, PAIRS
from codl.devices.opencl import Device
from codl.latency.profile import MEMORY, DeviceProfile, Neighbour
from codl.profiler.fit import fit_rows
from codl.profiler.log import History, SampleLog, read_log
from codl.profiler.overheads import measure_copies, measure_launches, measure_maps
from codl.profiler.sampler import STREAM_BYTES, Sampler, Task
from codl.profiler.samples import find_repeatability, keep_valid, restore_case
from codl.profiler.shared_cache import measure_shared_cache
from codl.profiler.workload import FIRST_CASES, iterate_row, merge, share_out

_WORKLOAD, _ALL = 0.8, 0.93
"""Shares of the budget for new cases, and with cases that are measured again; the rest is for the last ones
in turn, and the fit."""
_LEAST_CASES = 14
"""Measured however short the budget is: drivers may take long to compile the first kernels."""
_PAUSE_SECONDS = 30.0
"""Samples further apart were taken by different starts; compiling the first kernels takes less."""

ROWS = {row.name: row for row in (*IMPLEMENTATIONS, *PAIRS)}
"""The catalog, by name."""
Report = Callable[[str, float], None]
"""Is given what is being done and which share of the budget is used."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A profile and what it was fitted to."""

    profile: DeviceProfile
    samples: int


class Campaign:
    """The profiling of one device.

    Args:
        device: What to profile.
        layers: What to measure it on.
        log: Where samples are kept.
        budget_seconds: How long to measure; what an interrupted campaign has used counts.
        rows: Kernels to measure; all by default.
        report: Is given the progress.
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
        self._samples = keep_valid(history.samples, ROWS)
        works = share_out(layers, device.info)
        self._works = [work for work in works if rows is None or work.row.name in rows]
        self._start = time.monotonic() - _find_spent(history)
        self._budget = budget_seconds
        self._shared_cache_bytes = 0

    def run(self, *, neighbours: Mapping[str, Neighbour] | None = None) -> Outcome:
        """Measure until the budget is used and return the fitted profile.

        Raises:
            DeviceError: The device failed; what was measured is kept.
            ProfileError: Samples cannot be written.
        """
        self._report("launches and copies", self._used())
        overheads = [measure_launches(self.device)]
        self._shared_cache_bytes = measure_shared_cache(self.device)
        sharing = measure_copies(self.device) | measure_maps(self.device)
        sampler = Sampler(self.device)
        for sample in sampler.measure(self._iterate_tasks()):
            self._log.add(sample)
            self._samples.append(sample)
        overheads.append(measure_launches(self.device))
        self._log.add_end()
        references = sampler.find_references_us()
        profile = DeviceProfile(
            info=self.device.info,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=self._used() * self._budget,
            repeatability_pm10=find_repeatability(self._samples, references),
            reference_us=references,
            bandwidth_bytes_per_us=STREAM_BYTES / references[MEMORY],
            shared_cache_bytes=self._shared_cache_bytes,
            launch_us=median(one.launch_us for one in overheads),
            wait_us=median(one.wait_us for one in overheads),
            rows=fit_rows(self._samples, references, self.device.info, ROWS),
            sharing=sharing,
            neighbours=neighbours or {},
        )
        return Outcome(profile=profile, samples=len(self._samples))

    def _iterate_tasks(self) -> Iterator[Task]:
        """Yield what to measure next, for as long as the budget lasts.

        Kernels that have hardly any samples come before anything is measured again.
        """
        done = {sample.key for sample in self._samples}
        streams = {work.row.name: iterate_row(work, self.device.info) for work in self._works}
        known = len(done)
        for case in merge(self._works, streams):
            is_early = len(done) < FIRST_CASES * len(self._works) and self._used() < _ALL
            if len(done) - known >= _LEAST_CASES and self._used() >= _WORKLOAD and not is_early:
                break
            if case.key not in done:
                done.add(case.key)
                self._report("workload", self._used())
                yield Task(case=case.place_constants(self.device.info, self._shared_cache_bytes))
        yield from self._iterate_again()

    def _iterate_again(self) -> Iterator[Task]:
        """Yield in random order what was measured, to see how well that repeats."""
        first = {sample.key: sample for sample in reversed(self._samples) if sample.row in ROWS}
        samples = list(first.values())
        for place in np.random.default_rng(len(samples)).permutation(len(samples)):
            if self._used() >= _ALL:
                return
            sample = samples[int(place)]
            self._report("repeatability", self._used())
            yield Task(case=restore_case(sample, ROWS[sample.row]), repeat_of=sample.at)

    def _used(self) -> float:
        """Return the share of the budget that is used."""
        return min(1.0, (time.monotonic() - self._start) / self._budget)


def _find_spent(history: History) -> float:
    """Return for how long samples were taken since a campaign was last finished, in seconds."""
    ended_at = max(history.ends, default=0.0)
    times = sorted(sample.at for sample in history.samples if sample.at > ended_at)
    return sum(later - sooner for sooner, later in pairwise(times) if later - sooner < _PAUSE_SECONDS)

"""Profiling a device: measure within a budget, then fit."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from statistics import median

import numpy as np

from codl.catalog.layers import Layer
from codl.devices.opencl import Device
from codl.latency.profile import MEMORY, DeviceProfile, Neighbour
from codl.profiler.case import Case
from codl.profiler.fit import fit_rows
from codl.profiler.log import History, SampleLog, read_log
from codl.profiler.overheads import measure_copies, measure_launches, measure_maps
from codl.profiler.sampler import STREAM_BYTES, Sampler
from codl.profiler.samples import find_repeatability, keep_valid, restore_case
from codl.profiler.shared_cache import measure_shared_cache
from codl.profiler.workload import FIRST_CASES, iterate_row, merge, share_out

_WORKLOAD, _ALL = 0.8, 0.93
"""Shares of the budget after which no new case begins, and after which none is measured again."""
_LEAST_CASES = 14
"""Measured however short the budget is: drivers may take long to compile the first kernels."""
_PAUSE_SECONDS = 30.0
"""Samples further apart were taken by different starts; compiling the first kernels takes less."""

Report = Callable[[str, float], None]
"""Called with the current task in words and the share of the budget that is used."""


class Campaign:
    """The profiling of one device.

    Args:
        device: The device.
        layers: The workload.
        log: Where samples are kept.
        budget_seconds: How long to measure, the time of an interrupted campaign included.
        rows: Kernels to measure; all by default.
        report: Called with the progress.
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
        self._samples = keep_valid(history.samples)
        works = share_out(layers, device.info)
        self._works = [work for work in works if rows is None or work.row.name in rows]
        self._start = time.monotonic() - _find_spent(history)
        self._budget = budget_seconds
        self._shared_cache_bytes = 0

    def run(self, *, neighbours: Mapping[str, Neighbour]) -> DeviceProfile:
        """Measure until the budget is used and return the fitted profile.

        Args:
            neighbours: By name of another device, what the two do to each other.

        Raises:
            DeviceError: The device failed; what was measured is kept.
            ProfileError: Samples cannot be written.
        """
        self._report("launches and copies", self._used())
        overheads = [measure_launches(self.device)]
        self._shared_cache_bytes = measure_shared_cache(self.device)
        sharing = measure_copies(self.device) | measure_maps(self.device)
        sampler = Sampler(self.device)
        for sample in sampler.measure(self._iterate_cases()):
            self._log.add(sample)
            self._samples.append(sample)
        overheads.append(measure_launches(self.device))
        self._log.add_end()
        references = sampler.find_references_us()
        return DeviceProfile(
            info=self.device.info,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=self._used() * self._budget,
            repeatability_pm10=find_repeatability(self._samples, references),
            reference_us=references,
            bandwidth_bytes_per_us=STREAM_BYTES / references[MEMORY],
            shared_cache_bytes=self._shared_cache_bytes,
            launch_us=median(launch_us for launch_us, _ in overheads),
            wait_us=median(wait_us for _, wait_us in overheads),
            rows=fit_rows(self._samples, references, self.device.info),
            sharing=sharing,
            neighbours=neighbours,
        )

    def _iterate_cases(self) -> Iterator[Case]:
        """Yield the cases to measure for as long as the budget lasts.

        Nothing is measured again before every kernel has some samples.
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
                yield case.place_constants(self.device.info, self._shared_cache_bytes)
        yield from self._iterate_again()

    def _iterate_again(self) -> Iterator[Case]:
        """Yield measured cases in random order, to find how well measurements repeat."""
        samples = list({sample.key: sample for sample in reversed(self._samples)}.values())
        for place in np.random.default_rng(len(samples)).permutation(len(samples)):
            if self._used() >= _ALL:
                return
            self._report("repeatability", self._used())
            yield restore_case(samples[int(place)])

    def _used(self) -> float:
        """Return the share of the budget that is used."""
        return min(1.0, (time.monotonic() - self._start) / self._budget)


def _find_spent(history: History) -> float:
    """Return the seconds in which samples were taken since the last complete campaign."""
    ended_at = max(history.ends, default=0.0)
    times = sorted(sample.at for sample in history.samples if sample.at > ended_at)
    return sum(later - sooner for sooner, later in pairwise(times) if later - sooner < _PAUSE_SECONDS)

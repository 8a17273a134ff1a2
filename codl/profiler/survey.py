"""Measures cases in rounds, interleaved with the reference kernels."""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from codl.devices.limits import pinned_caller
from codl.devices.loads import Call, prepare_spin, prepare_sweep
from codl.devices.opencl import Device
from codl.devices.reference import COMPUTE, MEMORY, References
from codl.devices.stopwatch import Stopwatch
from codl.devices.timing import Row
from codl.errors import BuildError
from codl.latency.profile import digest_implementation
from codl.profiler.case import Case, PreparedCase, count_bytes
from codl.profiler.log import Sample

ROUNDS, MOST_ROUNDS = 5, 10
"""Rounds of every case, and of those whose fastest times differ."""
LONG_SECONDS, LONG_ROUNDS = 0.004, 3
"""What takes longer than this is compared with references of its own length, and less often."""
BATCH = 6
"""Cases measured together, between two runs of the references."""
STREAM_BYTES = 1 << 26
"""What the memory-bound reference moves."""
_LOAD_SECONDS = 5e-4
_MOST_LOADS = 64
_US = 1e6

REFERENCE_WORK = {COMPUTE: float(1 << 20), MEMORY: 1.0}
"""What the references of a profile do, on whatever device: samples count in these."""


@dataclass(slots=True)
class Times:
    """What was found out about one case."""

    ratios: dict[str, float] = field(default_factory=dict)
    """To each reference, in units of its work."""
    spread: float = 0.0
    """How far its fastest times, or its ratios, lie apart."""
    rounds: int = 0


class Survey:
    """Everything that measuring cases on one device needs, set up once.

    Args:
        device: What to measure.

    Raises:
        DeviceError: The driver refused a kernel or memory.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.stopwatch = Stopwatch(device)
        self.references = References(device)
        self._sweep = prepare_sweep(self.stopwatch.device)
        self._work = {name: work / REFERENCE_WORK[name] for name, work in self.references.work.items()}

    def measure(
        self, cases: Sequence[Case], *, repeats: Mapping[str, float] | None = None, is_chosen: bool = False
    ) -> list[Sample]:
        """Return a sample for each case that the driver could build.

        Args:
            cases: Few enough to lie in memory together.
            repeats: Case key -> when it was measured before, for those that are measured again.
            is_chosen: Whether they are measured because their like were predicted badly.

        Raises:
            DeviceError: The device failed.
        """
        rows: dict[str, PreparedCase] = {}
        for case in cases:
            with suppress(BuildError):  # a kernel that this driver cannot build is chosen nowhere
                rows[case.key] = PreparedCase(case, self.stopwatch, self._sweep)
        if not rows:
            return []
        first = {key: row.run() for key, row in rows.items()}  # drivers compile at the first launch
        self.device.store_programs()
        times = {key: Times() for key in rows}
        with pinned_caller():  # once, not for every row
            short = {key: row for key, row in rows.items() if first[key] <= LONG_SECONDS}
            self._take(short, times)
            for key, row in rows.items():
                if key not in short:
                    times[key] = self.measure_long(row.run)
        again = repeats or {}
        samples = [self._make_sample(rows[key].case, times[key], again.get(key)) for key in rows]
        return [replace(sample, is_chosen=is_chosen) for sample in samples]

    def quiet_us(self) -> dict[str, float]:
        """Return what the references take when the machine is quiet, so far."""
        return {
            name: self.references.sampler.quiet_seconds(name) * _US / self._work[name]
            for name in (COMPUTE, MEMORY)
        }

    def _take(self, rows: Mapping[str, PreparedCase], times: Mapping[str, Times]) -> None:
        """Measure short cases until the fastest times of each agree, as those of an idle machine do."""
        if not rows:
            return
        taken = self.references.sampler.take(
            {key: row.run for key, row in rows.items()},
            least_rounds=ROUNDS,
            most_rounds=MOST_ROUNDS,
            until_settled=True,
            warmup=0,
            pause_seconds=0.0,
        )
        for key in rows:
            fastest = np.sort(taken.seconds[key])
            times[key].spread = float(fastest[min(2, len(fastest) - 1)] / max(fastest[0], 1e-9)) - 1
            times[key].rounds = taken.count
            for name in (COMPUTE, MEMORY):
                times[key].ratios[name] = taken.settled_ratio(key, name) * self._work[name]

    def measure_long(self, run: Row, *, rounds: int = LONG_ROUNDS) -> Times:
        """Return how long something takes beside as much work of each reference, enqueued at once.

        Where processes share a core, each runs undisturbed for a few ms after a rest and gets its share from
        then on. A reference of 1 ms knows nothing of that.
        """
        ratios: dict[str, list[float]] = {name: [] for name in self._loads}
        for _ in range(rounds):
            taken = run()
            for name, load in self._loads.items():
                unit = max(self._load_units[name], 1e-9)
                count = min(_MOST_LOADS, max(1, round(taken / unit)))
                beside = self.stopwatch.time([load] * count) / count
                ratios[name].append(taken / beside * self._load_ratios[name] * self._work[name])
        medians = {name: float(np.median(values)) for name, values in ratios.items()}
        deviations = np.abs(np.asarray(ratios[COMPUTE]) / max(medians[COMPUTE], 1e-12) - 1)
        return Times(ratios=medians, spread=float(np.median(deviations)), rounds=rounds)

    def _make_sample(self, case: Case, times: Times, repeat_of: float | None) -> Sample:
        row = case.selection.implementation
        memory_us = count_bytes(case, self.device.info) * self.quiet_us()[MEMORY] / STREAM_BYTES
        return Sample(
            key=case.key,
            row=row.name,
            digest=digest_implementation(row),
            layer=json.loads(case.layer.key),
            parameters=dict(case.selection.parameters),
            begin=case.region.begin,
            end=case.region.end,
            ratios={name: max(value, 1e-9) for name, value in times.ratios.items()},
            memory_share=min(1.0, memory_us / max(times.ratios[COMPUTE] * self.quiet_us()[COMPUTE], 1e-6)),
            spread=round(times.spread, 4),
            rounds=times.rounds,
            at=time.time(),
            repeat_of=repeat_of,
        )

    @cached_property
    def _loads(self) -> Mapping[str, Call]:
        """One unit of each reference's sort of work, enqueued without a wait."""
        rounds = 1 << 12
        while (
            rounds < 1 << 28
            and self.stopwatch.time([prepare_spin(self.stopwatch.device, rounds=rounds)]) < _LOAD_SECONDS
        ):
            rounds *= 2
        return {
            COMPUTE: prepare_spin(self.stopwatch.device, rounds=rounds),
            MEMORY: prepare_sweep(self.stopwatch.device, footprint=STREAM_BYTES),
        }

    @cached_property
    def _load_units(self) -> Mapping[str, float]:
        """What a unit takes, in seconds."""
        return {
            name: float(np.median([self.stopwatch.time([load]) for _ in range(ROUNDS)]))
            for name, load in self._loads.items()
        }

    @cached_property
    def _load_ratios(self) -> Mapping[str, float]:
        """What a unit takes, in runs of its reference."""
        rows = {f"{name} unit": partial(self.stopwatch.time, [load]) for name, load in self._loads.items()}
        taken = self.references.sampler.take(rows, most_rounds=3 * ROUNDS, warmup=1, pause_seconds=0.0)
        return {name: taken.ratio(f"{name} unit", name).median for name in self._loads}


def find_time_us(sample: Sample, references: Mapping[str, float]) -> float:
    """Return a sample's time in a quiet minute: by the reference that is limited by what limits it.

    Where memory limits a part of it, the ratios to both references count, by their logarithms.
    """
    times = {name: sample.ratios[name] * references[name] for name in (COMPUTE, MEMORY)}
    return float(times[COMPUTE] ** (1 - sample.memory_share) * times[MEMORY] ** sample.memory_share)

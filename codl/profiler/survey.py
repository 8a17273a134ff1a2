"""Measures cases in rounds, interleaved with the reference kernels."""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial

import numpy as np

from codl.devices.limits import pinned_caller
from codl.devices.loads import Call, prepare_spin, prepare_sweep
from codl.devices.opencl import Device
from codl.devices.reference import COMPUTE, MEMORY, References
from codl.devices.stopwatch import Stopwatch
from codl.errors import BuildError
from codl.latency.profile import digest_implementation
from codl.profiler.case import Case, PreparedCase
from codl.profiler.log import Sample

ROUNDS = 5
"""Rounds of every case; more where they differ."""
MORE_ROUNDS = 6
LONG_SECONDS, LONG_ROUNDS = 0.004, 3
"""What takes longer than this is compared with references of its own length, and less often."""
SPREAD = 0.05
"""Relative deviation of the rounds above which a case is measured for longer."""
BATCH = 6
"""Cases measured together, between two runs of the references."""
_STREAM_BYTES = 1 << 26
_LOAD_SECONDS = 5e-4
_MOST_LOADS = 64
_US = 1e6

REFERENCE_WORK = {COMPUTE: float(1 << 20), MEMORY: 1.0}
"""What the references of a profile do, on whatever device: samples count in these."""
Ratios = dict[str, list[float]]


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

    def measure(self, cases: Sequence[Case], *, repeats: Mapping[str, float] | None = None) -> list[Sample]:
        """Return a sample for each case that the driver could build.

        Args:
            cases: Few enough to lie in memory together.
            repeats: Case key -> when it was measured before, for those that are measured again.

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
        ratios: dict[str, Ratios] = {key: {COMPUTE: [], MEMORY: []} for key in rows}
        with pinned_caller():  # once, not for every row
            short = {key: row for key, row in rows.items() if first[key] <= LONG_SECONDS}
            self._take(short, ratios, ROUNDS)
            restless = {key: row for key, row in short.items() if min(_spread(ratios[key]).values()) > SPREAD}
            self._take(restless, ratios, MORE_ROUNDS)
            for key, row in rows.items():
                if key not in short:
                    self._take_long(row, ratios[key])
        again = repeats or {}
        return [_make_sample(rows[key].case, ratios[key], again.get(key)) for key in rows]

    def quiet_us(self) -> dict[str, float]:
        """Return what the references take when the machine is quiet, so far."""
        return {
            name: self.references.sampler.quiet_seconds(name) * _US / self._work[name]
            for name in (COMPUTE, MEMORY)
        }

    def measure_bandwidth(self, references: Mapping[str, float]) -> float:
        """Return the bytes that the device moves in a us when it copies memory and does nothing else.

        Args:
            references: Quiet times of the references, in us.
        """
        sweep = prepare_sweep(self.device, footprint=_STREAM_BYTES)

        def stream() -> float:
            start = time.perf_counter()
            sweep()
            self.device.finish()
            return time.perf_counter() - start

        taken = self.references.sampler.take({"stream": stream}, most_rounds=9, pause_seconds=0.0)
        ratio = taken.ratio("stream", MEMORY).median * self._work[MEMORY]
        return _STREAM_BYTES / (ratio * references[MEMORY])

    def _take(self, rows: Mapping[str, PreparedCase], ratios: Mapping[str, Ratios], rounds: int) -> None:
        if not rows:
            return
        taken = self.references.sampler.take(
            {key: row.run for key, row in rows.items()},
            most_rounds=rounds,
            warmup=0,
            pause_seconds=0.0,
        )
        for key in rows:
            for name in (COMPUTE, MEMORY):
                ratios[key][name] += (taken.seconds[key] / taken.seconds[name] * self._work[name]).tolist()

    def _take_long(self, row: PreparedCase, ratios: Ratios) -> None:
        """Measure a case beside as much work of each reference, enqueued at once.

        Where processes share a core, each runs undisturbed for a few ms after a rest and gets its share from
        then on. A reference of 1 ms knows nothing of that.
        """
        for _ in range(LONG_ROUNDS):
            taken = row.run()
            for name, load in self._loads.items():
                unit_us = self._load_units[name]
                count = max(1, round(taken / max(unit_us, 1e-9)))
                beside = self.stopwatch.time([load] * min(count, _MOST_LOADS)) / min(count, _MOST_LOADS)
                ratios[name].append(taken / beside * self._load_ratios[name] * self._work[name])

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
            MEMORY: prepare_sweep(self.stopwatch.device, footprint=_STREAM_BYTES),
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
    """Return a sample's time in a quiet minute: by the reference whose ratios vary least."""
    best = min(references, key=lambda name: (sample.spreads[name], name))
    return sample.ratios[best] * references[best]


def _spread(ratios: Ratios) -> dict[str, float]:
    spreads = {}
    for name, values in ratios.items():
        median = float(np.median(values))
        spreads[name] = float(np.median(np.abs(np.asarray(values) - median))) / max(median, 1e-12)
    return spreads


def _make_sample(case: Case, ratios: Ratios, repeat_of: float | None) -> Sample:
    row = case.selection.implementation
    return Sample(
        key=case.key,
        row=row.name,
        digest=digest_implementation(row),
        layer=json.loads(case.layer.key),
        parameters=dict(case.selection.parameters),
        begin=case.region.begin,
        end=case.region.end,
        ratios={name: max(float(np.median(values)), 1e-9) for name, values in ratios.items()},
        spreads={name: round(value, 4) for name, value in _spread(ratios).items()},
        rounds=len(next(iter(ratios.values()))),
        at=time.time(),
        repeat_of=repeat_of,
    )

"""Measured times, added to an inspection."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from codl.plan.timeline import HOST_TRACK, Span
from codl.report.inspection import Inspection, Operator, StepRow

Run = Sequence[Span]
"""The spans of one run."""


def add_measurement(inspection: Inspection, runs: Sequence[Run], whole_us: Sequence[float]) -> Inspection:
    """Return an inspection with medians over some runs.

    Args:
        inspection: What was predicted.
        runs: What took place in each run, at least one; launches and host calls named by operator.
        whole_us: What whole runs took, without being watched.
    """
    times = _find_medians(runs)
    steps = tuple(_add_to_step(step, times, inspection.devices) for step in inspection.steps)
    operators = tuple(_add_to_operator(o, times, inspection.devices, steps) for o in inspection.operators)
    typical = sorted(runs, key=_find_end)[len(runs) // 2]
    return replace(
        inspection,
        operators=operators,
        steps=steps,
        totals=replace(inspection.totals, measured_us=median(whole_us)),
        measured=tuple(typical),
    )


def _find_end(run: Run) -> float:
    return max((span.start_us + span.duration_us for span in run), default=0.0)


def _find_medians(runs: Sequence[Run]) -> Mapping[tuple[str, str], float]:
    """Return by operator and track the median of its time in a run, several launches added up."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        sums: dict[tuple[str, str], float] = defaultdict(float)
        for span in run:
            if span.kind in {"launch", "host"}:
                sums[span.name, span.track] += span.duration_us
        for key, us in sums.items():
            found[key].append(us)
    return {key: median(values) for key, values in found.items()}


def _add_to_step(step: StepRow, times: Mapping[tuple[str, str], float], devices: Sequence[str]) -> StepRow:
    measured = tuple(
        sum(mine) if (mine := [times[n, device] for n in step.nodes if (n, device) in times]) else None
        for device in devices
    )
    return replace(step, measured_us=measured)


def _add_to_operator(
    operator: Operator,
    times: Mapping[tuple[str, str], float],
    devices: Sequence[str],
    steps: Sequence[StepRow],
) -> Operator:
    parts = tuple(
        replace(part, measured_us=times.get((operator.name, part.device))) for part in operator.parts
    )
    own = times.get((operator.name, HOST_TRACK))
    if parts:
        by_device = {part.device: part.measured_us for part in parts}
        waited = [
            (us, device)
            for us, device in zip(steps[operator.step].measured_us, devices, strict=True)
            if us is not None
        ]
        own = by_device.get(max(waited)[1]) if waited else None
    return replace(operator, parts=parts, measured_us=own)

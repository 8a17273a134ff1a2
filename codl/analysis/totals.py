"""The time of a whole plan, compared with alternatives, and where it goes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codl.analysis.slices import Slices
from codl.plan.steps import Plan
from codl.plan.timeline import HOST_TRACK, Span
from codl.report.inspection import StepRow, Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class Single:
    """The network on one device alone."""

    total_us: float
    operators_us: Mapping[str, float]
    """By node; operators that take no time may be missing."""


Singles = Sequence[Single | None]
"""By device; None for one without a profile."""


def find_totals(
    plan: Plan,
    singles: Singles,
    *,
    slices: Slices,
    steps: Sequence[StepRow],
    timeline: Sequence[Span],
) -> Totals:
    """Return a plan's time, each device's alone, and the ideal of all devices together.

    Args:
        plan: The plan with its price, if it has one.
        singles: The network on each of its devices alone.
        slices: Predictions of its launches.
        steps: Its steps, explained.
        timeline: When everything happens, as predicted.
    """
    known = [(s.total_us, name) for s, name in zip(singles, plan.devices, strict=True) if s is not None]
    best = min(known) if known else None
    predicted = plan.predicted_us
    is_priced = predicted is not None and bool(timeline)
    return Totals(
        predicted_us=predicted,
        single_us=tuple(None if single is None else single.total_us for single in singles),
        best_single=best[1] if best else None,
        best_single_us=best[0] if best else plan.best_single_us,
        ideal_us=_find_ideal(singles),
        parts=_find_parts(predicted or 0.0, slices, steps, timeline) if is_priced else None,
    )


def _find_ideal(singles: Singles) -> float | None:
    """Return the sum over operators of the time at the speeds of all devices added up.

    Source:
        CoDL (MobiSys 2022), section 6: the ideal without sharing costs.
    """
    known = [single.operators_us for single in singles if single is not None]
    if len(known) < len(singles) or not known:
        return None
    shared = set[str].intersection(*(set(times) for times in known))
    return sum(
        1 / sum(1 / times[name] for times in known)
        for name in sorted(shared)
        if min(times[name] for times in known) > 0
    )


def _find_parts(
    total_us: float, slices: Slices, steps: Sequence[StepRow], timeline: Sequence[Span]
) -> Mapping[str, float]:
    """Return where a plan's time goes, in us: computing is what the device takes that a step waits for."""
    parts = dict.fromkeys(("compute", "repeated", "disturbance", "imbalance", "sharing", "waiting"), 0.0)
    for step in steps:
        for name, us in _split_step(step, slices).items():
            parts[name] += us
    for span in timeline:
        if span.kind == "wait":
            parts["waiting"] += span.duration_us
        elif span.track == HOST_TRACK:
            parts["sharing"] += span.duration_us
    parts["sharing"] += _find_device_sharing(timeline)
    rest = total_us - sum(parts.values())
    return {**parts, "overlap": min(0.0, rest), "other": max(0.0, rest)}


def _find_device_sharing(timeline: Sequence[Span]) -> float:
    """Return what publishing and receiving take on the device of each step that does most of it."""
    sums: dict[tuple[int, str], float] = {}
    for span in timeline:
        if span.track != HOST_TRACK and span.kind not in ("launch", "wait") and span.step is not None:
            key = (span.step, span.track)
            sums[key] = sums.get(key, 0.0) + span.duration_us
    longest: dict[int, float] = {}
    for (step, _), us in sums.items():
        longest[step] = max(longest.get(step, 0.0), us)
    return sum(longest.values())


def _split_step(step: StepRow, slices: Slices) -> Mapping[str, float]:
    """Return where the time of a step goes, in us, on the device that it waits for."""
    times = [us or 0.0 for us in step.compute_us]
    working = [us for us in times if us > 0]
    if not working:
        return {}
    longest = max(times)
    device = times.index(longest)
    repeated = disturbance = 0.0
    for name in step.nodes:
        if (name, device) in slices:
            known = slices[name, device]
            us = known.us or 0.0
            disturbance += max(0.0, us - (known.alone_us or us))
            repeated += min(us, known.alone_us or us) * known.repeated_share
    idle = longest - sum(working) / len(working)
    plain = longest - repeated - disturbance
    balanced = max(0.0, plain - idle)
    return {
        "compute": balanced,
        "repeated": repeated,
        "disturbance": disturbance,
        "imbalance": plain - balanced,
    }

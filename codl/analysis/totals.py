"""The whole of a plan beside what it could be, and where its time goes."""

from collections.abc import Mapping, Sequence

from codl.analysis.slices import Oracle, Slices
from codl.ir.graph import Graph, Node
from codl.ir.ops import HostCall
from codl.ir.regions import Region
from codl.plan.steps import Plan
from codl.plan.timeline import HOST_TRACK, Span
from codl.report.inspection import StepRow, Totals


def find_totals(
    plan: Plan,
    oracle: Oracle,
    *,
    slices: Slices,
    steps: Sequence[StepRow],
    timeline: Sequence[Span],
) -> Totals:
    """Return a plan's time, each device's alone, and the ideal of all devices together.

    Args:
        plan: The plan; what it says of its own times goes first.
        oracle: Knows the network and its devices.
        slices: What its launches are predicted to take.
        steps: Its steps, explained.
        timeline: When everything happens, as predicted.
    """
    whole = predict_whole(oracle)
    singles = tuple(None if times is None else sum(times.values()) for times in whole)
    known = [(us, name) for us, name in zip(singles, plan.devices, strict=True) if us is not None]
    best = min(known) if known else None
    predicted = plan.predicted_us
    return Totals(
        predicted_us=predicted,
        single_us=singles,
        best_single=best[1] if best else None,
        best_single_us=plan.best_single_us or (best[0] if best else None),
        ideal_us=_find_ideal(whole),
        parts=_find_parts(predicted, slices, steps, timeline) if predicted is not None and timeline else None,
    )


def predict_whole(oracle: Oracle) -> list[Mapping[str, float] | None]:
    """Return by device what every operator takes there whole and alone, by node; None without a profile."""
    found: list[Mapping[str, float] | None] = []
    for device, predictor in enumerate(oracle.predictors):
        times = {}
        for node in list_kernels(oracle.graph) if predictor is not None else ():
            whole = Region.whole(oracle.graph.shape(node.output))
            times[node.name] = oracle.predict(node, device, whole).alone_us or 0.0
        found.append(None if predictor is None else times)
    return found


def list_kernels(graph: Graph) -> list[Node]:
    """Return the nodes that devices compute."""
    return [node for node in graph.nodes if not isinstance(node.op, HostCall)]


def _find_ideal(whole: Sequence[Mapping[str, float] | None]) -> float | None:
    """Return the sum over operators of the time at the speeds of all devices added up."""
    known = [times for times in whole if times is not None]
    if len(known) < len(whole) or not known:
        return None
    return sum(1 / sum(1 / max(times[name], 1e-9) for times in known) for name in known[0])


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
    return {**parts, "other": total_us - sum(parts.values())}


def _split_step(step: StepRow, slices: Slices) -> Mapping[str, float]:
    """Return what the device that a step waits for does, and how much less it would be in perfect balance."""
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

"""A timeline as a trace file: the keys of onnxruntime's profiles, a track for each queue.

Perfetto (ui.perfetto.dev) and chrome://tracing show it; readers of onnxruntime's profiles find their keys.
"""

from collections.abc import Sequence
from typing import Any

from codl.plan.timeline import HOST_TRACK, Span
from codl.report.inspection import Inspection, Operator

_CATEGORIES = {"launch": "Node", "host": "Node", "wait": "Wait"}
_PREDICTED, _MEASURED = 1, 2
"""Processes of the trace."""


def list_trace_events(inspection: Inspection) -> list[dict[str, Any]]:
    """Return the events of a trace, times in microseconds: what is predicted, and what was measured."""
    places = {operator.name: place for place, operator in enumerate(inspection.operators)}
    events: list[dict[str, Any]] = []
    for process, name, spans in (
        (_PREDICTED, "predicted", inspection.timeline),
        (_MEASURED, "measured", inspection.measured),
    ):
        if not spans:
            continue
        tracks = _number_tracks(inspection, spans)
        events.append(_name_process(process, f"{inspection.model}, {name}"))
        events.extend(_name_thread(process, number, track) for track, number in tracks.items())
        events.extend(_make_event(span, process, tracks, places, inspection) for span in spans)
    return events


def _number_tracks(inspection: Inspection, spans: Sequence[Span]) -> dict[str, int]:
    names = dict.fromkeys((*inspection.devices, HOST_TRACK, *(span.track for span in spans)))
    return {name: number for number, name in enumerate(names, 1)}


def _name_process(process: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": name}}


def _name_thread(process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": name}}


def _make_event(
    span: Span,
    process: int,
    tracks: dict[str, int],
    places: dict[str, int],
    inspection: Inspection,
) -> dict[str, Any]:
    is_node = span.kind in {"launch", "host"} and span.name in places
    operator = inspection.operators[places[span.name]] if is_node else None
    name = f"{span.name}_kernel_time" if operator else f"{span.name}_{span.kind}" if span.name else span.kind
    args: dict[str, Any] = {"provider": span.track}
    if operator is not None:
        args |= {
            "op_name": operator.kind,
            "node_index": str(places[operator.name]),
            "output_type_shape": [{"float": list(operator.shape)}],
        }
        args |= {f"codl.{key}": value for key, value in describe_decision(operator, inspection).items()}
    if span.size_bytes is not None:
        args["bytes"] = span.size_bytes
    if span.other is not None:
        args["device"] = span.other
    return {
        "cat": _CATEGORIES.get(span.kind, "Copy"),
        "pid": process,
        "tid": tracks[span.track],
        "ts": round(span.start_us, 3),
        "dur": round(span.duration_us, 3),
        "ph": "X",
        "name": name,
        "args": args,
    }


def describe_decision(operator: Operator, inspection: Inspection) -> dict[str, str]:
    """Return what the plan decided about an operator, in words, by name."""
    told = {"step": str(operator.step + 1), "operators_in_step": str(operator.length)}
    if not operator.parts:
        return {**told, "device": "host", **({"reason": operator.note} if operator.note else {})}
    if operator.in_kernel_of is not None:
        told["in_kernel_of"] = operator.in_kernel_of
    if operator.axis is None:
        told["device"] = operator.parts[0].device
    else:
        told["axis"] = operator.axis_name or str(operator.axis)
        told["cut"] = ", ".join(f"{part.device} {part.begin}:{part.end}" for part in operator.parts)
    for part in operator.parts:
        if part.kernel is not None:
            told[f"kernel.{part.device}"] = part.kernel
        if part.predicted_us is not None:
            told[f"predicted_us.{part.device}"] = f"{part.predicted_us:.6g}"
        if part.measured_us is not None:
            told[f"measured_us.{part.device}"] = f"{part.measured_us:.6g}"
    told["planner"] = inspection.planner
    return told

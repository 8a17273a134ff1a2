"""An inspection as text: a row for each operator, then the whole plan compared with alternatives."""

from collections.abc import Iterator
from itertools import pairwise

from codl.plan.text import draw_bracket
from codl.report.inspection import Inspection, Operator, StepRow, Totals, Us, format_share, format_us

_NAME_WIDTH = 36
_PARTS = {
    "compute": "compute",
    "repeated": "halos computed twice",
    "disturbance": "slowed by each other",
    "imbalance": "one waits for the other",
    "sharing": "sharing data",
    "waiting": "synchronization",
    "overlap": "steps side by side",
    "other": "other",
}


def list_columns(inspection: Inspection) -> list[str]:
    """Return the heads of the columns."""
    heads = ["operator", "kind", "axis", "cut", *inspection.devices, "sharing", "sync", "of total"]
    if inspection.measured:
        heads += [f"{name} measured" for name in inspection.devices] + ["error"]
    return heads


def list_rows(inspection: Inspection) -> list[list[str]]:
    """Return one row of cells for each operator, in the order in which they run."""
    steps = {step.index: step for step in inspection.steps}
    return [_format_operator(operator, steps[operator.step], inspection) for operator in inspection.operators]


def list_totals(inspection: Inspection) -> Iterator[str]:
    """Yield lines about the whole plan: its time, that of each device alone, where time goes."""
    totals = inspection.totals
    if totals.predicted_us is None:
        yield "nothing is predicted"
    else:
        yield from _list_predicted(totals, inspection)
    if totals.measured_us is not None:
        yield from _list_measured(totals.measured_us, inspection)
    yield from (f"note: {note}" for note in inspection.notes)


def _list_measured(total_us: float, inspection: Inspection) -> Iterator[str]:
    """Yield measured times: kernels compared with their predictions, and the rest."""
    yield f"measured           {format_us(total_us)}"
    measured = [(one.measured_us, one.predicted_us) for one in inspection.operators if one.measured_us]
    known = [(us, predicted) for us, predicted in measured if predicted is not None]
    kernels_us, predicted_us = (sum(column) for column in zip(*known, strict=True)) if known else (0.0, 0.0)
    if error := _format_error(predicted_us, kernels_us):
        yield f"  kernels          {format_us(kernels_us)}, prediction off by {error}"
    unknown_us = sum(us for us, predicted in measured if predicted is None)
    if unknown_us:
        yield f"  not predicted    {format_us(unknown_us)} of operators without a prediction"
    rest_us = total_us - kernels_us - unknown_us
    if rest_us < 0:
        yield f"  side by side     {format_us(-rest_us)} less than the sum of the steps"
    else:
        planned_us = max((inspection.totals.predicted_us or 0.0) - predicted_us, 0.0)
        told = f", {format_us(planned_us)} of it predicted" if predicted_us else ""
        yield f"  between kernels  {format_us(rest_us)}{told}: synchronization, transfers, the host's work"


def _list_predicted(totals: Totals, inspection: Inspection) -> Iterator[str]:
    predicted = totals.predicted_us or 0.0
    yield f"predicted          {format_us(totals.predicted_us)}"
    for name, us in zip(inspection.devices, totals.single_us, strict=True):
        if us is not None:
            mark = ", the best single device" if name == totals.best_single else ""
            yield f"{f'all on {name}':<18} {format_us(us)}, {us / predicted:.2f}x the plan{mark}"
    if totals.ideal_us:
        yield (
            f"no-overhead ideal  {format_us(totals.ideal_us)}, the plan takes "
            f"{predicted / totals.ideal_us:.2f}x of it"
        )
    if totals.parts:
        parts = (
            f"{_PARTS.get(name, name)} {us / predicted * 100:.1f} %"
            for name, us in totals.parts.items()
            if abs(us) >= predicted * 5e-4
        )
        yield f"where time goes    {', '.join(parts)}"


def _format_operator(operator: Operator, step: StepRow, inspection: Inspection) -> list[str]:
    def show(us: Us) -> str:
        return "" if operator.in_kernel_of and not us else format_us(us)

    parts = {part.device: part for part in operator.parts}
    is_last = operator.place == operator.length - 1
    cells = [
        f"{draw_bracket(operator.place, operator.length)} {_name(operator)}",
        operator.kind,
        operator.axis_name or ("host" if not operator.parts else ""),
        format_cut(operator),
        *(show(parts[name].predicted_us) if name in parts else "" for name in inspection.devices),
        format_us(step.share_us) if is_last else "",
        format_us(step.sync_us) if is_last else "",
        "" if operator.in_kernel_of and not operator.of_total else format_share(operator.of_total),
    ]
    if inspection.measured:
        cells += [show(parts[name].measured_us) if name in parts else "" for name in inspection.devices]
        cells.append(_format_error(operator.predicted_us, operator.measured_us))
    return cells


def _name(operator: Operator) -> str:
    """Return the name of an operator, and in whose kernel it runs if it has none of its own."""
    name = shorten(operator.name, _NAME_WIDTH)
    if operator.in_kernel_of is None:
        return name
    return f"{name} (in {shorten(operator.in_kernel_of, _NAME_WIDTH)}'s kernel)"


def format_cut(operator: Operator) -> str:
    """Return which device owns what of an output; in parentheses what each computes inside a chain."""
    if operator.axis is None:
        return f"all on {operator.parts[0].device}" if operator.parts else "ONNX Runtime"
    if operator.bounds:
        return " ".join(f"{low}:{high}" for low, high in pairwise(operator.bounds))
    return "(" + " ".join(f"{part.begin}:{part.end}" for part in operator.parts) + ")"


def shorten(text: str, width: int) -> str:
    """Return a text of at most ``width`` characters, its middle left out where it is longer."""
    clean = "".join(character if character.isprintable() else "?" for character in text)
    if len(clean) <= width:
        return clean
    tail = width // 2
    return f"{clean[: width - tail - 1]}…{clean[-tail:]}"


def _format_error(predicted_us: float | None, measured_us: float | None) -> str:
    """Return the relative error of a prediction; nothing without a prediction or a measurement."""
    if not predicted_us or not measured_us:
        return ""
    return f"{(predicted_us / measured_us - 1) * 100:+.0f} %"


def list_why(inspection: Inspection, name: str) -> Iterator[str]:
    """Yield the alternatives of an operator, cheapest first, the chosen one marked."""
    found = next(operator for operator in inspection.operators if operator.name == name)
    where = f", in a chain of {found.length}" if found.length > 1 else ""
    yield f"{shorten(found.name, _NAME_WIDTH)}  {found.kind}  {'x'.join(map(str, found.shape))}{where}"
    if not found.alternatives:
        yield "nothing is predicted of it"
    for way in found.alternatives:
        compute = " / ".join(format_us(us) for us in way.compute_us)
        yield (
            f"{'*' if way.is_chosen else ' '} {way.label:<24} {format_us(way.total_us):>10}  = compute "
            f"{compute}, sharing {format_us(way.share_us)}, sync {format_us(way.sync_us)}"
        )
    if found.alternatives and found.length > 1:
        yield "each is priced as if it stood alone; inside its chain the operator needs no synchronization"

"""Operators as a user knows them: the parts of one ONNX node are one row where they run in one place."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from codl.plan.text import find_whole
from codl.report.inspection import Inspection, Operator, Part, StepRow, Us


def fold_parts(inspection: Inspection) -> Inspection:
    """Return an inspection whose operators are the model's own, as far as a plan leaves them together."""
    operators = _join_kernels(inspection.operators)
    parts: dict[str, list[Operator]] = {}
    for operator in operators.values():
        whole = find_whole(operator.name, operators)
        if whole is not None and _is_together(operator, operators[whole], inspection.steps):
            parts.setdefault(whole, []).append(operator)
    hidden = {operator.name for group in parts.values() for operator in group}
    wholes = {part.name: whole for whole, group in parts.items() for part in group}
    shown = [
        _join([*parts.get(name, ()), one], wholes) for name, one in operators.items() if name not in hidden
    ]
    steps: dict[int, list[str]] = {}
    for one in shown:
        steps.setdefault(one.step, []).append(one.name)
    placed = (
        replace(one, place=steps[one.step].index(one.name), length=len(steps[one.step])) for one in shown
    )
    return replace(inspection, operators=tuple(placed))


def _join_kernels(operators: Sequence[Operator]) -> dict[str, Operator]:
    """Return operators by name; the measured time of a whole kernel counts where it is predicted."""
    found = {operator.name: operator for operator in operators}
    for operator in operators:
        if operator.in_kernel_of is None or operator.predicted_us:
            continue
        main = found[operator.in_kernel_of]
        own = {part.device: part.measured_us for part in operator.parts}
        parts = tuple(
            replace(part, measured_us=_add([part.measured_us, own.get(part.device)])) for part in main.parts
        )
        whole_us = _add([main.measured_us, operator.measured_us])
        found[main.name] = replace(main, parts=parts, measured_us=whole_us)
        bare = tuple(replace(part, measured_us=None) for part in operator.parts)
        found[operator.name] = replace(operator, parts=bare, measured_us=None)
    return found


def _is_together(part: Operator, whole: Operator, steps: Sequence[StepRow]) -> bool:
    """Return whether two operators are in one step, or run on one device and nothing is exchanged between."""
    first, last = steps[part.step], steps[whole.step]
    is_free = not first.share_us and not first.sync_us
    return first is last or (first.device is not None and first.device == last.device and is_free)


def _join(operators: Sequence[Operator], wholes: Mapping[str, str]) -> Operator:
    """Return the last of some operators with the times of all of them.

    Args:
        operators: Those of one row.
        wholes: By operator that is shown in another one's row, that one.
    """
    last = operators[-1]
    main, *others = {one.in_kernel_of and wholes.get(one.in_kernel_of, one.in_kernel_of) for one in operators}
    return replace(
        last,
        kind="+".join(operator.kind for operator in operators),
        parts=tuple(_join_parts(part, operators) for part in last.parts),
        predicted_us=_add([operator.predicted_us for operator in operators]),
        measured_us=_add([operator.measured_us for operator in operators]),
        of_total=_add([operator.of_total for operator in operators]),
        in_kernel_of=None if others else main,
    )


def _join_parts(part: Part, operators: Sequence[Operator]) -> Part:
    mine = [one for operator in operators for one in operator.parts if one.device == part.device]
    return replace(
        part,
        predicted_us=_add([one.predicted_us for one in mine]),
        measured_us=_add([one.measured_us for one in mine]),
    )


def _add(values: Sequence[Us]) -> Us:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None

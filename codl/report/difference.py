"""Differences between two plans of one network, and their price."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from codl.report.inspection import Inspection, Operator, Us, format_us
from codl.report.table import format_cut, shorten


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One operator that two plans treat differently."""

    node: str
    before: str
    """In words: axis, cut, devices, chain."""
    after: str
    before_us: Us
    after_us: Us


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDifference:
    """Two plans compared."""

    before_us: Us
    after_us: Us
    operators: tuple[Difference, ...]
    before_steps: int
    after_steps: int

    def to_json(self) -> dict[str, Any]:
        """Return the difference as plain JSON values."""
        return asdict(self)


def compare(before: Inspection, after: Inspection) -> PlanDifference:
    """Return the differences of two plans of one network."""
    others = {operator.name: operator for operator in after.operators}
    pairs = [(operator, others[operator.name]) for operator in before.operators if operator.name in others]
    found = [
        Difference(
            node=one.name,
            before=describe(one),
            after=describe(other),
            before_us=one.predicted_us,
            after_us=other.predicted_us,
        )
        for one, other in pairs
        if describe(one) != describe(other)
    ]
    return PlanDifference(
        before_us=before.totals.predicted_us,
        after_us=after.totals.predicted_us,
        operators=tuple(found),
        before_steps=len(before.steps),
        after_steps=len(after.steps),
    )


def describe(operator: Operator) -> str:
    """Return in words where an operator runs and how it is cut."""
    words = [operator.axis_name or "", format_cut(operator)]
    if operator.axis is not None:
        words.append("over " + "+".join(part.device for part in operator.parts))
    if operator.length > 1:
        words.append(f"in a chain, {operator.place + 1} of {operator.length}")
    return " ".join(word for word in words if word)


def list_difference(found: PlanDifference) -> Iterator[str]:
    """Yield lines for people: the price first, then every operator that changed."""
    if found.before_us is not None and found.after_us is not None:
        change = found.after_us - found.before_us
        share = f" ({change / found.before_us * 100:+.1f} %)" if found.before_us else ""
        sign = "+" if change >= 0 else "-"
        yield (
            f"predicted  {format_us(found.before_us)} -> {format_us(found.after_us)}, "
            f"{sign}{format_us(abs(change))}{share}"
        )
    yield f"steps      {found.before_steps} -> {found.after_steps}"
    yield f"operators  {len(found.operators)} changed"
    for one in found.operators:
        yield f"  {shorten(one.node, 36)}"
        yield f"    - {one.before}  {format_us(one.before_us)}"
        yield f"    + {one.after}  {format_us(one.after_us)}"

"""Report of a tuning session, shape by shape."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from codl.catalog.database import Entry, entry_to_json


class State(StrEnum):
    """Outcome of a shape."""

    TUNED = "tuned"
    KNOWN = "known"
    """An earlier session has tuned it, and no kernel has changed since."""
    PLAIN = "plain"
    """There is one candidate only, or none can be judged: nothing to tune."""
    FAILED = "failed"
    LEFT = "left"
    """The budget ended before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeReport:
    """Report of one shape."""

    shape: str
    count: int
    candidates: int
    state: State
    measured: int = 0
    entry: Entry | None = None
    note: str = ""
    kernels: tuple[tuple[str, int], ...] = ()
    """Candidates of each kernel; of a session that is only planned."""
    most_seconds: float = 0.0
    """Most time that measuring them takes; of a session that is only planned."""

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        found = None if self.entry is None else entry_to_json(self.entry)
        return {
            "shape": self.shape,
            "count": self.count,
            "state": self.state,
            "candidates": self.candidates,
            "measured": self.measured,
            "best": found,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneReport:
    """Report of a session."""

    device: str
    path: str
    """The database."""
    seconds: float
    shapes: tuple[ShapeReport, ...]

    def count(self, state: State) -> int:
        """Return how many shapes are in a state."""
        return sum(one.state is state for one in self.shapes)

    @property
    def candidates(self) -> int:
        """Candidates of the shapes that were tuned, now or before."""
        return sum(one.candidates for one in self.shapes if one.entry)

    @property
    def measured(self) -> int:
        """How many of them were measured."""
        return sum(one.measured for one in self.shapes if one.entry)

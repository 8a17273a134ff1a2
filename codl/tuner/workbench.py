"""What is known of a device while it is tuned: its peaks, its inner loops, who has won so far."""

from dataclasses import dataclass, field

from codl.catalog.spec import Parameters, Selection
from codl.devices.reference import References
from codl.errors import CodlError
from codl.machine import Peaks

_LOOP_PARAMETERS = ("MR", "NR", "VECTOR")
Key = tuple[str, tuple[tuple[str, int], ...]]
"""A name and parameters."""


@dataclass(slots=True, kw_only=True)
class Workbench:
    """A device with its references and what is known of it in this session."""

    references: References
    peaks: Peaks
    loops: dict[Key, float] = field(default_factory=dict)
    """Floating-point operations a second of inner loops."""
    wins: dict[Key, int] = field(default_factory=dict)
    """How often implementation and parameters have won."""

    def loop_rate(self, source: str, parameters: Parameters) -> float:
        """Return what an inner loop reaches, measured when it is first asked for."""
        key = _loop_key(source, parameters)
        rate = self.loops.get(key)
        if rate is None:
            try:
                rate = self.references.measure_loop(source, parameters, self.peaks)
            except CodlError:
                rate = max(self.peaks.flops.values())
            self.loops[key] = rate
        return rate

    def raise_loop(self, selection: Selection, factor: float) -> None:
        """Make a loop faster that a measurement has passed."""
        row = selection.implementation
        if row.inner_loop is not None:
            key = _loop_key(row.inner_loop, selection.parameters)
            self.loops[key] = self.loop_rate(row.inner_loop, selection.parameters) * factor

    def count_win(self, selection: Selection) -> None:
        """Remember that a candidate has won."""
        key = candidate_key(selection)
        self.wins[key] = self.wins.get(key, 0) + 1


def candidate_key(selection: Selection) -> Key:
    """Return implementation and parameters as a key."""
    return selection.implementation.name, tuple(sorted(selection.parameters.items()))


def _loop_key(source: str, parameters: Parameters) -> Key:
    return source, tuple((name, parameters[name]) for name in _LOOP_PARAMETERS)

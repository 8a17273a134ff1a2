"""What is known of a device while it is tuned: its peaks, its inner loops, who has won so far."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from codl.catalog.spec import Parameters, Selection
from codl.devices.opencl import Device
from codl.devices.reference import LOOPS, References
from codl.errors import CodlError
from codl.machine import Peaks

_DEPTHS = (16, 64, 256, 1024)
"""Lengths of sums at which inner loops are measured."""
Key = tuple[str, tuple[tuple[str, int], ...]]
"""A name and parameters."""


@dataclass(slots=True, kw_only=True)
class Workbench:
    """A device with its references, and what this session has found out about it."""

    references: References
    peaks: Peaks
    loops: dict[Key, float] = field(default_factory=dict)
    """Floating-point operations a second of inner loops, by loop, depth and tile."""
    record_loop: Callable[[Key, float], None] = lambda key, share: None
    """Is told every loop that is measured, as a share of the device's peak."""
    wins: dict[Key, int] = field(default_factory=dict)
    """How often implementation and parameters have won."""

    @classmethod
    def open(cls, device: Device) -> "Workbench":
        """Return the workbench of a device, its peaks measured."""
        references = References(device)
        return cls(references=references, peaks=references.measure_peaks())

    def loop_rate(self, source: str, parameters: Parameters, depth: float) -> float:
        """Return what an inner loop reaches with sums of about ``depth`` products.

        Long sums hide what a tile costs besides; short ones let the processor begin the next tile early. So
        the loop is measured at a few depths, when it is first asked for, and the better neighbour counts.
        """
        above = next((known for known in _DEPTHS if known >= depth), _DEPTHS[-1])
        below = next((known for known in reversed(_DEPTHS) if known <= depth), _DEPTHS[0])
        return max(self._measure(source, parameters, at) for at in {above, below})

    def _measure(self, source: str, parameters: Parameters, depth: int) -> float:
        key = (f"{source} {depth}", tuple((name, parameters[name]) for name in LOOPS[source]))
        rate = self.loops.get(key)
        if rate is None:
            peak = max(self.peaks.flops.values())
            try:
                rate = self.references.measure_loop(source, parameters, depth, self.peaks)
            except CodlError:
                rate = peak
            self.loops[key] = rate
            if rate < peak:
                self.record_loop(key, rate / peak)
        return rate

    def recall_loops(self, shares: Mapping[Key, float]) -> None:
        """Take up what an earlier session measured: rates as shares of the device's peak."""
        peak = max(self.peaks.flops.values())
        self.loops.update({key: share * peak for key, share in shares.items()})

    def count_win(self, implementation: str, parameters: Parameters) -> None:
        """Remember that a candidate has won."""
        key = _win_key(implementation, parameters)
        self.wins[key] = self.wins.get(key, 0) + 1

    def find_wins(self, selection: Selection) -> int:
        """Return how often a candidate has won."""
        return self.wins.get(_win_key(selection.implementation.name, selection.parameters), 0)


def _win_key(implementation: str, parameters: Mapping[str, int]) -> Key:
    return implementation, tuple(sorted(parameters.items()))

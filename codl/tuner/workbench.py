"""State of a device while it is tuned: its peaks, rates of inner loops, winners so far."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from codl.catalog.spec import Parameters, Selection
from codl.devices.inner_loops import Loop, measure_loops
from codl.devices.opencl import Device
from codl.devices.pools import ConstantPool
from codl.devices.reference import References
from codl.machine import Peaks

_DEPTHS = (16, 64, 256, 1024)
"""Lengths of sums at which inner loops are measured."""
Key = tuple[str, tuple[tuple[str, int], ...]]
"""A name and parameters."""


@dataclass(slots=True, kw_only=True)
class Workbench:
    """A device with its references, and the results of this session about it."""

    references: References
    peaks: Peaks
    constants: ConstantPool
    """Memory that candidates read as weights while they are timed."""
    loops: dict[Loop, float] = field(default_factory=dict)
    """Floating-point operations a second of inner loops."""
    record_loop: Callable[[Loop, float], None] = lambda loop, share: None
    """Called with every loop that is measured, and its rate as a share of the device's peak."""
    wins: dict[Key, int] = field(default_factory=dict)
    """How often implementation and parameters have won."""

    @classmethod
    def open(cls, device: Device) -> "Workbench":
        """Return the workbench of a device, its peaks measured."""
        references = References(device)
        peaks = references.measure_peaks()
        return cls(references=references, peaks=peaks, constants=ConstantPool(device))

    def learn_loops(self, wanted: Iterable[tuple[str, Parameters, float]]) -> None:
        """Measure inner loops that are not known yet, all of them in turns.

        Args:
            wanted: Their sources and parameters, and about how many products are summed.
        """
        loops = dict.fromkeys(loop for one in wanted for loop in _find_neighbours(*one))
        unknown = [loop for loop in loops if loop not in self.loops]
        if not unknown:
            return
        peak = max(self.peaks.flops.values())
        for loop, rate in zip(unknown, measure_loops(self.references, unknown, self.peaks), strict=True):
            self.loops[loop] = rate
            if rate < peak:
                self.record_loop(loop, rate / peak)

    def loop_rate(self, source: str, parameters: Parameters, depth: float) -> float:
        """Return the rate of an inner loop with sums of about ``depth`` products, in operations a second.

        Long sums hide the other costs of a tile; short ones let the processor begin the next tile early. So
        the loop is measured at a few depths, when it is first needed, and the better neighbour counts.
        """
        self.learn_loops([(source, parameters, depth)])
        return max(self.loops[loop] for loop in _find_neighbours(source, parameters, depth))

    def recall_loops(self, shares: Mapping[Loop, float]) -> None:
        """Add the loops of an earlier session, rates as shares of the device's peak."""
        peak = max(self.peaks.flops.values())
        self.loops.update({loop: share * peak for loop, share in shares.items()})

    def count_win(self, implementation: str, parameters: Parameters) -> None:
        """Remember that a candidate has won."""
        key = _win_key(implementation, parameters)
        self.wins[key] = self.wins.get(key, 0) + 1

    def find_wins(self, selection: Selection) -> int:
        """Return how often a candidate has won."""
        return self.wins.get(_win_key(selection.implementation.name, selection.parameters), 0)


def _find_neighbours(source: str, parameters: Parameters, depth: float) -> set[Loop]:
    above = next((known for known in _DEPTHS if known >= depth), _DEPTHS[-1])
    below = next((known for known in reversed(_DEPTHS) if known <= depth), _DEPTHS[0])
    return {Loop.of(source, parameters, at) for at in (above, below)}


def _win_key(implementation: str, parameters: Mapping[str, int]) -> Key:
    return implementation, tuple(sorted(parameters.items()))

"""How a place in a network was reached: who has what of each tensor, and when every device is done."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from codl.partitioner.chains import WHOLE, ChainBatch

Owned = tuple[int, ...]
"""How a tensor is divided among the devices: the axis, where each device's interval begins, where it ends;
the position of the step that published it; by device, the axis along which it was sent something last, where
that begins, and where it ends, which is no later where nothing was sent."""


def own(axis: int, bounds: Sequence[int], *, since: int) -> Owned:
    """Return how a tensor is divided that has just been published: nobody was sent anything.

    Args:
        axis: Along which it is cut.
        bounds: Of the devices' intervals, in order.
        since: Position of the step that published it.
    """
    count = len(bounds) - 1
    return (axis, *bounds[:-1], *bounds[1:], since, *(WHOLE,) * count, *(0,) * (2 * count))


def list_parts(owned: Owned) -> list[tuple[int, int]]:
    """Return each device's interval."""
    count = count_devices(owned)
    return list(zip(owned[1 : 1 + count], owned[1 + count : 1 + 2 * count], strict=True))


def count_devices(owned: Owned) -> int:
    """Return among how many devices a tensor is divided."""
    return (len(owned) - 2) // 5


def send(owned: Owned, axis: int, lows: Sequence[int], highs: Sequence[int]) -> Owned:
    """Return who has what of a tensor after a step has read an interval of it on each device."""
    count = count_devices(owned)
    start = 2 + 2 * count
    axes, before, behind = (list(owned[start + row * count : start + (row + 1) * count]) for row in range(3))
    for device, (low, high) in enumerate(zip(lows, highs, strict=True)):
        if high > low:
            axes[device], before[device], behind[device] = axis, low, high
    return (*owned[:start], *axes, *before, *behind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What becomes of a stretch of units: one candidate of a batch; no batch for the host's."""

    first: int
    last: int
    batch: ChainBatch | None
    index: int


@dataclass(slots=True)
class State:
    """All that matters of how a place was reached."""

    clock: tuple[float, ...]
    """When each device has done what it has to do."""
    host_us: float
    """When the host went on last."""
    met: tuple[int, ...]
    """By device, position of the step before which the host waited for it last."""
    owned: Mapping[str, Owned] = field(repr=False)
    """Tensors still read, those from the host left out."""
    cuts: Mapping[str, int] = field(repr=False)
    """A number for each of them: equal where it is the same tensor, divided alike."""
    before: "State | None" = field(repr=False)
    choice: Choice | None = field(repr=False)

    @property
    def span_us(self) -> float:
        """When the last device is done."""
        return max(self.clock)

    def list_choices(self) -> list[Choice]:
        """Return what was chosen, from the start."""
        found: list[Choice] = []
        state: State | None = self
        while state is not None and state.choice is not None:
            found.append(state.choice)
            state = state.before
        return found[::-1]

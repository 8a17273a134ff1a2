"""How a place in a network was reached: who has what of each tensor, and when every device is done."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from codl.partitioner.chains import ChainBatch


@dataclass(slots=True)
class Owned:
    """How a tensor is divided among the devices."""

    axis: int
    low: tuple[int, ...]
    high: tuple[int, ...]
    since: int
    """Position of the step that published it."""
    sent: tuple[tuple[int, int, int], ...]
    """By device, axis and interval of what it was sent last; an empty interval at first."""


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

"""How the devices of a plan see each other's results, as data."""

from dataclasses import dataclass
from enum import StrEnum

from codl.plan.residency import HOST


class Sharing(StrEnum):
    """How two devices, or a device and the host, see each other's results."""

    COHERENT = "coherent"
    """CPU drivers over one host allocation: a finished write is seen."""
    MAPPED = "mapped"
    """Devices over one host allocation that must be told: a region is mapped and unmapped to be seen."""
    COPIED = "copied"
    """Memory of their own: regions are copied through the host."""


_RANKS = {Sharing.COHERENT: 0, Sharing.MAPPED: 1, Sharing.COPIED: 2}
"""From the least work to the most; two devices share as the one that needs more of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """How each device of a plan shares memory with the host, and so with every other device.

    Coherent and mapped devices compute in the host's memory, which is one for all of them. A
    device whose mode is `copied` has memory of its own, also towards other such devices.
    """

    modes: tuple[Sharing, ...]
    """By device index."""
    signals: bool = False
    """Whether kernels of devices, all coherent, may wait for each other, so that the host need not."""

    def mode(self, device: int) -> Sharing:
        """Return how a device shares memory with the host; the host itself is coherent."""
        return Sharing.COHERENT if device == HOST else self.modes[device]

    def between(self, first: int, second: int) -> Sharing:
        """Return how two devices, or a device and the host, see each other's results."""
        one, other = self.mode(first), self.mode(second)
        return one if _RANKS[one] >= _RANKS[other] else other

    def between_all(self) -> Sharing:
        """Return how the devices share when all are taken together: as the one that needs most for it."""
        return max(self.modes, key=_RANKS.__getitem__, default=Sharing.COHERENT)

    def is_discrete(self, device: int) -> bool:
        """Return whether a device has memory of its own."""
        return self.mode(device) is Sharing.COPIED

    @property
    def shared(self) -> tuple[int, ...]:
        """The devices that compute in the host's memory."""
        return tuple(device for device in range(len(self.modes)) if not self.is_discrete(device))

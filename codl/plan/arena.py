"""Placing tensors in one block of memory so that those never alive together share it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from codl.plan.residency import HOST

ALIGNMENT_FLOATS = 128
"""512 bytes: the largest alignment that a device asks for (NVIDIA)."""


@dataclass(slots=True)
class Life:
    """When a tensor's memory is used: the first tick, and each device's last one."""

    floats: int
    first: int
    writers: set[int] = field(default_factory=set)
    """Devices that write it, the host among them."""
    last: dict[int, int] = field(default_factory=dict)
    """Device -> tick of its last use."""

    def join(self, other: "Life") -> None:
        """Let the memory be used whenever another's is."""
        self.first = min(self.first, other.first)
        self.writers |= other.writers
        for device, tick in other.last.items():
            self.last[device] = max(tick, self.last.get(device, tick))


Meetings = Mapping[int, Sequence[int]]
"""Device -> ticks, rising, at which the host has waited for it."""


def is_over(life: Life, heir: Life, meetings: Meetings) -> bool:
    """Return whether ``heir`` may be written over ``life``: every use of it is known to be done by then.

    A device's own queue keeps the order of its launches. Of another device the
    host must have waited since its last use. What the host itself uses is done when it goes on.
    """
    for device, tick in life.last.items():
        if tick >= heir.first:
            return False
        if device == HOST:
            continue
        is_own_queue = heir.writers == {device}
        if not is_own_queue and not any(tick < met <= heir.first for met in meetings.get(device, ())):
            return False
    return True


def assign_offsets(lives: Mapping[str, Life], meetings: Meetings) -> tuple[dict[str, int], int]:
    """Return an offset in floats for each tensor, and the floats that the block needs.

    The largest tensors are placed first, each at the lowest offset where no
    tensor that is alive with it lies.

    Source:
        Greedy by size, as compared in Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net
        Inference (2020).
    """
    placed: list[tuple[int, int, str]] = []
    offsets: dict[str, int] = {}
    total = 0
    for name in sorted(lives, key=lambda key: (-lives[key].floats, lives[key].first)):
        life = lives[name]
        size = -(-max(1, life.floats) // ALIGNMENT_FLOATS) * ALIGNMENT_FLOATS
        offset = 0
        for begin, end, other in placed:
            if begin >= offset + size or end <= offset:
                continue
            neighbour = lives[other]
            if not (is_over(life, neighbour, meetings) or is_over(neighbour, life, meetings)):
                offset = end
        offsets[name] = offset
        placed.append((offset, offset + size, name))
        placed.sort()
        total = max(total, offset + size)
    return offsets, total

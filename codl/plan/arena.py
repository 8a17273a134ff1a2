"""Placing tensors in one block of memory so that those never alive together share it."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from codl.plan.residency import HOST

ALIGNMENT_FLOATS = 128
"""512 bytes: the largest alignment that a device asks for (NVIDIA)."""
_NEVER = 2**62
_LONG = 64
"""Ticks. Tensors that live longer are kept apart: all others that are alive at a tick begin close to it."""


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


def assign_offsets(lives: Mapping[str, Life], meetings: Meetings) -> tuple[dict[str, int], int]:
    """Return an offset in floats for each tensor, and the floats that the block needs.

    The largest tensors are placed first, each at the lowest offset where no
    tensor that is alive with it lies.

    Source:
        Greedy by size, as compared in Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net
        Inference (2020).
    """
    names = sorted(lives, key=lambda key: lives[key].first)
    writers = {name: _find_writer(lives[name]) for name in names}
    sorts = {writer: number for number, writer in enumerate(dict.fromkeys(writers.values()))}
    frees = {name: _find_frees(lives[name], tuple(sorts), meetings) for name in names}
    members: dict[tuple[int, bool], list[str]] = {}
    for name in names:
        is_long = frees[name][sorts[writers[name]]] - lives[name].first > _LONG
        members.setdefault((sorts[writers[name]], is_long), []).append(name)
    groups = {key: _Group(key[0], some, lives, frees) for key, some in members.items()}
    places = {name: (groups[key], index) for key, some in members.items() for index, name in enumerate(some)}
    offsets: dict[str, int] = {}
    total = 0
    for name in sorted(lives, key=lambda key: (-lives[key].floats, lives[key].first)):
        size = -(-max(1, lives[name].floats) // ALIGNMENT_FLOATS) * ALIGNMENT_FLOATS
        group, index = places[name]
        rivals = [each.find_rivals(lives[name].first, frees[name], group.sort) for each in groups.values()]
        offset = offsets[name] = _find_gap(np.concatenate(rivals, axis=1), size)
        group.spans[:, index] = offset, offset + size
        total = max(total, offset + size)
    return offsets, total


class _Group:
    """Tensors that the same devices write, by rising first tick, with the offsets of those that have one.

    Args:
        sort: Number of who writes them.
        names: The tensors.
        lives: Of all tensors.
        frees: What `_find_frees` returns, of all tensors.
    """

    def __init__(
        self, sort: int, names: Sequence[str], lives: Mapping[str, Life], frees: Mapping[str, Sequence[int]]
    ) -> None:
        self.sort = sort
        self.spans = np.full((2, len(names)), -1, np.int64)
        """Begin and end of each tensor, -1 where it has no place yet."""
        self._firsts = np.array([lives[name].first for name in names])
        self._frees = np.array([frees[name] for name in names]).T
        self._reaches = np.maximum.accumulate(self._frees, axis=1)

    def find_rivals(self, first: int, frees: Sequence[int], sort: int) -> npt.NDArray[np.int64]:
        """Return begins and ends of the placed tensors that are alive together with a tensor.

        Args:
            first: First tick of the tensor.
            frees: First tick at which each sort of heirs may be written over it.
            sort: Number of who writes it.
        """
        end = self._firsts.searchsorted(frees[self.sort])
        begin = self._reaches[sort].searchsorted(first, "right")
        spans = self.spans[:, begin:end]
        return spans[:, (self._frees[sort, begin:end] > first) & (spans[0] >= 0)]


def _find_gap(rivals: npt.NDArray[np.int64], size: int) -> int:
    """Return the lowest offset at which a tensor overlaps none of some spans."""
    begins, ends = rivals[:, rivals[0].argsort(kind="stable")]
    bottoms = np.concatenate(([0], np.maximum.accumulate(ends)))
    fits = np.flatnonzero(begins - bottoms[:-1] >= size)
    return int(bottoms[fits[0] if len(fits) else -1])


def _find_writer(life: Life) -> int | None:
    """Return the only device that writes a tensor; None where there are several."""
    return next(iter(life.writers)) if len(life.writers) == 1 else None


def _find_frees(life: Life, writers: Sequence[int | None], meetings: Meetings) -> list[int]:
    """Return, by who writes an heir, the first tick at which it may lie over a tensor.

    By then every use of the tensor is known to be done. A device's own queue keeps the order of its launches.
    Of another device the host must have waited since its last use. What the host itself uses is done when it
    goes on.
    """
    frees = [0] * len(writers)
    for device, tick in life.last.items():
        met = meetings.get(device, ())
        place = bisect_right(met, tick)
        later = tick + 1 if device == HOST else met[place] if place < len(met) else _NEVER
        for number, writer in enumerate(writers):
            frees[number] = max(frees[number], tick + 1 if writer == device else later)
    return frees

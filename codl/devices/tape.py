"""Descriptors of a tape that a device walks: what a stand-alone kernel takes as arguments, as integers.

There is a barrier between two steps where the later one reads or writes what the earlier one wrote, or
writes what it read. Steps without a barrier between them share the groups: each begins at the group behind
the last one's.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from codl.catalog.groups import GROUP
from codl.catalog.spec import LaunchBatch
from codl.catalog.walking import HEAD_WORDS, WORDS
from codl.devices.launch import tensor_arguments
from codl.devices.memory import Storage

_IMAGE_RANK = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """A tensor of a step."""

    storage: Storage
    buffer: int
    """Index of its buffer among the walk's."""
    shift: int = 0
    """Floats of the buffer before what the storage holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Access:
    """Elements of a buffer that a step may read or write: a span, and of each line of it a part."""

    buffer: int
    begin: int
    end: int
    pitch: int
    """Floats of a line; 0 where the span is one piece."""
    lane_begin: int
    lane_end: int
    """Part of each line, where there are lines."""

    def meets(self, other: "_Access") -> bool:
        if self.buffer != other.buffer or self.end <= other.begin or other.end <= self.begin:
            return False
        if self.pitch == 0 or self.pitch != other.pitch:
            return True
        return self.lane_begin < other.lane_end and other.lane_begin < self.lane_end


class Tape:
    """A tape while it is written.

    Args:
        groups: Work-groups that walk it.
    """

    def __init__(self, groups: int) -> None:
        self._groups = groups
        self._rows: list[npt.NDArray[np.int32]] = []
        self._reads: list[_Access] = []
        self._writes: list[_Access] = []
        self._places = self._scratch = self._arrivals = 0
        self.scratch_floats = self.arrivals = 1
        """What steps between two barriers take at most."""

    @property
    def count(self) -> int:
        """Steps so far."""
        return len(self._rows)

    @property
    def words(self) -> npt.NDArray[np.int32]:
        """All descriptors."""
        return np.concatenate(self._rows)

    def add(self, case: int, batch: LaunchBatch, operands: Sequence[Operand], packed: Sequence[int]) -> None:
        """Write the step of a launch's first candidate.

        Args:
            case: The walker's case.
            batch: The launch.
            operands: Where its tensors lie.
            packed: Where each packed constant begins among the walk's constants.

        Raises:
            DeviceError: A tensor is out of reach of 32-bit indices.
        """
        accesses = [_find_access(operand) for operand in operands]
        is_first = not self._rows
        needs_barrier = not is_first and self._conflicts(accesses)
        if needs_barrier:
            self._reads, self._writes = [], []
            self._places = self._scratch = self._arrivals = 0
        words: list[int] = [case, int(needs_barrier), self._places % self._groups, 0]
        assert len(words) == HEAD_WORDS
        for arg, operand in zip(batch.tensors, operands, strict=True):
            _, offset, *strides = tensor_arguments(arg, operand.storage)
            words += [operand.buffer, int(offset) + operand.shift, *map(int, strides)]
        words += packed
        if batch.scratch is not None:
            words.append(self._scratch)
            self._scratch += int(batch.scratch[0])
        if batch.arrivals is not None:
            words.append(self._arrivals)
            self._arrivals += int(batch.arrivals[0])
        row = np.zeros(WORDS, np.int32)
        scalars = [_encode(values[0]) for values in batch.scalars.values()]
        row[: len(words) + len(scalars)] = [*words, *scalars]
        self._rows.append(row)
        self._writes.append(accesses[0])
        self._reads += accesses[1:]
        self._places += int(batch.global_size[0].prod()) // GROUP
        self.scratch_floats = max(self.scratch_floats, self._scratch)
        self.arrivals = max(self.arrivals, self._arrivals)

    def _conflicts(self, accesses: Sequence[_Access]) -> bool:
        target = accesses[0]
        return any(access.meets(written) for access in accesses for written in self._writes) or any(
            target.meets(read) for read in self._reads
        )


def _encode(value: np.generic) -> int:
    """Return the bits of a scalar as an integer."""
    if value.dtype == np.float32:
        return int(np.asarray(value).view(np.int32))
    return int(value.item())


def _find_access(operand: Operand) -> _Access:
    storage, shift = operand.storage, operand.shift
    first, length = storage.span(storage.region)
    pitch = lane = channels = 0
    if len(storage.strides) == _IMAGE_RANK:
        image, _, line, pixel = storage.strides
        channels = storage.region.shape[1]
        if pixel >= channels and line % pixel == 0 and image % pixel == 0:
            pitch, lane = pixel, (first + shift) % pixel
    if lane + channels > pitch:
        pitch = lane = channels = 0
    return _Access(
        buffer=operand.buffer,
        begin=first + shift,
        end=first + shift + length,
        pitch=pitch,
        lane_begin=lane,
        lane_end=lane + channels,
    )

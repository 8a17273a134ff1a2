"""Descriptors of a tape that a device walks: what a stand-alone kernel takes as arguments, as integers.

A step follows another where it reads or writes what the other wrote, or writes what the other read. A step's
level is one more than the highest of those that it follows; steps are walked level by level, with a barrier
between levels. Steps of one level share the groups: each begins at the group behind the last one's. Scratch
memory is a step's own while its level is walked; launches of a node that hand it on keep it from the first
one's level to the last one's.
"""

from collections import Counter
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
_SCRATCH_STEP = 4
"""Floats: kernels move four at once."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    case: int
    batch: LaunchBatch
    operands: tuple[Operand, ...]
    packed: tuple[int, ...]
    accesses: tuple[_Access, ...]
    """Of its tensors; the first one is written."""

    def follows(self, other: "_Step") -> bool:
        return any(access.meets(other.accesses[0]) for access in self.accesses) or any(
            self.accesses[0].meets(read) for read in other.accesses[1:]
        )


@dataclass(slots=True, kw_only=True)
class _Piece:
    """Scratch memory of one step, or of several that hand it on, and the levels that it is theirs."""

    floats: int
    level: int
    last_level: int
    begin: int = 0

    @property
    def end(self) -> int:
        return self.begin + self.floats

    def meets(self, other: "_Piece") -> bool:
        return self.floats > 0 and self.level <= other.last_level and other.level <= self.last_level


class Tape:
    """A tape while it is written.

    Args:
        groups: Work-groups that walk it.
    """

    def __init__(self, groups: int) -> None:
        self._groups = groups
        self._steps: list[_Step] = []
        self._levels: list[int] = []

    @property
    def count(self) -> int:
        """Steps so far."""
        return len(self._steps)

    @property
    def cases(self) -> frozenset[int]:
        """The walker's cases that it takes."""
        return frozenset(step.case for step in self._steps)

    @property
    def words(self) -> npt.NDArray[np.int32]:
        """All descriptors.

        Raises:
            DeviceError: A tensor is out of reach of 32-bit indices.
        """
        order = sorted(range(self.count), key=self._levels.__getitem__)
        pieces = self._place_scratch()
        rows, level, places, arrivals = [], 0, 0, 0
        for number in order:
            step = self._steps[number]
            is_next = self._levels[number] > level
            if is_next:
                level, places, arrivals = self._levels[number], 0, 0
            head = [step.case, int(is_next), places % self._groups, 0]
            rows.append(_write(step, head, scratch=pieces[number].begin, arrivals=arrivals))
            places += int(step.batch.global_size[0].prod()) // GROUP
            arrivals += _first(step.batch.arrivals)
        return np.concatenate(rows)

    @property
    def scratch_floats(self) -> int:
        """What the steps of a level take at most."""
        return max([1, *(piece.end for piece in self._place_scratch())])

    @property
    def arrivals(self) -> int:
        """Counters that the steps of a level take at most."""
        return self._find_most([_first(step.batch.arrivals) for step in self._steps])

    def add(self, case: int, batch: LaunchBatch, operands: Sequence[Operand], packed: Sequence[int]) -> None:
        """Take the step of a launch's first candidate.

        Args:
            case: The walker's case.
            batch: The launch.
            operands: Where its tensors lie.
            packed: Where each packed constant begins among the walk's constants.
        """
        accesses = tuple(_find_access(operand) for operand in operands)
        step = _Step(
            case=case, batch=batch, operands=tuple(operands), packed=tuple(packed), accesses=accesses
        )
        level = 0
        for other, its_level in zip(self._steps, self._levels, strict=True):
            if its_level >= level and step.follows(other):
                level = its_level + 1
        self._steps.append(step)
        self._levels.append(level)

    def _find_most(self, amounts: Sequence[int]) -> int:
        most = Counter[int]()
        for level, amount in zip(self._levels, amounts, strict=True):
            most[level] += amount
        return max(1, *most.values()) if most else 1

    def _place_scratch(self) -> list["_Piece"]:
        """Return the scratch memory of each step; steps that hand it on have one piece."""
        pieces: list[_Piece] = []
        owners: list[int] = []
        for step, level in zip(self._steps, self._levels, strict=True):
            floats = -(-_first(step.batch.scratch) // _SCRATCH_STEP) * _SCRATCH_STEP
            if step.batch.keeps_scratch and pieces:
                pieces[-1].last_level = level
            else:
                pieces.append(_Piece(floats=floats, level=level, last_level=level))
            owners.append(len(pieces) - 1)
        placed: list[_Piece] = []
        for piece in sorted(pieces, key=lambda one: one.level):
            others = sorted((one for one in placed if one.meets(piece)), key=lambda one: one.begin)
            for other in others:
                if piece.end > other.begin:
                    piece.begin = max(piece.begin, other.end)
            placed.append(piece)
        return [pieces[owner] for owner in owners]


def _write(step: _Step, head: list[int], *, scratch: int, arrivals: int) -> npt.NDArray[np.int32]:
    """Return the descriptor of a step."""
    assert len(head) == HEAD_WORDS
    words = list(head)
    for arg, operand in zip(step.batch.tensors, step.operands, strict=True):
        _, offset, *strides = tensor_arguments(arg, operand.storage)
        words += [operand.buffer, int(offset) + operand.shift, *map(int, strides)]
    words += step.packed
    words += [scratch] if step.batch.scratch is not None else []
    words += [arrivals] if step.batch.arrivals is not None else []
    words += [_encode(values[0]) for values in step.batch.scalars.values()]
    row = np.zeros(WORDS, np.int32)
    row[: len(words)] = words
    return row


def _first(amounts: npt.NDArray[np.int64] | None) -> int:
    """Return what the first candidate takes."""
    return 0 if amounts is None else int(amounts[0])


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

"""What candidates publish and read, each known by its row: so many states are followed at once."""

from collections.abc import Mapping, Sequence

import numpy as np

from codl.partitioner.arrays import Flags, Floats, Ints
from codl.partitioner.chains import WHOLE

Words = np.ndarray[tuple[int, ...], np.dtype[np.uint64]]
_ODD = 0x9E3779B97F4A7C15
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
"""Shifts and factors after which every bit of a word depends on all bits it had.

Source:
    Steele, Lea, Flood, Fast splittable pseudorandom number generators (OOPSLA 2014): the mixer of SplitMix64.
"""


class Ledger:
    """Divisions of tensors among devices, and what devices read of tensors from outside a step.

    Args:
        devices: How many there are.
        columns: By tensor that is read further on, which column of states tells of it.
    """

    def __init__(self, devices: int, columns: Mapping[str, int]) -> None:
        self.columns = columns
        self.divisions: Ints = np.zeros((0, 2 + 2 * devices), np.int64)
        """[row, ...] The axis, where each device's interval begins, where it ends; the position of the step
        that published it."""
        self.owners: Ints = np.zeros(0, np.int64)
        """[row] Number of the tensor that is divided."""
        self.marks: Words = np.zeros(0, np.uint64)
        """[row] Equal where a tensor is divided alike; sums of them tell sets apart."""
        self.tensors: list[str] = [""]
        """By number; the first stands for none."""
        self._numbers: dict[str, int] = {}
        self.readers: Ints = np.zeros(1, np.int64)
        """[row] Number of the tensor that is read."""
        self.read_marks: Words = np.zeros(1, np.uint64)
        """[row] Equal where the same is read of a tensor."""
        self.axes: Ints = np.array([WHOLE])
        """[row] Along which the intervals lie that are read; in the first row nothing is."""
        self.low: Ints = np.zeros((1, devices), np.int64)
        """[row, device]"""
        self.high: Ints = np.zeros((1, devices), np.int64)
        """[row, device]"""
        self.is_any: Flags = np.zeros((1, devices), bool)
        """[row, device] Whether something is read."""

    def divide(self, facts: Ints, bounds: Ints) -> int:
        """Note how steps divide what they publish; return the row of the first.

        Args:
            facts: [division, 3] The tensor's number, the axis, and the position of the step.
            bounds: [division, device + 1]
        """
        row = len(self.divisions)
        told = np.concatenate([facts[:, 1:2], bounds[:, :-1], bounds[:, 1:], facts[:, 2:]], axis=1)
        self.divisions = np.concatenate([self.divisions, told])
        self.owners = np.concatenate([self.owners, facts[:, 0]])
        self.marks = np.concatenate([self.marks, _mark([*facts[:, :2].T, *bounds.T])])
        return row

    def find_number(self, tensor: str) -> int:
        """Return the number of a tensor."""
        found = self._numbers.get(tensor)
        if found is None:
            found = self._numbers[tensor] = len(self.tensors)
            self.tensors.append(tensor)
        return found

    def read(self, tensors: Ints, axes: Ints, low: Ints, high: Ints) -> int:
        """Note what is read of tensors with some numbers, as in `Reading`; return the row of the first."""
        row = len(self.axes)
        self.readers = np.concatenate([self.readers, tensors])
        self.read_marks = np.concatenate([self.read_marks, _mark([tensors, axes, *low.T, *high.T])])
        self.axes = np.concatenate([self.axes, axes])
        self.low, self.high = np.concatenate([self.low, low]), np.concatenate([self.high, high])
        self.is_any = np.concatenate([self.is_any, high > low])
        return row


def list_parts(division: Sequence[int] | Floats) -> list[tuple[int, int]]:
    """Return each device's interval of a division."""
    count = (len(division) - 2) // 2
    return list(zip(division[1 : 1 + count], division[1 + count : 1 + 2 * count], strict=True))


def _mark(columns: Sequence[Ints]) -> Words:
    """Return words that differ where rows of columns do, and whose sums differ where sets of rows do."""
    words = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        words = (words ^ column.astype(np.uint64)) + np.uint64(_ODD)
        for shift, factor in _MIX:
            words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
        words ^= words >> np.uint64(31)
    return words

"""What candidates publish and read, each known by its row: so many states are followed at once."""

from collections.abc import Mapping, Sequence

import numpy as np

from codl.simulator.arrays import Ints
from codl.simulator.cut_grid import WHOLE

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
        numbers: By tensor, its number; 0 stands for none.
        columns: By tensor that is read further on, which column of states tells of it.
        last_reads: By tensor, the position of its last reader.
    """

    def __init__(
        self,
        devices: int,
        numbers: Mapping[str, int],
        columns: Mapping[str, int],
        last_reads: Mapping[str, int],
    ) -> None:
        self._numbers, self._columns, self._last_reads = numbers, columns, last_reads
        self.divisions: Ints = np.zeros((0, 1 + 2 * devices), np.int64)
        """[row, ...] The axis, where each device's interval begins, where it ends."""
        self.owners: Ints = np.zeros(0, np.int64)
        """[row] Number of the tensor that is divided."""
        self.marks: Ints = np.zeros(0, np.int64)
        """[row] Equal where a tensor is divided alike; sums of them tell sets apart."""
        self.readers: Ints = np.zeros(1, np.int64)
        """[row] Number of the tensor that is read."""
        self.read_marks: Ints = np.zeros(1, np.int64)
        """[row] Equal where the same is read of a tensor."""
        self.axes: Ints = np.array([WHOLE])
        """[row] Along which the intervals lie that are read; in the first row nothing is."""
        self.low: Ints = np.zeros((1, devices), np.int64)
        """[row, device]"""
        self.high: Ints = np.zeros((1, devices), np.int64)
        """[row, device]"""
        self.changes: Ints = np.zeros((0, 0, 1 + devices), np.int64)
        """[candidate, column, 1 + device] What becomes of a state's rows: how the column's tensor is divided
        and what devices were sent of it, if that is read on; -1 where they stay as they are."""

    def open(self, count: int) -> None:
        """Make room to note what so many candidates publish and read, before any of it is."""
        width = 1 + max(self._columns.values(), default=-1)
        self.changes = np.full((count, width, self.changes.shape[2]), -1)

    def divide(
        self, tensors: Sequence[str], counts: Ints, candidates: Ints, axes: Ints, bounds: Ints
    ) -> Ints:
        """Note how candidates divide what they publish; return marks of the divisions.

        Args:
            tensors: What is published, one after the other.
            counts: Divisions of each.
            candidates: [division] Who divides it so.
            axes: [tensor]
            bounds: [division, device + 1]
        """
        owners = np.repeat([self._numbers[name] for name in tensors], counts)
        axes = np.repeat(axes, counts)
        columns = np.repeat([self._columns.get(name, -1) for name in tensors], counts)
        (known,) = np.nonzero(columns >= 0)
        rows = np.zeros((len(known), self.changes.shape[2]), np.int64)
        rows[:, 0] = len(self.divisions) + known
        self.changes[candidates[known], columns[known]] = rows
        told = np.concatenate([axes[:, None], bounds[:, :-1], bounds[:, 1:]], axis=1)
        marks = _mark([owners, axes, *bounds.T])
        self.divisions = np.concatenate([self.divisions, told])
        self.owners = np.concatenate([self.owners, owners])
        self.marks = np.concatenate([self.marks, marks])
        return marks

    def read(
        self,
        tensors: Sequence[str],
        counts: Ints,
        candidates: Ints,
        lasts: Ints,
        told: tuple[Ints, Ints, Ints],
    ) -> int:
        """Note what candidates read of tensors; return the row of the first.

        Args:
            tensors: What is read, one after the other.
            counts: Rows of each.
            candidates: [row] Who reads it.
            lasts: [row] Where their stretches end.
            told: Low, high [row, device] and axis [row], as in `Reading`.
        """
        row, (low, high, axes) = len(self.axes), told
        readers = np.repeat(np.array([self._numbers[name] for name in tensors], np.int64), counts)
        columns, last_reads = (
            np.repeat(np.array([known.get(name, -1) for name in tensors], np.int64), counts)
            for known in (self._columns, self._last_reads)
        )
        (known,) = np.nonzero((columns >= 0) & (last_reads > lasts))
        is_any = high > low
        rows = np.where(is_any[known], row + known[:, None], -1)
        self.changes[candidates[known], columns[known], 1:] = rows
        self.readers = np.concatenate([self.readers, readers])
        self.read_marks = np.concatenate([self.read_marks, _mark([readers, axes, *low.T, *high.T])])
        self.axes = np.concatenate([self.axes, axes])
        self.low, self.high = np.concatenate([self.low, low]), np.concatenate([self.high, high])
        return row


def _mark(columns: Sequence[Ints]) -> Ints:
    """Return numbers from 0 that differ where rows of columns do; their sums differ where sets of rows do."""
    words = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        words = (words ^ column.astype(np.uint64)) + np.uint64(_ODD)
        for shift, factor in _MIX:
            words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
        words ^= words >> np.uint64(31)
    return (words >> np.uint64(1)).astype(np.int64)

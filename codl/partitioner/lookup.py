"""The tables of many operators side by side: slices of all of them are looked up at once."""

from collections.abc import Iterable, Sequence

import numpy as np

from codl.partitioner.arrays import Floats, Ints
from codl.partitioner.needs import Need
from codl.partitioner.positions import FAR
from codl.partitioner.tables import AxisTable


class Lookup:
    """Looks up what slices take and read.

    Args:
        tables: Those that may be asked for.
    """

    def __init__(self, tables: Iterable[AxisTable]) -> None:
        self._tables = list(tables)
        needs = [need for table in self._tables for need in table.needs]
        edges = [
            (need, need.low, need.high) for need in needs if need.low is not None and need.high is not None
        ]
        self._starts = _find_starts(self._tables, [table.slices.shape[1] for table in self._tables])
        self._need_starts = _find_starts([need for need, *_ in edges], [len(low) for _, low, _ in edges])
        slices = np.concatenate([table.slices for table in self._tables], axis=1)
        self._count, self._total = slices.shape[:2]
        self._pairs = slices.reshape(-1).view(np.complex128)
        """[device and place] Time, with memory's part of it as the imaginary one: both are found at once."""
        nothing = np.zeros(0, np.int64)
        self._low = np.concatenate([nothing, *(low for _, low, _ in edges)])
        self._high = np.concatenate([nothing, *(high for *_, high in edges)])

    def take(self, tables: Sequence[AxisTable], counts: Sequence[int], low: Ints, high: Ints) -> Floats:
        """Return time and memory's part [count, device, 2] of each device's interval [count, device].

        Args:
            tables: One after the other.
            counts: Intervals of each.
            low: Of all of them together.
            high: As ``low``.
        """
        starts = np.repeat([self._starts[id(table)] for table in tables], counts)[:, None]
        lengths = np.repeat([table.length for table in tables], counts)[:, None]
        devices, is_empty = np.arange(self._count) * self._total, high <= low
        if self._count > 2:
            tails = starts + devices + lengths + 1
            found = self._find(starts + devices + np.where(is_empty, 0, high))
            found = found + self._find(tails + np.where(is_empty, 0, low)) - self._find(tails)
            return np.where(is_empty[:, :, None], 0.0, np.maximum(found, 0.0))
        # One interval begins at the start, the other ends at the end.
        places = np.where(low == 0, high, low + lengths + 1)
        places = np.where(is_empty, 2 * lengths + 2, places)
        return self._find(places + starts + devices)

    def _find(self, places: Ints) -> Floats:
        """Return what stands at places [count, device]: [count, device, 2]."""
        return self._pairs.take(places).view(np.float64).reshape(*places.shape, 2)

    def read(self, needs: Sequence[Need], counts: Sequence[int], low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """Return which intervals [count, device] of inputs slices read; empty ones read nothing.

        Args:
            needs: What slices of some operators read of an input, one after the other; none reads all of it.
            counts: Slices of each.
            low: Of all of them together, [count, device].
            high: As ``low``.
        """
        starts = np.repeat([self._need_starts[id(need)] for need in needs], counts)[:, None]
        is_empty = high <= low
        begin = self._low.take(np.where(is_empty, 0, low) + starts)
        end = self._high.take(np.where(is_empty, 0, high) + starts)
        return np.where(is_empty, FAR, begin), np.where(is_empty, 0, end)


def _find_starts(items: Sequence[object], sizes: Sequence[int]) -> dict[int, int]:
    """Return where each of some things begins when they stand side by side, by its identity."""
    starts = np.cumsum([0, *sizes]).tolist()
    return {id(item): start for item, start in zip(items, starts, strict=False)}

"""Latencies and reads of slices of many operators, looked up at once."""

from collections.abc import Iterable, Sequence

import numpy as np

from codl.simulator.arrays import Floats, Ints
from codl.simulator.cut_grid import FAR
from codl.simulator.input_needs import Need
from codl.simulator.slices import AxisTable


class SliceLookup:
    """The tables of many operators, joined to flat arrays.

    Args:
        tables: All tables that will be looked up.
    """

    def __init__(self, tables: Iterable[AxisTable]) -> None:
        known = list(tables)
        grids = list({id(table.grid): table.grid for table in known}.values())
        needs = {id(need): need for table in known for need in table.needs}
        edges = [
            (need, need.low, need.high)
            for need in needs.values()
            if need.low is not None and need.high is not None
        ]
        self._starts = _find_starts(known, [table.predicted.shape[1] for table in known])
        self._grid_starts = _find_starts(grids, [grid.length + 1 for grid in grids])
        self._need_starts = _find_starts([need for need, *_ in edges], [len(low) for _, low, _ in edges])
        samples = np.concatenate([table.predicted for table in known], axis=1)
        self._count, self._total = samples.shape[:2]
        self._samples = samples.reshape(-1).view(np.complex128)
        """[(device, slice)] Latency, with the part that memory limits as imaginary part."""
        self._after = np.concatenate([grid.at_or_after for grid in grids])
        self._before = np.concatenate([grid.at_or_before + len(grid.positions) for grid in grids])
        nothing = np.zeros(0, np.int64)
        self._low = np.concatenate([nothing, *(low for _, low, _ in edges)])
        self._high = np.concatenate([nothing, *(high for *_, high in edges)])

    def find_latencies(
        self, tables: Sequence[AxisTable], counts: Sequence[int], low: Ints, high: Ints
    ) -> Floats:
        """Return [slice, device, 2] latencies in us, and the part of them that memory limits.

        A slice between two inner positions takes what a slice from the start and a slice to the end take
        together, less the whole.

        Args:
            tables: Of operators, one after the other.
            counts: Slices of each operator.
            low: [slice, device] Where the slices of all operators begin.
            high: [slice, device] Where they end; the same position or an earlier one for empty slices.
        """
        starts, samples = (
            np.repeat(each, counts)[:, None]
            for each in (
                [self._grid_starts[id(table.grid)] for table in tables],
                [self._starts[id(table)] for table in tables],
            )
        )
        samples = samples + np.arange(self._count) * self._total
        is_empty = high <= low
        low, high = np.where(is_empty, 0, low), np.where(is_empty, 0, high)
        heads, tails = self._after.take(starts + high), self._before.take(starts + low)
        if self._count > 2:
            found = self._samples.take(samples + heads) + self._samples.take(samples + tails)
            found -= self._samples.take(samples + self._before.take(starts))
        else:  # the first device's slice begins at 0, the other's ends at the end
            found = self._samples.take(samples + np.where(low == 0, heads, tails))
        latencies = found.view(np.float64).reshape(*low.shape, 2)
        return np.where(is_empty[:, :, None], 0.0, np.maximum(latencies, 0.0))

    def find_reads(
        self, needs: Sequence[Need], counts: Sequence[int], low: Ints, high: Ints
    ) -> tuple[Ints, Ints]:
        """Return [slice, device] where the intervals of inputs begin and end that slices read.

        Args:
            needs: What slices of some operators read of an input, one after the other; never the whole input.
            counts: Slices of each.
            low: [slice, device] Where the slices begin.
            high: [slice, device] Where they end.
        """
        starts = np.repeat([self._need_starts[id(need)] for need in needs], counts)[:, None]
        is_empty = high <= low
        begin = self._low.take(np.where(is_empty, 0, low) + starts)
        end = self._high.take(np.where(is_empty, 0, high) + starts)
        return np.where(is_empty, FAR, begin), np.where(is_empty, 0, end)


def _find_starts(items: Sequence[object], sizes: Sequence[int]) -> dict[int, int]:
    """Return by `id` where each of some things begins in an array of all of them."""
    starts = np.cumsum([0, *sizes]).tolist()
    return {id(item): start for item, start in zip(items, starts, strict=False)}

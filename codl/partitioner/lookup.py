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
        told = list(tables)
        spreads = list({id(table.spread): table.spread for table in told}.values())
        needs = {id(need): need for table in told for need in table.needs}
        edges = [
            (need, need.low, need.high)
            for need in needs.values()
            if need.low is not None and need.high is not None
        ]
        self._starts = _find_starts(told, [table.predicted.shape[1] for table in told])
        self._spread_starts = _find_starts(spreads, [len(spread.before) for spread in spreads])
        self._need_starts = _find_starts([need for need, *_ in edges], [len(low) for _, low, _ in edges])
        samples = np.concatenate([table.predicted for table in told], axis=1)
        self._count, self._total = samples.shape[:2]
        self._samples = samples.reshape(-1).view(np.complex128)
        """[device and sample] Time, with memory's part of it as the imaginary one: both are found at once."""
        self._before, self._after, self._edges, self._beside, self._part, self._distances = (
            np.concatenate([getattr(spread, name) for spread in spreads])
            for name in ("before", "after", "edges", "beside", "part", "distances")
        )
        self._is_tiled = any(spread.is_tiled for spread in spreads)
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
        starts, samples, lengths = (
            np.repeat(each, counts)[:, None]
            for each in (
                [self._spread_starts[id(table.spread)] for table in tables],
                [self._starts[id(table)] for table in tables],
                [table.length for table in tables],
            )
        )
        samples = samples + np.arange(self._count) * self._total
        is_empty = high <= low
        if self._count > 2:
            tails = starts + lengths + 1
            found = self._find(starts + np.where(is_empty, 0, high), samples)
            found = found + self._find(tails + np.where(is_empty, 0, low), samples)
            found -= self._find(np.broadcast_to(tails, low.shape), samples)
            return np.where(is_empty[:, :, None], 0.0, np.maximum(found, 0.0))
        # One interval begins at the start, the other ends at the end.
        places = np.where(low == 0, high, low + lengths + 1)
        places = np.where(is_empty, 2 * lengths + 2, places)
        return self._find(places + starts, samples)

    def _find(self, places: Ints, samples: Ints) -> Floats:
        """Return what slices take at places of spreads, as in `Spread.find_between`: [count, device, 2].

        Args:
            places: [count, device]
            samples: [count, device] Samples before those of each place's table.
        """
        part = self._part.take(places)
        found = self._samples.take(self._before.take(places) + samples) * (1 - part)
        found += self._samples.take(self._after.take(places) + samples) * part
        if self._is_tiled:
            edges, beside = (
                self._samples.take(known.take(places) + samples) for known in (self._edges, self._beside)
            )
            found -= (edges - beside) * self._distances.take(places)
        return np.asarray(np.maximum(found.view(np.float64).reshape(*places.shape, 2), 0.0))

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

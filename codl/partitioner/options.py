"""All that a stretch may become that begins at one place: candidates of several chains side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from codl.partitioner.chains import WHOLE, ChainBatch
from codl.partitioner.positions import Flags, Floats, Ints

_BEST_CUTS = 6
"""Candidates of a chain: those that take least by themselves."""
_SPREAD = 1.3
"""Candidates that take longer than the best one by more than this are dropped."""


Limits = Mapping[tuple[int, int], float]
NO_LIMITS: Limits = {}
NOTHING_KNOWN: Mapping[int, ChainBatch] = {}


@dataclass(slots=True)
class Demand:
    """What candidates need of a tensor from outside, as in `Reading`."""

    axes: Ints
    """[candidate]"""
    low: Ints
    """[candidate, device]"""
    high: Ints
    """[candidate, device]"""


@dataclass(slots=True)
class Demands:
    """What candidates need of tensors from outside, all side by side."""

    tensors: Sequence[str]
    axes: Ints
    """[tensor, candidate]"""
    low: Ints
    """[tensor, candidate, device]"""
    high: Ints
    """[tensor, candidate, device]"""
    is_any: Flags
    """[tensor, candidate, device] Whether it is something."""

    def find(self, place: int) -> Demand:
        """Return what is needed of one of the tensors."""
        return Demand(axes=self.axes[place], low=self.low[place], high=self.high[place])

    def choose(self, places: Sequence[int]) -> "Demands":
        """Return what is needed of some of the tensors."""
        if len(places) == len(self.tensors):
            return self
        return Demands(
            tensors=[self.tensors[place] for place in places],
            axes=self.axes[places],
            low=self.low[places],
            high=self.high[places],
            is_any=self.is_any[places],
        )


@dataclass(slots=True)
class Options:
    """Candidates of stretches with the same head."""

    batches: Sequence[ChainBatch]
    """The stretches, those that end sooner first."""
    owners: Sequence[int]
    """By candidate, its place among the stretches."""
    indices: Sequence[int]
    """By candidate, its place in its stretch."""
    busy_us: Floats
    """[candidate, device] As in `ChainBatch`."""
    demands: Demands
    parts: Sequence[tuple[int, slice]]
    """Of each stretch, the position of its tail and its candidates."""


def make_options(
    heads: Sequence[Sequence[ChainBatch]],
    limits_us: Limits = NO_LIMITS,
    *,
    known: Mapping[int, ChainBatch] = NOTHING_KNOWN,
) -> list[Options]:
    """Return, for each head, the candidates of its stretches: all of whole operators, of chains the best.

    Args:
        heads: Stretches that begin at the same place, those that end sooner first; at least one each.
        limits_us: By first and last position, what no candidate of a chain may take longer than.
        known: By head, a single candidate that is the last one whatever it takes.
    """
    heads = [
        [batch for batch in head if batch.least_us <= _find_limit(batch, limits_us)]
        + ([known[place]] if place in known else [])
        for place, head in enumerate(heads)
    ]
    batches = [batch for head in heads for batch in head]
    if not batches:
        return []
    counts = [len(batch.span_us) for batch in batches]
    starts = np.cumsum([0, *counts])
    chosen, owners = _find_best(batches, counts, limits_us)
    chosen += starts[owners]
    busy = np.concatenate([batch.busy_us for batch in batches]).take(chosen, axis=0)
    sizes = np.bincount(owners, minlength=len(batches)).tolist()
    tables, rows = _list_demands(heads, counts)
    last_batches = np.cumsum([len(head) for head in heads])
    edges = np.searchsorted(owners, [0, *last_batches.tolist()]).tolist()
    bases = starts[[0, *last_batches.tolist()]]
    low, high, axes = _take_demands(tables, rows, chosen=chosen, edges=edges, bases=bases)
    is_any = high > low
    indices, owned = (chosen - starts[owners]).tolist(), owners.tolist()
    found, first, place, row = [], 0, 0, 0
    for number, head in enumerate(heads):
        stop = edges[number + 1]
        parts, start, tensors = [], 0, tables[number]
        for batch, size in zip(head, sizes[first : first + len(head)], strict=True):
            if size:
                parts.append((batch.last, slice(start, start + size)))
            start += size
        count = stop - place
        part = slice(row, row + len(tensors) * count)
        row = part.stop
        shape = (len(tensors), count, -1)
        demands = Demands(
            tensors=tensors,
            axes=axes[part].reshape(len(tensors), count),
            low=low[part].reshape(shape),
            high=high[part].reshape(shape),
            is_any=is_any[part].reshape(shape),
        )
        found.append(
            Options(
                batches=head,
                owners=[owner - first for owner in owned[place:stop]],
                indices=indices[place:stop],
                busy_us=busy[place:stop],
                demands=demands,
                parts=parts,
            )
        )
        first, place = first + len(head), stop
    return found


def make_only_option(batch: ChainBatch, index: int) -> Options:
    """Return a single candidate of a stretch."""
    (found,) = make_options([[batch.choose(np.array([index]))]])
    return found


def choose_candidates(batch: ChainBatch) -> ChainBatch:
    """Return the candidates of a stretch that `make_options` takes."""
    places, _ = _find_best([batch], [len(batch.span_us)])
    return batch.choose(places)


def _find_limit(batch: ChainBatch, limits_us: Limits) -> float:
    return inf if batch.axis == WHOLE else limits_us.get((batch.first, batch.last), inf)


def _find_best(
    batches: Sequence[ChainBatch], counts: Sequence[int], limits_us: Limits = NO_LIMITS
) -> tuple[Ints, Ints]:
    """Return the best candidates of each stretch, counted within it, and the stretches' places."""
    is_whole = np.array([batch.axis == WHOLE or len(batch.span_us) == 1 for batch in batches])[:, None]
    limits = np.array([_find_limit(batch, limits_us) for batch in batches])[:, None]
    sizes = np.array(counts)[:, None]
    table = np.full((len(batches), int(sizes.max())), np.inf)
    table[np.arange(table.shape[1]) < sizes] = np.concatenate([batch.span_us for batch in batches])
    ranked = np.argsort(table, axis=1, kind="stable")
    values = np.take_along_axis(table, ranked, axis=1)
    is_close = (values <= np.minimum(_SPREAD * values[:, :1], limits)) & (
        np.arange(len(table[0])) < _BEST_CUTS
    )
    is_close = (is_close | is_whole) & (ranked < sizes)
    return ranked[is_close], np.nonzero(is_close)[0]


def _list_demands(
    heads: Sequence[Sequence[ChainBatch]], counts: Sequence[int]
) -> tuple[list[list[str]], list[tuple[int, Ints, Ints]]]:
    """Return the tensors that each head's stretches read, and by head, tensor and stretch what of them."""
    devices = heads[0][0].busy_us.shape[1]
    nothing = np.zeros((max(counts), devices), np.int64)
    tables, rows, place = [], [], 0
    for head in heads:
        sizes = counts[place : place + len(head)]
        place += len(head)
        tensors = list(dict.fromkeys([name for batch in head for name in batch.reads]))
        tables.append(tensors)
        for tensor in tensors:
            for batch, count in zip(head, sizes, strict=True):
                one = batch.reads.get(tensor)
                if one is None:
                    rows.append((WHOLE, nothing[:count], nothing[:count]))
                else:
                    rows.append((one.axis, one.low, one.high))
    return tables, rows


def _take_demands(
    tables: Sequence[Sequence[str]],
    rows: Sequence[tuple[int, Ints, Ints]],
    *,
    chosen: Ints,
    edges: Sequence[int],
    bases: Ints,
) -> tuple[Ints, Ints, Ints]:
    """Return, for each head, tensor and chosen candidate, what is read: low, high [row, device], axis [row].

    Args:
        tables: The tensors of each head.
        rows: As `_list_demands` returns them.
        chosen: Candidates, counted through all stretches.
        edges: Of the chosen candidates of each head.
        bases: Candidates of all stretches before those of each head.
    """
    if not rows:
        nothing = np.zeros((0, 0), np.int64)
        return nothing, nothing, np.zeros(0, np.int64)
    places, offset, sizes = [], 0, np.diff(bases).tolist()
    for tensors, base, size, start, stop in zip(
        tables, bases.tolist(), sizes, edges, edges[1:], strict=False
    ):
        for _ in tensors:
            places.append(chosen[start:stop] + (offset - base))
            offset += size
    index = np.concatenate(places)
    low = np.concatenate([low for _, low, _ in rows]).take(index, axis=0)
    high = np.concatenate([high for *_, high in rows]).take(index, axis=0)
    axes = np.repeat([axis for axis, *_ in rows], [len(low) for _, low, _ in rows]).take(index)
    return low, high, axes

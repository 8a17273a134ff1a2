"""All that a stretch may become that begins at one place: candidates of several chains side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from codl.partitioner.chains import ChainBatch
from codl.partitioner.ledger import Ledger
from codl.simulator.arrays import Floats, Ints
from codl.simulator.cut_grid import WHOLE

_BEST_CUTS = 6
"""Candidates of a chain: those that take least by themselves."""
_SPREAD = 1.3
"""Candidates that take longer than the best one by more than this are dropped."""


Limits = Mapping[tuple[int, int], float]
NO_LIMITS: Limits = {}
NOTHING_KNOWN: Mapping[int, ChainBatch] = {}


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
    tensors: Sequence[str]
    """Those from outside that are read."""
    reads: slice
    """The ledger's rows of what is read of them, by tensor and candidate."""
    parts: Sequence[tuple[int, slice]]
    """Positions of tails, and the candidates that end there."""
    first: int
    """Position of the head."""
    start: int
    """Number of the first one in the ledger."""
    marks: Ints
    """[candidate] The sum of those of its divisions."""
    lasts: Ints
    """[candidate] Position of its tail."""


def make_options(
    heads: Sequence[Sequence[ChainBatch]],
    ledger: Ledger,
    limits_us: Limits = NO_LIMITS,
    *,
    known: Mapping[int, ChainBatch] = NOTHING_KNOWN,
) -> list[Options]:
    """Return, for each head, the candidates of its stretches: all of whole operators, of chains the best.

    Args:
        heads: Stretches that begin at the same place, those that end sooner first; at least one each.
        ledger: Where to note what they publish and read.
        limits_us: By first and last position, what no candidate of a chain may take longer than.
        known: By head, a single candidate that is the last one whatever it takes.
    """
    heads, limits = _keep_fast(heads, limits_us, known)
    batches = [batch for head in heads for batch in head]
    if not batches:
        return []
    counts = [len(batch.span_us) for batch in batches]
    starts = np.cumsum([0, *counts])
    chosen, owners = _find_best(batches, counts, limits)
    chosen += starts[owners]
    busy = np.concatenate([batch.busy_us for batch in batches]).take(chosen, axis=0)
    sizes = np.bincount(owners, minlength=len(batches)).tolist()
    tables, rows = _list_demands(heads, counts)
    last_batches = np.cumsum([len(head) for head in heads])
    edges = np.searchsorted(owners, [0, *last_batches.tolist()]).tolist()
    bases = starts[[0, *last_batches.tolist()]]
    low, high, axes = _take_demands(
        tables, rows, chosen=chosen, edges=edges, bases=bases, devices=busy.shape[1]
    )
    lasts = np.array([batch.last for batch in batches]).take(owners)
    ledger.open(len(chosen))
    readings = _note_reads(tables, edges, lasts, (low, high, axes), ledger)
    marks = _note_divisions(batches, chosen, sizes, ledger)
    indices, owned = (chosen - starts[owners]).tolist(), owners.tolist()
    found, first, place, row = [], 0, 0, 0
    for number, head in enumerate(heads):
        stop = edges[number + 1]
        parts: list[tuple[int, slice]] = []
        start, tensors = 0, tables[number]
        members = slice(first, first + len(head))
        for batch, size in zip(head, sizes[members], strict=True):
            if size:
                begin = parts.pop()[1].start if parts and parts[-1][0] == batch.last else start
                parts.append((batch.last, slice(begin, start + size)))
            start += size
        count = stop - place
        part = slice(readings + row, readings + row + len(tensors) * count)
        row += len(tensors) * count
        found.append(
            Options(
                batches=head,
                owners=[owner - first for owner in owned[place:stop]],
                indices=indices[place:stop],
                busy_us=busy[place:stop],
                tensors=tensors,
                reads=part,
                parts=parts,
                first=head[0].first,
                start=place,
                marks=marks[place:stop],
                lasts=lasts[place:stop],
            )
        )
        first, place = first + len(head), stop
    return found


def choose_candidates(batch: ChainBatch) -> ChainBatch:
    """Return the candidates of a stretch that `make_options` takes."""
    places, _ = _find_best([batch], [len(batch.span_us)], [inf])
    return batch.choose(places)


def _keep_fast(
    heads: Sequence[Sequence[ChainBatch]], limits_us: Limits, known: Mapping[int, ChainBatch]
) -> tuple[list[list[ChainBatch]], list[float]]:
    """Return the stretches of each head with candidates within their limits, known ones behind the others.

    With them come what no candidate of each may take longer than.
    """
    found, limits = [], []
    for place, head in enumerate(heads):
        mine = []
        for batch in head:
            limit = inf if batch.axis == WHOLE else limits_us.get((batch.first, batch.last), inf)
            if batch.least_us <= limit:
                mine.append(batch)
                limits.append(limit)
        if place in known:
            mine.append(known[place])
            limits.append(inf)
        found.append(mine)
    return found, limits


def _find_best(
    batches: Sequence[ChainBatch], counts: Sequence[int], limits_us: Sequence[float]
) -> tuple[Ints, Ints]:
    """Return the best candidates of each stretch, counted within it, and the stretches' places.

    Args:
        batches: The stretches.
        counts: Candidates of each.
        limits_us: By stretch, what none may take longer than.
    """
    is_whole = np.array([batch.axis == WHOLE or len(batch.span_us) == 1 for batch in batches])[:, None]
    limits, sizes = np.array(limits_us)[:, None], np.array(counts)[:, None]
    table = np.full((len(batches), int(sizes.max())), np.inf)
    table[np.arange(table.shape[1]) < sizes] = np.concatenate([batch.span_us for batch in batches])
    ranked = np.argsort(table, axis=1, kind="stable")
    values = np.take_along_axis(table, ranked, axis=1)
    is_close = (values <= np.minimum(_SPREAD * values[:, :1], limits)) & (
        np.arange(len(table[0])) < _BEST_CUTS
    )
    is_close = (is_close | is_whole) & (ranked < sizes)
    return ranked[is_close], np.nonzero(is_close)[0]


def _note_reads(
    tables: Sequence[Sequence[str]],
    edges: Sequence[int],
    lasts: Ints,
    told: tuple[Ints, Ints, Ints],
    ledger: Ledger,
) -> int:
    """Note what candidates read; return the ledger's row of the first.

    Args:
        tables: The tensors of each head.
        edges: Of the candidates of each head.
        lasts: [candidate] Position of its tail.
        told: As `_take_demands` returns it.
        ledger: Where to note it.
    """
    each = np.repeat(np.diff(edges), [len(tensors) for tensors in tables])
    firsts = np.repeat(edges[:-1], [len(tensors) for tensors in tables])
    # Rows are of one head's tensor after the other, each with all of the head's candidates.
    candidates = np.arange(len(told[2])) + np.repeat(firsts - each.cumsum() + each, each)
    sought = [name for tensors in tables for name in tensors]
    return ledger.read(sought, each, candidates, lasts.take(candidates), told)


def _note_divisions(
    batches: Sequence[ChainBatch], chosen: Ints, sizes: Sequence[int], ledger: Ledger
) -> Ints:
    """Note how candidates divide what they publish; return of each the sum of its divisions' marks.

    Args:
        batches: The stretches.
        chosen: Candidates, counted through all stretches.
        sizes: As many of each stretch are chosen.
        ledger: Where to note it.
    """
    entries = [(place, name) for place, batch in enumerate(batches) for name in batch.bounds]
    owners = np.array([place for place, _ in entries])
    bounds = [batches[place].bounds[name] for place, name in entries]
    each, counts = np.array(sizes).take(owners), [len(one) for one in bounds]
    stops, edges = each.cumsum(), np.cumsum([0, *sizes])
    firsts = np.cumsum([0, *[len(batch.span_us) for batch in batches]]).take(owners)
    # By row, the number of the candidate among those chosen, and its bounds among all.
    rows = np.arange(int(stops[-1])) + np.repeat(edges.take(owners) - stops + each, each)
    places = chosen.take(rows) + np.repeat(np.cumsum([0, *counts[:-1]]) - firsts, each)
    axes = np.array([batch.axis for batch in batches]).take(owners)
    divided = np.concatenate(bounds).take(places, axis=0)
    marks = np.zeros(len(chosen), np.int64)
    np.add.at(marks, rows, ledger.divide([name for _, name in entries], each, rows, axes, divided))
    return marks


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
    devices: int,
) -> tuple[Ints, Ints, Ints]:
    """Return, for each head, tensor and chosen candidate, what is read: low, high [row, device], axis [row].

    Args:
        tables: The tensors of each head.
        rows: As `_list_demands` returns them.
        chosen: Candidates, counted through all stretches.
        edges: Of the chosen candidates of each head.
        bases: Candidates of all stretches before those of each head.
        devices: As many as take part.
    """
    if not rows:  # constants are no tensors that anybody publishes
        nothing = np.zeros((0, devices), np.int64)
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

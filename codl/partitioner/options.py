"""All that a stretch may become that begins at one place: candidates of several chains side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from codl.partitioner.chains import WHOLE, ChainBatch
from codl.partitioner.positions import Floats, Ints

_BEST_CUTS = 6
"""Candidates of a chain: those that take least by themselves."""
_SPREAD = 1.3
"""Candidates that take longer than the best one by more than this are dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Candidates of chains with the same head."""

    batches: tuple[ChainBatch, ...]
    """The chains, those that end sooner first."""
    owners: tuple[int, ...]
    """By candidate, its place among the chains."""
    indices: tuple[int, ...]
    """By candidate, its place in its chain."""
    busy_us: Floats
    """[candidate, device] As in `ChainBatch`."""
    needs: Mapping[str, tuple[Ints, Ints, Ints]]
    """Tensor from outside -> axis [candidate], low and high [candidate, device], as in `Reading`."""

    def list_parts(self) -> list[tuple[int, slice]]:
        """Return, for each chain, the position of its tail and its candidates."""
        stops = np.cumsum(np.bincount(self.owners)).tolist()
        starts = [0, *stops[:-1]]
        return [
            (batch.last, slice(start, stop))
            for batch, start, stop in zip(self.batches, starts, stops, strict=True)
        ]


def make_options(single: ChainBatch, chains: Sequence[ChainBatch]) -> Options:
    """Return all candidates of an operator by itself, and the best ones of each chain.

    Args:
        single: What runs the operator whole.
        chains: Those that begin with it, by position of their tails.
    """
    size = len(single.span_us)
    chosen = np.arange(size)
    owners = np.zeros(size, np.int64)
    if chains:
        places, of = _find_best([batch.span_us for batch in chains])
        chosen, owners = np.concatenate([chosen, places + size]), np.concatenate([owners, of + 1])
    return _gather((single, *chains), chosen, owners)


def make_only_option(batch: ChainBatch, index: int) -> Options:
    """Return a single candidate of a chain."""
    return _gather((batch,), np.array([index]), np.zeros(1, np.int64))


def choose_candidates(batch: ChainBatch) -> ChainBatch:
    """Return the candidates of a chain that `make_options` takes."""
    places, _ = _find_best([batch.span_us])
    return batch.choose(places)


def _find_best(spans: Sequence[Floats]) -> tuple[Ints, Ints]:
    """Return the best candidates of each chain, counted through all chains, and the chains' places."""
    counts = np.array([len(span) for span in spans])
    table = np.full((len(spans), int(counts.max())), np.inf)
    table[np.arange(table.shape[1]) < counts[:, None]] = np.concatenate(spans)
    ranked = np.argsort(table, axis=1, kind="stable")[:, :_BEST_CUTS]
    values = table[np.arange(len(table))[:, None], ranked]
    is_close = (values <= _SPREAD * values[:, :1]) & (ranked < counts[:, None])
    starts = np.cumsum(counts) - counts
    return (ranked + starts[:, None])[is_close], np.nonzero(is_close)[0]


def _gather(batches: tuple[ChainBatch, ...], chosen: Ints, owners: Ints) -> Options:
    """Return some candidates of chains, counted through all of them."""
    counts = [len(batch.span_us) for batch in batches]
    starts = np.cumsum([0, *counts[:-1]])
    nothing = np.zeros((max(counts), batches[0].busy_us.shape[1]), np.int64)
    needs = {}
    for tensor in dict.fromkeys(name for batch in batches for name in batch.reads):
        readings = [batch.reads.get(tensor) for batch in batches]
        axes = np.array([WHOLE if reading is None else reading.axis for reading in readings])
        pairs = list(zip(readings, counts, strict=True))
        low = np.concatenate([nothing[:count] if one is None else one.low for one, count in pairs])
        high = np.concatenate([nothing[:count] if one is None else one.high for one, count in pairs])
        needs[tensor] = axes[owners], low.take(chosen, axis=0), high.take(chosen, axis=0)
    return Options(
        batches=batches,
        owners=tuple(owners.tolist()),
        indices=tuple((chosen - starts[owners]).tolist()),
        busy_us=np.concatenate([batch.busy_us for batch in batches]).take(chosen, axis=0),
        needs=needs,
    )

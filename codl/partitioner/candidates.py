"""Candidates of dynamic programming: for each position, whole operators and the best cuts of each chain."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from codl.partitioner.chains import ChainBatch, Reading
from codl.partitioner.search_state import Slots
from codl.simulator.arrays import Flags, Floats, Ints, list_parts
from codl.simulator.cut_grid import WHOLE

Limits = Mapping[tuple[int, int], float]
"""By first and last position, the longest time in us of a candidate that is not pruned."""
NO_LIMITS: Limits = {}
_MOST_CUTS = 6
"""Candidates of a chain: those with the shortest times."""
_LONGEST_CUT = 1.3
"""Candidates that take so many times as long as the best one of their chain are pruned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """What may be done with the units from each position on; those of one position stand together."""

    parts: Mapping[int, Mapping[int, slice]]
    """By position and by position of the last unit, which candidates begin and end there."""
    chains: Sequence[tuple[ChainBatch, int]]
    """By candidate, its chain and its index among the cuts of that chain."""
    busy_us: Floats
    """[candidate, device] Time that each device computes, contention included."""
    input_us: Floats
    """[candidate, device] Time that each device's queue takes to be sent what the host has."""
    axis: Ints
    """[candidate, slot] Axis along which the tensor in a slot is read."""
    low: Ints
    """[candidate, slot, device] Where the interval begins that is read of the tensor in a slot."""
    high: Ints
    """[candidate, slot, device] Where it ends; 0 if nothing is read."""
    is_live: Ints
    """[candidate, slot] 1 where the tensor in a slot is still read behind the candidate, else 0."""
    is_published: Flags
    """[candidate, slot + 1] Whether the candidate publishes the tensor in a slot; never at the last place."""
    is_changed: Flags
    """[candidate, slot, fact] Which facts about tensors the candidate changes."""
    facts: Ints
    """[candidate, slot, fact] What it changes them to."""
    marks: Ints
    """[candidate] Sum of the marks of what it publishes."""


def list_candidates(
    heads: Mapping[int, Sequence[ChainBatch]],
    slots: Slots,
    find_input_us: Callable[[str, Reading], Floats],
    limits_us: Limits = NO_LIMITS,
) -> Candidates:
    """Return all candidates: whole operators, and the best cuts of each chain.

    Args:
        heads: By position, the chains and whole operators that begin there.
        slots: Where search states keep tensors.
        find_input_us: Returns [candidate, device] what it takes queues to be sent a tensor of the host.
        limits_us: What no candidate may take longer than.
    """
    cuts = _list_cuts(heads, limits_us)
    sizes = [len(places) for *_, places in cuts]
    firsts = np.repeat([first for first, *_ in cuts], sizes)
    last = np.repeat([batch.last for _, batch, _ in cuts], sizes)
    busy_us = np.concatenate([batch.busy_us[places] for _, batch, places in cuts])
    count, devices = busy_us.shape
    input_us, axis = np.zeros((count, devices)), np.zeros((count, slots.count), np.int64)
    low, high = np.zeros((2, count, slots.count, devices), np.int64)
    is_published = np.zeros((count, slots.count + 1), bool)
    divisions = np.zeros((count, slots.count, 1 + 2 * devices), np.int64)
    for (_, batch, places), part in zip(cuts, list_parts(sizes), strict=True):
        for name, reading in batch.reads.items():
            slot = slots.columns.get(name)
            if slot is None:
                input_us[part] += find_input_us(name, reading.choose(places))
                continue
            axis[part, slot], low[part, slot] = reading.axis, reading.low[places]
            high[part, slot] = reading.high[places]
        for name, bounds in batch.bounds.items():
            slot = slots.columns.get(name)
            if slot is not None:
                is_published[part, slot] = True
                divisions[part, slot, 0], divisions[part, slot, slots.low] = batch.axis, bounds[places, :-1]
                divisions[part, slot, slots.high] = bounds[places, 1:]
    is_live = slots.live[firsts] > last[:, None]
    is_new, is_sent = is_published[:, :-1, None], np.tile((high > low) & is_live[:, :, None], 3)
    sent = np.concatenate([np.repeat(axis[:, :, None], devices, axis=2), low, high], axis=2)
    return Candidates(
        parts=_find_parts(cuts),
        chains=[(batch, index) for _, batch, places in cuts for index in places.tolist()],
        busy_us=busy_us,
        input_us=input_us,
        axis=axis,
        low=low,
        high=high,
        is_live=is_live.astype(np.int64),
        is_published=is_published,
        is_changed=np.concatenate([np.broadcast_to(is_new, divisions.shape), is_new | is_sent], axis=2),
        facts=np.concatenate([divisions, np.where(is_new, 0, sent)], axis=2),
        marks=(slots.mark(divisions) * is_published[:, :-1]).sum(axis=1),
    )


def _list_cuts(
    heads: Mapping[int, Sequence[ChainBatch]], limits_us: Limits
) -> list[tuple[int, ChainBatch, Ints]]:
    """Return by position, then by end, the chains with the indices of their best cuts."""
    kept, limits = [], []
    for first in sorted(heads):
        for batch in sorted(heads[first], key=lambda one: one.last):
            limit = inf if batch.axis == WHOLE else limits_us.get((first, batch.last), inf)
            if batch.least_us <= limit:
                kept.append((first, batch))
                limits.append(limit)
    chosen = choose_cuts([batch for _, batch in kept], limits)
    return [(*one, places) for one, places in zip(kept, chosen, strict=True) if len(places)]


def _find_parts(cuts: Sequence[tuple[int, ChainBatch, Ints]]) -> dict[int, dict[int, slice]]:
    """Return by first and last position the candidates of some chains, sorted by these positions."""
    found: dict[int, dict[int, slice]] = {}
    for (first, batch, _), part in zip(cuts, list_parts(len(places) for *_, places in cuts), strict=True):
        ends = found.setdefault(first, {})
        ends[batch.last] = slice(ends.get(batch.last, part).start, part.stop)
    return found


def choose_cuts(batches: Sequence[ChainBatch], limits_us: Sequence[float]) -> list[Ints]:
    """Return by chain the indices of its best cuts, best first; all of whole operators.

    Args:
        batches: The chains.
        limits_us: By chain, what no cut may take longer than.
    """
    if not batches:
        return []
    sizes = np.array([len(batch.span_us) for batch in batches])[:, None]
    is_whole = np.array([batch.axis == WHOLE for batch in batches])[:, None] | (sizes == 1)
    spans = np.full((len(batches), int(sizes.max())), np.inf)
    spans[np.arange(spans.shape[1]) < sizes] = np.concatenate([batch.span_us for batch in batches])
    ranked = np.argsort(spans, axis=1, kind="stable")
    values = np.take_along_axis(spans, ranked, axis=1)
    longest = np.minimum(_LONGEST_CUT * values[:, :1], np.array(limits_us)[:, None])
    is_best = (values <= longest) & (np.arange(spans.shape[1]) < _MOST_CUTS)
    is_best = (is_best | is_whole) & (ranked < sizes)
    return np.split(ranked[is_best], is_best.sum(axis=1).cumsum()[:-1])

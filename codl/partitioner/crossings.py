"""What devices are sent when they read parts of tensors from where these are: found once for all ways.

Few parts of a tensor are published or read, however many ways there are through a network. What it takes to
come from each to each is found at once, and looked up for every way.
"""

from dataclasses import dataclass

import numpy as np

from codl.partitioner.ledger import Ledger
from codl.simulator.arrays import Floats, Ints
from codl.simulator.transfers import TensorSizes, TransferCosts


@dataclass(frozen=True, slots=True)
class Crossing:
    """What each device reads of what another one has; sets of devices by their numbers in `TransferCosts`."""

    readers_of: Ints
    """[set of sources] The set of their readers."""
    sources_of: Ints
    """[set of readers] The set of their sources."""
    held: Ints | None
    """[set of readers] The devices that the host waits for to map memory for them; None: it never does."""
    readers: Ints
    """[pair] Those who read something."""
    host_us: Floats | None
    """[(pair, set of readers)] The host's time to send it to those; None where transfers cost nothing."""
    queue_us: Floats | None
    """[pair, reader] That of the reader's queue; None where queues have nothing to do."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """How tensors are divided, or what is read of them: each way once, one tensor's after the other's."""

    tensors: Ints
    """[part]"""
    axes: Ints
    """[part]"""
    low: Ints
    """[part, device]"""
    high: Ints
    """[part, device]"""
    counts: Ints
    """[tensor] Parts of each."""
    numbers: Ints
    """[row of the ledger] The part that it tells of."""


class Crossings:
    """Knows what is sent from each division of a tensor to each way to read it.

    A division and a part that is read have a place among all pairs: the sum of what is known of either.

    Args:
        ledger: Complete.
        sizes: Of its tensors.
        moves: What transfers cost.
    """

    def __init__(self, ledger: Ledger, sizes: TensorSizes, moves: TransferCosts) -> None:
        self._sizes, self._moves, self._count = sizes, moves, moves.count
        count, devices = len(sizes.bytes_), slice(1, 1 + moves.count)
        table = ledger.divisions
        divisions = _find_parts(
            ledger.owners,
            table[:, 0],
            table[:, devices],
            table[:, devices.stop :],
            marks=ledger.marks,
            count=count,
        )
        reads = _find_parts(
            ledger.readers, ledger.axes, ledger.low, ledger.high, marks=ledger.read_marks, count=count
        )
        first, second, starts = _pair(divisions, reads)
        self.division_starts: Ints = starts.take(divisions.numbers)
        """[row] What a division adds to a pair's place."""
        self.parts: Ints = reads.numbers
        """[row] What a part that is read adds to it."""
        self.crossings = [
            self._cross(divisions, first, reads, second, shift=shift) for shift in range(1, moves.count)
        ]
        """By how many places the source stands before the reader."""
        self.bringing_us = None if moves.is_free else self._bring(reads)
        """[part, device] What it takes the device's queue that it is sent what the host has."""
        sent, read, starts = _pair(reads, reads)
        is_read = reads.high > reads.low
        is_more = (reads.low.take(sent, axis=0) > reads.low.take(read, axis=0)) | (
            reads.high.take(sent, axis=0) < reads.high.take(read, axis=0)
        )
        is_more |= (reads.axes.take(sent) != reads.axes.take(read))[:, None]
        is_missing = np.concatenate([is_read, is_more & is_read.take(read, axis=0)])
        self.missing: Ints = (is_missing * moves.weights).T.ravel()
        """[(device, pair)] The device by itself as a set, if it lacks something of a part that was sent the
        other one before; else nobody."""
        starts += len(is_read)
        starts[reads.numbers[0]] = 0  # nothing, sent before anything is read
        places = np.arange(moves.count) * len(is_missing)
        self.sent_starts: Ints = starts.take(reads.numbers)[:, None] + places
        """[row, device] What a part that was sent adds to the place of a device and a pair."""

    def _cross(self, divisions: _Parts, first: Ints, reads: _Parts, second: Ints, *, shift: int) -> Crossing:
        """Return what is sent for pairs of divisions and parts that are read."""
        readers = np.arange(self._count)
        sources = (readers - shift) % self._count
        low, high = (edges[:, sources].take(first, axis=0) for edges in (divisions.low, divisions.high))
        wanted_low, wanted_high = (edges.take(second, axis=0) for edges in (reads.low, reads.high))
        own_axes, axes = divisions.axes.take(first), reads.axes.take(second)
        is_apart = (own_axes != axes)[:, None]
        common = np.minimum(high, wanted_high) - np.maximum(low, wanted_low)
        is_any = (is_apart | (common > 0)) & (high > low) & (wanted_high > wanted_low)
        moves, is_held = self._moves, self._moves.held[sources, readers]
        told = {
            "readers_of": moves.members @ moves.weights[(readers + shift) % self._count],
            "sources_of": moves.members @ moves.weights[sources],
            "held": (moves.members @ is_held) @ moves.weights if is_held.any() else None,
            "readers": is_any @ moves.weights,
        }
        if moves.is_free:
            return Crossing(**told, host_us=None, queue_us=None)
        tensors, sizes = divisions.tensors.take(first), self._sizes
        lengths, own_lengths = sizes.lengths[tensors, axes], sizes.lengths[tensors, own_axes]
        parts = np.where(
            is_apart,
            np.maximum(high - low, 0)
            / own_lengths[:, None]
            * (np.maximum(wanted_high - wanted_low, 0) / lengths[:, None]),
            np.maximum(common, 0) / lengths[:, None],
        )
        bytes_ = parts * sizes.bytes_.take(tensors)[:, None]
        runs = np.where((own_axes == 1) | (axes == 1), sizes.runs.take(tensors), 1.0)[:, None]

        def add(costs: Floats) -> Floats:
            us: Floats = (costs[:, 0] + bytes_ * costs[:, 1] + runs * costs[:, 2]) * is_any
            return us

        queue = moves.queue_us[sources, readers]
        host_us = (add(moves.host_us[sources, readers]) @ moves.members.T).ravel()
        return Crossing(**told, host_us=host_us, queue_us=add(queue) if queue.any() else None)

    def _bring(self, reads: _Parts) -> Floats:
        """Return [part, device] what it takes queues that they are sent parts from the host."""
        sizes, tensors, queue = self._sizes, reads.tensors, self._moves.queue_us[self._count]
        part = np.maximum(reads.high - reads.low, 0) / sizes.lengths[tensors, reads.axes][:, None]
        runs = np.where(reads.axes == 1, sizes.runs.take(tensors), 1.0)[:, None]
        us = queue[:, 0] + part * sizes.bytes_.take(tensors)[:, None] * queue[:, 1] + runs * queue[:, 2]
        return np.where(part > 0, us, 0.0)


def _find_parts(tensors: Ints, axes: Ints, low: Ints, high: Ints, *, marks: Ints, count: int) -> _Parts:
    """Return what rows tell of, each once: rows with equal marks tell of the same."""
    _, rows, numbers = np.unique(marks, return_index=True, return_inverse=True)
    order = tensors.take(rows).argsort(kind="stable")
    rows, places = rows.take(order), np.empty_like(order)
    places[order] = np.arange(len(order))
    return _Parts(
        tensors=tensors.take(rows),
        axes=axes.take(rows),
        low=low.take(rows, axis=0),
        high=high.take(rows, axis=0),
        counts=np.bincount(tensors.take(rows), minlength=count),
        numbers=places.take(numbers),
    )


def _pair(ones: _Parts, others: _Parts) -> tuple[Ints, Ints, Ints]:
    """Return each part with each other one of the same tensor; [part] what makes the others' numbers places.

    A pair's place is the other one's number and what is returned for the first.
    """
    counts = others.counts.take(ones.tensors)
    before = others.counts.cumsum() - others.counts
    starts = counts.cumsum() - counts - before.take(ones.tensors)
    first = np.repeat(np.arange(len(counts)), counts)
    return first, np.arange(len(first)) - starts.take(first), starts

"""All chains that end at a node, for all places to cut it at, followed backwards with their halos."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import combinations, product

import numpy as np

from codl.ir.graph import Graph, Node
from codl.ir.ops import Concat
from codl.latency.predictor import Predictor
from codl.partitioner.order import Unit
from codl.partitioner.positions import Floats, Ints
from codl.partitioner.tables import FAR, Tables
from codl.plan.sharing import Arrangement, Sharing

WHOLE = -1
"""Stands for an axis where a device reads or has all of a tensor."""
_MOST_CANDIDATES = 33
_MOST_SHARES = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What each device needs of a tensor from outside a chain."""

    axis: int
    """Along which the intervals lie, or `WHOLE`."""
    low: Ints
    """[candidate, device]; an empty interval needs nothing."""
    high: Ints

    def choose(self, places: Ints) -> "Reading":
        """Return the reading of some candidates."""
        return Reading(axis=self.axis, low=self.low[places], high=self.high[places])


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainBatch:
    """One stretch of nodes cut along one axis at many places."""

    first: int
    """Position of the head in the order."""
    last: int
    """Position of the tail."""
    axis: int
    bounds: Mapping[str, Ints]
    """Published tensor -> [candidate, device + 1]."""
    reads: Mapping[str, Reading]
    """Tensor from outside -> what is needed of it."""
    busy_us: Floats
    """[candidate, device] Sum of slices, slowed down by the others'."""
    span_us: Floats
    """[candidate] What the device takes that takes longest."""
    ratios: Floats
    """[candidate] Share of the first device of the tail's output."""

    def choose(self, places: Ints) -> "ChainBatch":
        """Return some candidates."""
        return ChainBatch(
            first=self.first,
            last=self.last,
            axis=self.axis,
            bounds={name: bounds[places] for name, bounds in self.bounds.items()},
            reads={name: reading.choose(places) for name, reading in self.reads.items()},
            busy_us=self.busy_us[places],
            span_us=self.span_us[places],
            ratios=self.ratios[places],
        )


class ChainFinder:
    """Finds what chains cost, but for what their heads have to be sent.

    Args:
        tables: What slices take.
        order: Where to seek chains: consecutive units.
        arrangement: How the devices share memory.
        most: Longest chain, in nodes.
    """

    def __init__(self, tables: Tables, order: Sequence[Unit], arrangement: Arrangement, *, most: int) -> None:
        self._tables, self._order, self._most = tables, tuple(order), most
        self._graph = tables.graph
        self._place = {node.name: index for index, unit in enumerate(order) for node in unit.nodes}
        self._last_read = _find_last_reads(self._graph, self._place)
        self._slowdowns = read_slowdowns(tables.predictors)
        self._is_undisturbed = bool((self._slowdowns == 1).all())
        self._count = len(tables.predictors)
        self._launch_us = np.array([one.profile.launch_us for one in tables.predictors])
        self._is_discrete = np.array([mode is Sharing.COPIED for mode in arrangement.modes])

    def iterate(self, last: int) -> Iterator[ChainBatch]:
        """Yield the chains that end at a position, of every axis, the shortest first of each."""
        unit = self._order[last]
        if unit.is_host:
            return
        for axis in self._tables.find(unit.nodes[0]).axes:
            yield from self._follow_back(last, axis)

    def find_single_us(self, position: int) -> Floats:
        """Return [device] what the whole operator at a position takes."""
        return self._tables.find(self._order[position].nodes[0]).whole[:, 0]

    def is_published(self, tensor: str, last: int) -> bool:
        """Return whether a tensor is read behind a position, or is an output."""
        return self._last_read.get(tensor, -1) > last

    def list_published(self, tensors: Iterable[str], last: int) -> frozenset[str]:
        """Return those of some tensors that are read behind a position, or are outputs."""
        return frozenset(name for name in tensors if self.is_published(name, last))

    def _follow_back(self, last: int, axis: int) -> Iterator[ChainBatch]:
        tail = self._order[last].nodes[0]
        table = self._tables.find(tail).axes[axis]
        shares = list_shares(table.length, table.granule, self._count)
        count = len(shares)
        needs: dict[str, Reading] = {}
        bounds: dict[str, Ints] = {}
        sums = np.zeros((count, self._count, 2))
        alone_us = [0.0] * self._count
        groups: list[set[str]] = []
        copies: dict[str, Floats] = {}
        for first in range(last, max(-1, last - self._most), -1):
            unit = self._order[first]
            node = unit.nodes[0]
            found = None if unit.is_host else self._tables.find(node)
            if found is None or axis not in found.axes:
                return
            table = found.axes[axis]
            need = needs.pop(node.output, None)
            if need is not None and need.axis not in (axis, WHOLE):
                return
            is_published = self.is_published(node.output, last)
            if is_published:
                own = _cut(shares, table.length, table.granule)
                bounds[node.output] = own
                mine = Reading(axis=axis, low=own[:, :-1], high=own[:, 1:])
                if need is None:
                    need = mine
                else:
                    need = _join(need, mine)
                    sums[:, :, 0] += self._publish_us(found.size_bytes, table.length, need, mine)
            if need is None:
                return
            low, high = need.low, need.high
            if need.axis == WHOLE:
                low, high = np.zeros_like(low), np.where(high > low, table.length, 0)
            if not is_published and node.output in copies:
                sums += copies.pop(node.output)
            taken = table.take(low, high)
            if isinstance(node.op, Concat):
                sums += self._copy_inputs(node, taken, copies, is_published=is_published)
            else:
                sums += taken
            alone_us = [us + more for us, more in zip(alone_us, found.whole[:, 0].tolist(), strict=True)]
            self._read_inputs(node, axis, (low, high), needs)
            groups = _join_groups(groups, node, self._graph)
            busy = self._slow_down(sums)
            span = reduce(np.maximum, busy.T)
            if span.min() > 1.2 * min(alone_us):  # halos have eaten it
                return
            if len(groups) == 1:
                yield ChainBatch(
                    first=first,
                    last=last,
                    axis=axis,
                    bounds=dict(bounds),
                    reads=dict(needs),
                    busy_us=busy,
                    span_us=span,
                    ratios=shares[:, 1],
                )

    def _copy_inputs(
        self, node: Node, taken: Floats, copies: dict[str, Floats], *, is_published: bool
    ) -> Floats:
        """Return what a concatenation costs as long as its inputs come from outside the chain.

        An input that lies where the output does, both private or both published, is not copied. ``copies``
        notes by how much the cost changes when an input becomes private. Devices with memory of their own
        have one place for both, but where others send them parts of the output nothing may lie inside it.
        """
        is_discrete = self._is_discrete[None, :, None]
        apart = np.where(is_discrete, taken, 0.0) if is_published else np.zeros_like(taken)
        taken = np.where(is_discrete, 0.0, taken)
        whole = float(np.prod(self._graph.shape(node.output)))
        for name in dict.fromkeys(node.inputs):
            part = float(np.prod(self._graph.shape(name))) * node.inputs.count(name) / whole * taken
            copies[name] = copies.get(name, 0.0) + (part if is_published else -part)
        return apart if is_published else taken

    def _read_inputs(
        self, node: Node, axis: int, edges: tuple[Ints, Ints], needs: dict[str, Reading]
    ) -> None:
        """Add what a node's slices between some edges read to what is needed."""
        (low, high), table = edges, self._tables.find(node).axes[axis]
        is_empty = high <= low
        has_empty = bool(is_empty.any())
        begins, ends = (np.where(is_empty, 0, low), np.where(is_empty, 0, high)) if has_empty else edges
        for name, need in zip(node.inputs, table.needs, strict=True):
            if name in self._graph.constants:
                continue
            if need.low is None or need.high is None:
                begin, end = np.zeros_like(low), np.ones_like(high)
            else:
                begin, end = need.low.take(begins), need.high.take(ends)
            if has_empty:
                begin, end = np.where(is_empty, FAR, begin), np.where(is_empty, 0, end)
            reading = Reading(axis=WHOLE if need.low is None else axis, low=begin, high=end)
            known = needs.get(name)
            needs[name] = reading if known is None else _join(known, reading)

    def _publish_us(self, size_bytes: int, length: int, need: Reading, own: Reading) -> Floats:
        """Return [candidate, device] what copies take where more is computed than a device's own part."""
        part = np.maximum(own.high - own.low, 0)
        is_more = (need.low < own.low) | (need.high > own.high) if need.axis != WHOLE else part < length
        moved = 2.0 * size_bytes * part / length / self._tables.bandwidths
        return np.where(is_more & (part > 0), moved + self._launch_us, 0.0)

    def _slow_down(self, sums: Floats) -> Floats:
        """Return [candidate, device] times beside each other: as slow as what others do, while they do it."""
        alone = sums[:, :, 0]
        if self._count == 1:
            return alone
        if self._is_undisturbed:
            return alone.copy()
        shares = np.minimum(sums[:, :, 1] / np.maximum(alone, 1e-9), 1.0)
        mixes = np.stack([1 - shares, shares], axis=2)
        factors = np.ones_like(alone)
        for one, other in product(range(self._count), repeat=2):
            if one != other and (self._slowdowns[one, other] != 1).any():
                slow = np.einsum("ki,ij,kj->k", mixes[:, one], self._slowdowns[one, other], mixes[:, other])
                factors[:, one] *= np.where(alone[:, other] > 0, slow, 1.0)
        slowed = alone * factors
        if self._count > 2:
            return slowed
        beside = np.minimum(slowed[:, :1], slowed[:, 1:])
        return np.where(slowed > beside, beside + (1 - beside / np.maximum(slowed, 1e-9)) * alone, slowed)


def make_single(graph: Graph, order: Sequence[Unit], finder: ChainFinder, position: int) -> ChainBatch:
    """Return the candidates that run one operator whole: one for each device."""
    node = order[position].nodes[0]
    alone_us = finder.find_single_us(position)
    bounds, low, high, ratios = _list_whole(len(alone_us))
    return ChainBatch(
        first=position,
        last=position,
        axis=WHOLE,
        bounds={node.output: bounds},
        reads={name: Reading(axis=WHOLE, low=low, high=high) for name in graph.activations(node)},
        busy_us=np.diag(alone_us),
        span_us=alone_us,
        ratios=ratios,
    )


@lru_cache(maxsize=16)
def _list_whole(devices: int) -> tuple[Ints, Ints, Ints, Floats]:
    """Return boundaries of a tensor that each device has whole in turn, their edges, and first shares."""
    bounds = np.tril(np.ones((devices + 1, devices), np.int64), -1).T
    low, high = bounds[:, :-1], bounds[:, 1:]
    return bounds, low, high, high[:, 0].astype(np.float64)


def read_slowdowns(predictors: Sequence[Predictor]) -> Floats:
    """Return [device, other, 2, 2] how much slower each sort of work is beside each sort of the other's."""
    found = np.ones((len(predictors), len(predictors), 2, 2))
    for (index, one), (place, other) in product(enumerate(predictors), repeat=2):
        neighbour = one.profile.neighbours.get(other.profile.name)
        if index != place and neighbour is not None:
            found[index, place] = neighbour.slowdown
    return found


@lru_cache(maxsize=512)
def list_shares(length: int, granule: int, devices: int) -> Floats:
    """Return [candidate, device + 1] boundaries in [0, 1] to cut an axis at: every granule, or every tenth.

    With more than two devices some may have nothing.
    """
    if devices == 2:
        places = np.arange(granule, length, granule)
        if len(places) > _MOST_CANDIDATES:
            wanted = np.linspace(places[0], places[-1], _MOST_CANDIDATES)
            places = np.unique(np.round(wanted / granule).astype(np.int64) * granule)
        inner = places[:, None] / length
    else:
        steps = next(
            (steps for steps in (10, 5, 4, 3, 2) if _count_splits(steps, devices) <= _MOST_SHARES), 1
        )
        splits = combinations(range(steps + devices - 1), devices - 1)
        inner = np.array([[(bar - index) / steps for index, bar in enumerate(bars)] for bars in splits])
        inner = inner[(np.diff(inner, axis=1, prepend=0, append=1) < 1).all(axis=1)]
    edges = np.zeros((len(inner), 1)), np.ones((len(inner), 1))
    return np.concatenate([edges[0], inner, edges[1]], axis=1)


def _count_splits(steps: int, devices: int) -> int:
    count = 1
    for index in range(1, devices):
        count = count * (steps + index) // index
    return count


def _cut(shares: Floats, length: int, granule: int) -> Ints:
    """Return [candidate, device + 1] boundaries of an axis at the granules next to some shares of it."""
    found = np.round(shares * (length / granule)).astype(np.int64) * granule
    found = np.minimum(found, length)
    found[:, -1] = length
    return found


def _join(one: Reading, other: Reading) -> Reading:
    """Return what both need together."""
    if one.axis != other.axis:
        return Reading(
            axis=WHOLE,
            low=np.minimum(np.where(one.high > one.low, 0, FAR), np.where(other.high > other.low, 0, FAR)),
            high=np.maximum(np.where(one.high > one.low, 1, 0), np.where(other.high > other.low, 1, 0)),
        )
    lows = [np.where(reading.high > reading.low, reading.low, FAR) for reading in (one, other)]
    return Reading(axis=one.axis, low=np.minimum(*lows), high=np.maximum(one.high, other.high))


def _join_groups(groups: Sequence[set[str]], node: Node, graph: Graph) -> list[set[str]]:
    """Return which nodes of a stretch hang together, with one more at its beginning."""
    readers = [reader.name for reader in graph.consumers[node.output]]
    joined, rest = {node.name}, []
    for group in groups:
        if group.isdisjoint(readers):
            rest.append(group)
        else:
            joined |= group
    return [joined, *rest]


def _find_last_reads(graph: Graph, place: Mapping[str, int]) -> dict[str, int]:
    """Return the position of the last reader of each tensor; outputs of the graph are read behind the end."""
    found = {
        tensor: max((place[reader.name] for reader in readers), default=-1)
        for tensor, readers in graph.consumers.items()
    }
    return found | dict.fromkeys(graph.outputs, FAR)

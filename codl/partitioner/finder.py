"""All chains of a network, for all places to cut them at: followed backwards from every node, with halos.

The stretches that end at different nodes are followed side by side, one node further back at a time, so that
their candidates are priced together.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, reduce

import numpy as np

from codl.ir.graph import Graph, Node
from codl.partitioner.chains import ChainBatch, Reading, make_single
from codl.partitioner.dominance import Ways
from codl.partitioner.extras import Extras
from codl.partitioner.lookup import SliceLookup
from codl.partitioner.order import Unit
from codl.partitioner.stretches import Entry, Member, Stretch, keep, list_starts
from codl.plan.sharing import Arrangement
from codl.simulator.arrays import Floats, Ints
from codl.simulator.contention import Contention
from codl.simulator.cut_grid import FAR, WHOLE, cut_axis, list_intervals, list_shares
from codl.simulator.input_needs import Need
from codl.simulator.slices import SliceTables

_EATEN = 1.05
"""A stretch whose halos make it take so many times as long as one device alone is not followed further."""


class ChainFinder:
    """Finds what chains cost, but for what their heads have to be sent.

    Args:
        tables: What slices take.
        order: Where to seek chains: consecutive units.
        arrangement: How the devices share memory.
        most: Longest chain, in nodes.
    """

    def __init__(
        self, tables: SliceTables, order: Sequence[Unit], arrangement: Arrangement, *, most: int
    ) -> None:
        self._tables, self._order, self._most = tables, tuple(order), most
        self._graph = tables.graph
        self._place = {node.name: index for index, unit in enumerate(order) for node in unit.nodes}
        self._last_read = _find_last_reads(self._graph, self._place)
        self._slowdowns = Contention(tables.predictors)
        self._pairs, self._extras = tables.fused, Extras(tables, self._place, arrangement)
        self._count = len(tables.predictors)

    def find_all(
        self, axes: Sequence[int] | None = None, *, ways: Ways | None = None
    ) -> dict[int, list[ChainBatch]]:
        """Return by position of the head all chains: by tail, by axis, and of the tail the shortest first.

        Args:
            axes: Those that may be cut; None for all.
            ways: Where to note what takes how long; chains that take longer than other ways are left out.
        """
        stretches = list(self._begin(axes))
        ranks = {id(stretch): rank for rank, stretch in enumerate(stretches)}
        found: list[tuple[int, ChainBatch]] = []
        shares = {stretch.ends: list_shares(*stretch.ends, self._count)[:, 1] for stretch in stretches}
        sums = np.zeros((sum(one.count for one in stretches), self._count, 2))
        for back in range(self._most):
            entries = [self._enter(stretch, stretch.last - back) for stretch in stretches]
            stretches, sums = keep(stretches, sums, [entry is not None for entry in entries])
            if not stretches:
                break
            sums = self._extend(sums, [entry for entry in entries if entry is not None])
            busy = self._slowdowns.apply(sums)
            span = reduce(np.maximum, busy.T)
            starts = list_starts(stretches)
            least = np.minimum.reduceat(span, starts).tolist()
            is_kept = [us <= _EATEN * min(one.alone_us) for us, one in zip(least, stretches, strict=True)]
            if ways is not None:
                is_near = _compare(stretches, least, ways, length=back + 1)
                is_kept = [one and other for one, other in zip(is_kept, is_near, strict=True)]
            for place, (start, stretch) in enumerate(zip(starts, stretches, strict=True)):
                if is_kept[place] and len(stretch.groups) == 1:
                    part = slice(start, start + stretch.count)
                    batch = ChainBatch(
                        first=stretch.last - back,
                        last=stretch.last,
                        axis=stretch.axis,
                        bounds=stretch.bounds.copy(),
                        reads=stretch.needs.copy(),
                        busy_us=busy[part],
                        span_us=span[part],
                        ratios=shares[stretch.ends],
                        least_us=least[place],
                    )
                    found.append((ranks[id(stretch)], batch))
            stretches, sums = keep(stretches, sums, is_kept)
        chains: dict[int, list[ChainBatch]] = {}
        for _, batch in sorted(found, key=lambda one: one[0]):
            chains.setdefault(batch.first, []).append(batch)
        return chains

    def make_single(self, position: int) -> ChainBatch:
        """Return the candidates that run one operator whole: one for each device."""
        node = self._order[position].nodes[0]
        return make_single(self._graph, (node,), position, self.find_single_us(position))

    def list_pairs(self) -> dict[int, list[ChainBatch]]:
        """Return by position of the first one what devices take that compute several operators at once."""
        found: dict[int, list[ChainBatch]] = {}
        for group in self._pairs.groups:
            place = self._place[group.nodes[0].name]
            if any(self._place[node.name] != place + index for index, node in enumerate(group.nodes)):
                continue
            wholes = [
                whole if node is group.main else self._pairs.ride(whole, group.devices)
                for node in group.nodes
                for whole in [self._tables.find(node).whole]
            ]
            alone_us = self._pairs.find_whole_us(group, np.sum(wholes, axis=0)[:, 0])
            found.setdefault(place, []).append(make_single(self._graph, group.nodes, place, alone_us))
        return found

    def find_single_us(self, position: int) -> Floats:
        """Return [device] what the whole operator at a position takes."""
        return self._tables.find(self._order[position].nodes[0]).whole[:, 0]

    def list_spans(self) -> list[tuple[str, int, int]]:
        """Return the tensors of devices, in order, with the positions of their operator and last reader."""
        return [
            (node.output, place, self._last_read.get(node.output, -1))
            for place, unit in enumerate(self._order)
            if not unit.is_host
            for node in unit.nodes
        ]

    @cached_property
    def _members(self) -> list[Member | None]:
        """By position, nodes with kernels; None for the host's."""
        return [None if unit.is_host else self._describe(unit.nodes[0]) for unit in self._order]

    @cached_property
    def _lookup(self) -> SliceLookup:
        tables = (member.found for member in self._members if member is not None)
        return SliceLookup({id(table): table for found in tables for table in found.axes.values()}.values())

    def _describe(self, node: Node) -> Member:
        found = self._tables.find(node)
        return Member(
            node=node,
            found=found,
            alone_us=found.whole[:, 0].tolist(),
            inputs=[
                (name, place) for place, name in enumerate(node.inputs) if name not in self._graph.constants
            ],
            readers=frozenset(reader.name for reader in self._graph.consumers[node.output]),
            last_read=self._last_read.get(node.output, -1),
            is_changed=self._extras.changes(node),
        )

    def _begin(self, axes: Sequence[int] | None) -> Iterable[Stretch]:
        """Yield stretches of no node yet: for every tail and axis, in their order."""
        for last, member in enumerate(self._members):
            for axis, table in {} if member is None else member.found.axes.items():
                if axes is None or axis in axes:
                    ends = table.length, table.granule
                    count = len(list_shares(*ends, self._count))
                    if count:
                        yield Stretch(last, axis, ends, count, alone_us=[0.0] * self._count)

    def _enter(self, stretch: Stretch, first: int) -> Entry | None:
        """Return the node before a stretch, or None where it cannot become part of it."""
        member = self._members[first] if first >= 0 else None
        table = None if member is None else member.found.axes.get(stretch.axis)
        if member is None or table is None:
            return None
        name = member.node.output
        need = stretch.needs.pop(name, None)
        if need is not None and need.axis not in (stretch.axis, WHOLE):
            return None
        extra = []
        is_published = member.last_read > stretch.last
        if is_published:
            cut = stretch.ends, self._count, table.length, table.granule
            stretch.bounds[name] = cut_axis(*cut)
            mine = Reading(stretch.axis, *list_intervals(*cut))
            if need is None:
                need = mine
            else:
                need = need.join(mine)
                extra.append(self._extras.publish(member.found.size_bytes, table.length, need, mine))
        if need is None:
            return None
        low, high = need.low, need.high
        if need.axis == WHOLE:
            low, high = np.zeros_like(low), np.where(high > low, table.length, 0)
        if not is_published and name in stretch.copies:
            extra.append(stretch.copies.pop(name))
        return Entry(stretch, member, table, is_published, low, high, extra)

    def _extend(self, sums: Floats, entries: Sequence[Entry]) -> Floats:
        """Return what stretches take with one more node each; notes what they read now.

        Args:
            sums: [candidate, device, 2] What they took before, one after the other.
            entries: Their nodes.
        """
        low, high = (np.concatenate(edges) for edges in zip(*((e.low, e.high) for e in entries), strict=True))
        counts = [entry.stretch.count for entry in entries]
        taken = self._lookup.find_latencies([entry.table for entry in entries], counts, low, high)
        start = 0
        for entry in entries:
            part = slice(start, start + entry.stretch.count)
            start = part.stop
            for extra in entry.extra:
                sums[part] += extra
            if entry.member.is_changed:
                taken[part] = self._extras.change(entry, taken[part])
            entry.stretch.grow(entry.member)
        self._read(entries, low, high)
        return sums + taken

    def _read(self, entries: Sequence[Entry], low: Ints, high: Ints) -> None:
        """Add what slices of some nodes read to what their stretches need.

        Args:
            entries: The nodes.
            low: Where their slices begin, [candidate, device], one node after the other.
            high: Where they end.
        """
        asked: list[tuple[Stretch, str]] = []
        needs: list[Need] = []
        parts: list[slice] = []
        is_empty, start = high <= low, 0
        whole_low, whole_high = np.where(is_empty, FAR, 0), np.where(is_empty, 0, 1)
        for entry in entries:
            part = slice(start, start + entry.stretch.count)
            start = part.stop
            for name, place in entry.member.inputs:
                need = entry.table.needs[place]
                if need.low is not None:
                    asked.append((entry.stretch, name))
                    needs.append(need)
                    parts.append(part)
                else:
                    entry.stretch.note(name, Reading(WHOLE, whole_low[part], whole_high[part]))
        if not asked:
            return
        begin, end = self._lookup.find_reads(
            needs,
            [stretch.count for stretch, _ in asked],
            np.concatenate([low[part] for part in parts]),
            np.concatenate([high[part] for part in parts]),
        )
        start = 0
        for stretch, name in asked:
            stop = start + stretch.count
            stretch.note(name, Reading(stretch.axis, begin[start:stop], end[start:stop]))
            start = stop


def _compare(stretches: Sequence[Stretch], least: Sequence[float], ways: Ways, *, length: int) -> list[bool]:
    """Return which stretches of so many nodes take no longer than other ways through them."""
    ways.grow(length)
    asked = [
        (stretch.last - length + 1, stretch.last, us, ways.find_sharing_us((*stretch.needs, *stretch.bounds)))
        for stretch, us in zip(stretches, least, strict=True)
    ]
    for stretch, (first, last, us, sharing_us) in zip(stretches, asked, strict=True):
        if len(stretch.groups) == 1:
            ways.note(first, last, least_us=us, sharing_us=sharing_us)
    return [us <= ways.find_limit_us(first, last) for first, last, us, _ in asked]


def _find_last_reads(graph: Graph, place: Mapping[str, int]) -> dict[str, int]:
    """Return the position of the last reader of each tensor; outputs of the graph are read behind the end."""
    found = {
        tensor: max((place[reader.name] for reader in readers), default=-1)
        for tensor, readers in graph.consumers.items()
    }
    return found | dict.fromkeys(graph.outputs, FAR)

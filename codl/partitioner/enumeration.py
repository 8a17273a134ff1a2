"""Enumeration of chains: from every tail backwards, cut along every axis, halos included.

All chains of one length are made longer together, so numpy prices their candidates in few calls.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, reduce

import numpy as np

from codl.ir.graph import Graph, Node
from codl.partitioner.chains import ChainBatch, Reading, make_single
from codl.partitioner.growing import GrowingChain, NextOperator, Operator, keep
from codl.partitioner.lookup import SliceLookup
from codl.partitioner.order import Unit
from codl.partitioner.pruning import Pruning
from codl.partitioner.special_costs import SpecialCosts
from codl.plan.sharing import Arrangement
from codl.simulator.arrays import Floats, Ints, list_parts
from codl.simulator.contention import Contention
from codl.simulator.cut_grid import FAR, WHOLE, cut_axis, list_intervals, list_shares
from codl.simulator.input_needs import Need
from codl.simulator.slices import SliceTables

_EATEN = 1.05
"""Chains that take longer than this factor of the fastest device's time are not made longer."""


class ChainEnumeration:
    """Enumerates chains, with the latencies of their slices; transfers are not included.

    Args:
        tables: Of the network.
        order: The units of the network; chains are consecutive ones.
        arrangement: How the devices share memory.
        most: Longest chain, in nodes.
    """

    def __init__(
        self, tables: SliceTables, order: Sequence[Unit], arrangement: Arrangement, *, most: int
    ) -> None:
        self._tables, self.order, self.most = tables, tuple(order), most
        self.graph = tables.graph
        self._place = {node.name: index for index, unit in enumerate(order) for node in unit.nodes}
        self._last_read = _find_last_reads(self.graph, self._place)
        self._contention = Contention(tables.predictors)
        self._fused, self._special = tables.fused, SpecialCosts(tables, self._place, arrangement)
        self._count = len(tables.predictors)

    def find_all(
        self, axes: Sequence[int] | None = None, *, pruning: Pruning | None = None
    ) -> dict[int, list[ChainBatch]]:
        """Return by position of the head all chains: by tail, then by axis, then by length.

        Args:
            axes: Those that may be cut; None for all.
            pruning: Drops chains that are slower than other ways; none by default.
        """
        chains = list(self._begin(axes))
        ranks = {id(chain): rank for rank, chain in enumerate(chains)}
        found: list[tuple[int, ChainBatch]] = []
        shares = {chain.ends: list_shares(*chain.ends, self._count)[:, 1] for chain in chains}
        sums = np.zeros((sum(one.count for one in chains), self._count, 2))
        for back in range(self.most):
            entries = [self._enter(chain, chain.last - back) for chain in chains]
            chains, sums = keep(chains, sums, [entry is not None for entry in entries])
            if not chains:
                break
            sums = self._extend(sums, [entry for entry in entries if entry is not None])
            busy = self._contention.apply(sums)
            span = reduce(np.maximum, busy.T)
            parts = list_parts(chain.count for chain in chains)
            least = np.minimum.reduceat(span, [part.start for part in parts]).tolist()
            is_kept = [us <= _EATEN * min(one.alone_us) for us, one in zip(least, chains, strict=True)]
            if pruning is not None:
                is_near = _prune(chains, least, pruning, back + 1)
                is_kept = [one and other for one, other in zip(is_kept, is_near, strict=True)]
            for place, (part, chain) in enumerate(zip(parts, chains, strict=True)):
                if is_kept[place] and len(chain.groups) == 1:
                    batch = ChainBatch(
                        first=chain.last - back,
                        last=chain.last,
                        axis=chain.axis,
                        bounds=chain.bounds.copy(),
                        reads=chain.needs.copy(),
                        busy_us=busy[part],
                        span_us=span[part],
                        ratios=shares[chain.ends],
                        least_us=least[place],
                    )
                    found.append((ranks[id(chain)], batch))
            chains, sums = keep(chains, sums, is_kept)
        by_head: dict[int, list[ChainBatch]] = {}
        for _, batch in sorted(found, key=lambda one: one[0]):
            by_head.setdefault(batch.first, []).append(batch)
        return by_head

    def make_single(self, position: int) -> ChainBatch:
        """Return the candidates that run one operator whole: one for each device."""
        node = self.order[position].nodes[0]
        return make_single(self.graph, (node,), position, self.find_single_us(position))

    def list_fused(self) -> dict[int, list[ChainBatch]]:
        """Return by position of its first operator each fused group as candidates: one for each device."""
        found: dict[int, list[ChainBatch]] = {}
        for group in self._fused.groups:
            place = self._place[group.nodes[0].name]
            if any(self._place[node.name] != place + index for index, node in enumerate(group.nodes)):
                continue
            wholes = [
                whole if node is group.main else self._fused.ride(whole, group.devices)
                for node in group.nodes
                for whole in [self._tables.find(node).whole]
            ]
            alone_us = self._fused.find_whole_us(group, np.sum(wholes, axis=0)[:, 0])
            found.setdefault(place, []).append(make_single(self.graph, group.nodes, place, alone_us))
        return found

    def find_single_us(self, position: int) -> Floats:
        """Return [device] the latency in us of the whole operator at a position."""
        return self._tables.find(self.order[position].nodes[0]).whole[:, 0]

    def list_tensors(self) -> list[tuple[str, int, int]]:
        """Return the tensors of devices, in order, with the positions of their operator and last reader."""
        return [
            (node.output, place, self._last_read.get(node.output, -1))
            for place, unit in enumerate(self.order)
            if not unit.is_host
            for node in unit.nodes
        ]

    @cached_property
    def _operators(self) -> list[Operator | None]:
        """By position, nodes with kernels; None for the host's."""
        return [None if unit.is_host else self._describe(unit.nodes[0]) for unit in self.order]

    @cached_property
    def _lookup(self) -> SliceLookup:
        tables = (operator.found for operator in self._operators if operator is not None)
        return SliceLookup({id(table): table for found in tables for table in found.axes.values()}.values())

    def _describe(self, node: Node) -> Operator:
        found = self._tables.find(node)
        return Operator(
            node=node,
            found=found,
            alone_us=found.whole[:, 0].tolist(),
            inputs=[
                (name, place) for place, name in enumerate(node.inputs) if name not in self.graph.constants
            ],
            readers=frozenset(reader.name for reader in self.graph.consumers[node.output]),
            last_read=self._last_read.get(node.output, -1),
            is_changed=self._special.changes(node),
        )

    def _begin(self, axes: Sequence[int] | None) -> Iterable[GrowingChain]:
        """Yield chains of no node yet: for every tail and axis, in their order."""
        for last, operator in enumerate(self._operators):
            for axis, table in {} if operator is None else operator.found.axes.items():
                if axes is None or axis in axes:
                    ends = table.grid.length, table.grid.granule
                    count = len(list_shares(*ends, self._count))
                    if count:
                        yield GrowingChain(last, axis, ends, count, alone_us=[0.0] * self._count)

    def _enter(self, chain: GrowingChain, first: int) -> NextOperator | None:
        """Return what becomes of the operator before a chain; None where it cannot become part of it."""
        operator = self._operators[first] if first >= 0 else None
        table = None if operator is None else operator.found.axes.get(chain.axis)
        if operator is None or table is None:
            return None
        name = operator.node.output
        need = chain.needs.pop(name, None)
        if need is not None and need.axis not in (chain.axis, WHOLE):
            return None
        extra = []
        is_published = operator.last_read > chain.last
        if is_published:
            cut = chain.ends, self._count, table.grid.length, table.grid.granule
            chain.bounds[name] = cut_axis(*cut)
            mine = Reading(chain.axis, *list_intervals(*cut))
            if need is None:
                need = mine
            else:
                need = need.join(mine)
                extra.append(self._special.publish(operator.found.size_bytes, table.grid.length, need, mine))
        if need is None:
            return None
        low, high = need.low, need.high
        if need.axis == WHOLE:
            low, high = np.zeros_like(low), np.where(high > low, table.grid.length, 0)
        if not is_published and name in chain.copies:
            extra.append(chain.copies.pop(name))
        return NextOperator(chain, operator, table, is_published, low, high, extra)

    def _extend(self, sums: Floats, entries: Sequence[NextOperator]) -> Floats:
        """Return [candidate, device, 2] latencies of chains with one more operator; notes what they read.

        Args:
            sums: [candidate, device, 2] Latencies before, one chain after the other.
            entries: The operators.
        """
        low, high = (np.concatenate(edges) for edges in zip(*((e.low, e.high) for e in entries), strict=True))
        counts = [entry.chain.count for entry in entries]
        taken = self._lookup.find_latencies([entry.table for entry in entries], counts, low, high)
        for entry, part in zip(entries, list_parts(counts), strict=True):
            for extra in entry.extra:
                sums[part] += extra
            if entry.operator.is_changed:
                taken[part] = self._special.change(entry, taken[part])
            entry.chain.grow(entry.operator)
        self._read(entries, low, high)
        return sums + taken

    def _read(self, entries: Sequence[NextOperator], low: Ints, high: Ints) -> None:
        """Note what slices of some operators read as needs of their chains.

        Args:
            entries: The nodes.
            low: Where their slices begin, [candidate, device], one node after the other.
            high: Where they end.
        """
        asked: list[tuple[GrowingChain, str]] = []
        needs: list[Need] = []
        parts: list[slice] = []
        is_empty = high <= low
        whole_low, whole_high = np.where(is_empty, FAR, 0), np.where(is_empty, 0, 1)
        for entry, part in zip(entries, list_parts(entry.chain.count for entry in entries), strict=True):
            for name, place in entry.operator.inputs:
                need = entry.table.needs[place]
                if need.low is not None:
                    asked.append((entry.chain, name))
                    needs.append(need)
                    parts.append(part)
                else:
                    entry.chain.note(name, Reading(WHOLE, whole_low[part], whole_high[part]))
        if not asked:
            return
        counts = [chain.count for chain, _ in asked]
        begin, end = self._lookup.find_reads(
            needs,
            counts,
            np.concatenate([low[part] for part in parts]),
            np.concatenate([high[part] for part in parts]),
        )
        for (chain, name), part in zip(asked, list_parts(counts), strict=True):
            chain.note(name, Reading(chain.axis, begin[part], end[part]))


def _prune(
    chains: Sequence[GrowingChain], least_us: Sequence[float], pruning: Pruning, length: int
) -> list[bool]:
    """Return which chains of ``length`` nodes are not pruned."""
    pruning.lengthen(length)
    firsts = [chain.last - length + 1 for chain in chains]
    for chain, first, us in zip(chains, firsts, least_us, strict=True):
        if len(chain.groups) == 1:
            pruning.note(first, chain.last, us, (*chain.needs, *chain.bounds))
    return [
        pruning.may_lengthen(first, chain.last, us)
        for chain, first, us in zip(chains, firsts, least_us, strict=True)
    ]


def _find_last_reads(graph: Graph, place: Mapping[str, int]) -> dict[str, int]:
    """Return the position of the last reader of each tensor; outputs of the graph are read behind the end."""
    found = {
        tensor: max((place[reader.name] for reader in readers), default=-1)
        for tensor, readers in graph.consumers.items()
    }
    return found | dict.fromkeys(graph.outputs, FAR)

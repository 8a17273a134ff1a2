"""What every slice of every operator takes, and what it reads, for all places to cut it at: asked once.

A slice between two inner positions of an axis takes what a slice from the start and a slice to the end take
together, less the whole: exact where times are sums over positions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from codl.catalog.spec import Selection
from codl.ir.graph import FLOAT_BYTES, Graph, Node, Shape
from codl.ir.ops import Concat, HostCall
from codl.ir.regions import Region
from codl.latency.predictor import Predictor
from codl.latency.questions import answer_questions
from codl.partitioner.arrays import Floats, Ints
from codl.partitioner.needs import Need, find_needs
from codl.partitioner.outlines import Outline, make_outlines
from codl.partitioner.pairs import Pairs
from codl.partitioner.slowdowns import read_slowdowns
from codl.partitioner.sorts import Sorts
from codl.partitioner.spreads import Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisTable:
    """Slices of an operator along one axis."""

    length: int
    granule: int
    """Positions that kernels compute at once: cuts elsewhere cost as much as the next one here."""
    slices: Floats
    """[device, 2 * length + 3, 2] Time and memory's part of it, us: `head`, `tail`, then nothing. Plans are
    sought by these."""
    predicted: Floats
    """[device, 2 * place, 2] What predictors say at some places: from the start, then to the end."""
    places: Mapping[int, int]
    """By position, where it stands among those."""
    needs: tuple[Need, ...]
    """By input, constants included."""

    @property
    def head(self) -> Floats:
        """[device, length + 1, 2] Of a slice from the start to here."""
        return self.slices[:, : self.length + 1]

    @property
    def tail(self) -> Floats:
        """[device, length + 1, 2] Of a slice from here to the end."""
        return self.slices[:, self.length + 1 : -1]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTable:
    """All that planners ask of an operator."""

    whole: Floats
    """[device, 2] Time and memory's part of it, us, of the whole operator."""
    apart: Floats
    """[device, 2] As `whole`, with no input inside the output as a concatenation's may be."""
    axes: Mapping[int, AxisTable]
    """Those along which a cut saves work."""
    reads: tuple[Region, ...]
    """By input, what the whole operator reads of it."""
    size_bytes: int
    """Of the output."""
    uncertainty: float
    """Typical relative error of the predictions, the largest of all devices."""
    selections: tuple[Selection, ...]
    """By device, what computes it."""


class Tables:
    """The tables of a network's nodes, made together when one is first asked for; equal operators share one.

    Args:
        graph: The network.
        predictors: One for each device.
    """

    def __init__(self, graph: Graph, predictors: Sequence[Predictor]) -> None:
        self.graph, self.predictors = graph, tuple(predictors)
        self.sorts, self.pairs = Sorts(graph), Pairs(graph, predictors)

    def find(self, node: Node) -> NodeTable:
        """Return the table of a node with kernels.

        Raises:
            ProfileError: A device has no predictor for some node.
        """
        return self._by_name[node.name]

    def find_reads(self, node: Node, region: Region) -> tuple[Region, ...] | None:
        """Return what a region of a node with kernels reads of each input; None where no table knows that.

        Of constants it may be less than what is said.
        """
        table = self.find(node)
        cut = _list_cut(region, self.graph.shape(node.output))
        if not cut:
            return table.reads
        known = table.axes.get(cut[0])
        if len(cut) > 1 or known is None or not all(need.is_exact for need in known.needs):
            return None
        axis, low, high = cut[0], region.begin[cut[0]], region.end[cut[0]]
        return tuple(
            [
                whole
                if need.low is None or need.high is None
                else whole.cut(axis, int(need.low[low]), int(need.high[high]))
                for whole, need in zip(table.reads, known.needs, strict=True)
            ]
        )

    def look_up(self, node: Node, device: int, region: Region) -> tuple[float, float] | None:
        """Return time and memory's part of it, us, of a slice that a table has been asked for; else None.

        No input lies inside the output.
        """
        table = self.find(node)
        cut = _list_cut(region, self.graph.shape(node.output))
        if not cut:
            us, memory_us = table.apart[device].tolist()
            return us, memory_us
        known = table.axes.get(cut[0])
        if len(cut) > 1 or known is None:
            return None
        low, high = region.begin[cut[0]], region.end[cut[0]]
        place = known.places.get(low or high)
        if place is None or (low and high < known.length):
            return None
        us, memory_us = known.predicted[device, place + (len(known.places) if low else 0)].tolist()
        return us, memory_us

    def asks_memory(self, node: Node) -> bool:
        """Return whether it matters how much of what a node takes memory limits.

        It does where devices disturb each other, and for nodes that may ride along with others.
        """
        return self._is_disturbed or self.sorts.find(node) in self._riders

    @cached_property
    def _is_disturbed(self) -> bool:
        return bool((read_slowdowns(self.predictors) != 1).any())

    @cached_property
    def _riders(self) -> frozenset[int]:
        """The sorts of nodes that may ride along."""
        names = self.pairs.by_rider
        return frozenset([self.sorts.find(self.graph.nodes_by_name[name]) for name in names])

    @cached_property
    def bandwidths(self) -> Floats:
        """[device] Bytes a us that a device moves."""
        return np.array([max(one.profile.bandwidth_bytes_per_us, 1e-9) for one in self.predictors])

    @cached_property
    def _by_name(self) -> Mapping[str, NodeTable]:
        nodes = [node for node in self.graph.nodes if not isinstance(node.op, HostCall)]
        sorts = [self.sorts.find(node) for node in nodes]
        distinct = dict(zip(reversed(sorts), reversed(nodes), strict=True))
        tables = dict(zip(distinct, self._make(list(distinct.values())), strict=True))
        return {node.name: tables[sort] for node, sort in zip(nodes, sorts, strict=True)}

    def _make(self, nodes: Sequence[Node]) -> list[NodeTable]:
        """Return the tables of some nodes."""
        if not nodes:
            return []
        outlines = make_outlines(nodes, self.graph, self.predictors, self.asks_memory)
        found = answer_questions([outline.question for outline in outlines], self.graph, self.predictors)
        values = np.stack([found.us, found.memory_us], axis=2)
        values[:, np.concatenate([outline.is_empty for outline in outlines])] = 0.0
        needs = find_needs(outlines, self.graph)
        axes = _make_axes(outlines, values, [each.axes for each in needs])
        apart = values[:, [outline.start for outline in outlines]]
        whole = apart.copy()
        # Whole, a concatenation's inputs lie inside its output as a rule: nothing is copied.
        whole[:, [isinstance(node.op, Concat) for node in nodes]] = 0.0
        return [
            NodeTable(
                whole=whole[:, place],
                apart=apart[:, place],
                axes=axes[place],
                reads=needs[place].reads,
                size_bytes=prod(outline.shape) * FLOAT_BYTES,
                uncertainty=uncertainty,
                selections=outline.question.selections,
            )
            for place, (outline, uncertainty) in enumerate(
                zip(outlines, found.uncertainties.tolist(), strict=True)
            )
        ]


def _list_cut(region: Region, shape: Shape) -> list[int]:
    """Return the axes along which a region of a tensor is not all of it."""
    return [axis for axis, length in enumerate(shape) if region.begin[axis] or region.end[axis] != length]


def _make_axes(
    outlines: Sequence[Outline], values: Floats, needs: Sequence[Mapping[int, tuple[Need, ...]]]
) -> list[dict[int, AxisTable]]:
    """Return the tables of all axes that have needs.

    Args:
        outlines: Of the nodes.
        values: [device, box, 2] What slices take that are looked at.
        needs: By node and axis, what slices read of each input.
    """
    wanted = [
        (place, ruler, outline.start + ruler.start)
        for place, outline in enumerate(outlines)
        for ruler in outline.rulers
        if ruler.axis in needs[place]
    ]
    found: list[dict[int, AxisTable]] = [{} for _ in outlines]
    if not wanted:
        return found
    spreads = [ruler.spread for _, ruler, _ in wanted]
    stops = np.cumsum([len(spread.part) for spread in spreads])
    starts = np.repeat([start for *_, start in wanted], np.diff(stops, prepend=0))
    before, after = (
        np.concatenate(places) + starts
        for places in ([spread.before for spread in spreads], [spread.after for spread in spreads])
    )
    part = np.concatenate([spread.part for spread in spreads])
    slices = values.take(before, axis=1)
    (between,) = np.nonzero(part)
    share = part[between, None]
    low, high = values.take(before[between], axis=1), values.take(after[between], axis=1)
    slices[:, between] = low * (1 - share) + high * share
    _descend(
        slices, values, [(spread, start) for spread, (*_, start) in zip(spreads, wanted, strict=True)], stops
    )
    slices = np.maximum(slices, 0.0, out=slices)
    slices[:, stops - 1] = 0.0
    for (place, ruler, start), stop in zip(wanted, stops.tolist(), strict=True):
        found[place][ruler.axis] = AxisTable(
            length=ruler.length,
            granule=ruler.granule,
            slices=slices[:, stop - 2 * ruler.length - 3 : stop],
            predicted=values[:, start : start + 2 * len(ruler.positions)],
            places=ruler.places,
            needs=needs[place][ruler.axis],
        )
    return found


def _descend(slices: Floats, values: Floats, spreads: Sequence[tuple[Spread, int]], stops: Ints) -> None:
    """Take from slices that end within granules what they are shorter than at the next edge.

    Args:
        slices: [device, place, 2] Of all axes, one after the other, as if they ended at the edge.
        values: [device, box, 2] What slices take that are looked at.
        spreads: Of the axes, with the boxes before the first one of each.
        stops: Where the places of each axis end.
    """
    split = [
        (spread, start, stop - len(spread.part))
        for (spread, start), stop in zip(spreads, stops.tolist(), strict=True)
        if len(spread.inside)
    ]
    if not split:
        return
    places = np.concatenate([spread.inside + first for spread, _, first in split])
    pairs = np.concatenate([spread.pairs + start for spread, start, _ in split])
    distances = np.concatenate([spread.distances for spread, *_ in split])
    steps = values.take(pairs[:, 0], axis=1) - values.take(pairs[:, 1], axis=1)
    slices[:, places] -= steps * distances[:, None]

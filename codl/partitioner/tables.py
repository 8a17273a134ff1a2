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
from codl.partitioner.arrays import Floats
from codl.partitioner.needs import Need, find_needs
from codl.partitioner.outlines import make_outlines
from codl.partitioner.pairs import Pairs
from codl.partitioner.positions import Ruler
from codl.partitioner.sorts import Sorts
from codl.partitioner.spreads import Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisTable:
    """Slices of an operator along one axis."""

    ruler: Ruler
    """The places of the axis that are looked at."""
    length: int
    granule: int
    """Positions that kernels compute at once: cuts elsewhere cost as much as the next one here."""
    predicted: Floats
    """[device, box, 2] Time and memory's part of it, us, that predictors say of slices from the start to some
    places, then from there to the end, then of those that tell how times rise within a tile."""
    spread: Spread
    """How those become times of all slices, by which plans are sought."""
    needs: tuple[Need, ...]
    """By input, constants included."""

    @property
    def head(self) -> Floats:
        """[device, length + 1, 2] Of a slice from the start to here."""
        return self.spread.find_between(self.predicted, np.arange(self.length + 1))

    @property
    def tail(self) -> Floats:
        """[device, length + 1, 2] Of a slice from here to the end."""
        return self.spread.find_between(self.predicted, np.arange(self.length + 1) + self.length + 1)


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
        place = known.ruler.places.get(low or high)
        if place is None or (low and high < known.length):
            return None
        us, memory_us = known.predicted[device, place + (len(known.ruler.positions) if low else 0)].tolist()
        return us, memory_us

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
        outlines = make_outlines(nodes, self.graph, self.predictors)
        found = answer_questions([outline.question for outline in outlines], self.graph, self.predictors)
        values = np.stack([found.us, found.memory_us], axis=2)
        values[:, np.concatenate([outline.is_empty for outline in outlines])] = 0.0
        needs = find_needs(outlines, self.graph)
        apart = values[:, [outline.start for outline in outlines]]
        whole = apart.copy()
        # Whole, a concatenation's inputs lie inside its output as a rule: nothing is copied.
        whole[:, [isinstance(node.op, Concat) for node in nodes]] = 0.0
        return [
            NodeTable(
                whole=whole[:, place],
                apart=apart[:, place],
                axes={
                    ruler.axis: _make_axis(ruler, values, outline.start, needs[place].axes[ruler.axis])
                    for ruler in outline.rulers
                    if ruler.axis in needs[place].axes
                },
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


def _make_axis(ruler: Ruler, values: Floats, start: int, needs: tuple[Need, ...]) -> AxisTable:
    """Return the table of an axis.

    Args:
        ruler: Of the axis.
        values: [device, box, 2] What the boxes of all nodes take.
        start: Boxes before the node's.
        needs: By input, what slices read.
    """
    first = start + ruler.heads.start
    return AxisTable(
        ruler=ruler,
        length=ruler.length,
        granule=ruler.granule,
        predicted=values[:, first : first + ruler.count],
        spread=ruler.spread,
        needs=needs,
    )

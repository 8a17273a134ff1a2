"""What every slice of every operator takes, and what it reads, for all places to cut it at: asked once.

A slice between two inner positions of an axis takes what a slice from the start and a slice to the end take
together, less the whole: exact where times are sums over positions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from codl.ir.boxes import Boxes
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.ops import Concat
from codl.ir.regions import OutputBoxes, Region
from codl.latency.predictor import Predictor
from codl.partitioner.positions import Flags, Floats, Ints, Ruler, list_boxes, list_rulers
from codl.partitioner.sorts import Sorts


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What slices along one axis read of an input."""

    low: Ints | None
    """[length + 1] First position that a slice reads that begins here; None: slices read all of it."""
    high: Ints | None
    """[length + 1] One past the last position that a slice reads that ends here."""


_WHOLE_NEED = Need(low=None, high=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisTable:
    """Slices of an operator along one axis."""

    length: int
    sampled: frozenset[int] | None
    """Positions that were predicted; None for all."""
    granule: int
    """Positions that kernels compute at once: cuts elsewhere cost as much as the next one here."""
    slices: Floats
    """[device, 2 * length + 3, 2] Time and memory's part of it, us: `head`, `tail`, then nothing."""
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
    axes: Mapping[int, AxisTable]
    """Those along which a cut saves work."""
    reads: tuple[Region, ...]
    """By input, what the whole operator reads of it."""
    size_bytes: int
    """Of the output."""
    uncertainty: float
    """Typical relative error of the predictions, the largest of all devices."""


class Tables:
    """The tables of a network's nodes; equal operators share one.

    Args:
        graph: The network.
        predictors: One for each device.
    """

    def __init__(self, graph: Graph, predictors: Sequence[Predictor]) -> None:
        self.graph, self.predictors = graph, tuple(predictors)
        self.sorts = Sorts(graph)
        self._known: dict[int, NodeTable] = {}
        self._by_name: dict[str, NodeTable] = {}

    def find(self, node: Node) -> NodeTable:
        """Return the table of a node with kernels.

        Raises:
            ProfileError: A device has no predictor for it.
        """
        table = self._by_name.get(node.name)
        if table is None:
            sort = self.sorts.find(node)
            table = self._known.get(sort)
            if table is None:
                table = self._known[sort] = self._make(node)
            self._by_name[node.name] = table
        return table

    def find_reads(self, node: Node) -> tuple[Region, ...]:
        """Return what a whole operator with kernels reads of each input."""
        return self.find(node).reads

    def look_up(self, node: Node, device: int, region: Region) -> tuple[float, float] | None:
        """Return time and memory's part of it, us, of a slice that a table has been asked for; else None."""
        table = self.find(node)
        if isinstance(node.op, Concat):  # tables leave out what depends on where things lie
            return None
        shape = self.graph.shape(node.output)
        cut = [
            axis for axis, length in enumerate(shape) if (region.begin[axis], region.end[axis]) != (0, length)
        ]
        if not cut:
            us, memory_us = table.whole[device].tolist()
            return us, memory_us
        known = table.axes.get(cut[0])
        if len(cut) > 1 or known is None:
            return None
        low, high = region.begin[cut[0]], region.end[cut[0]]
        if low and high < known.length:
            return None
        if known.sampled is not None and (low or high) not in known.sampled:
            return None
        us, memory_us = (known.tail[device, low] if low else known.head[device, high]).tolist()
        return us, memory_us

    @cached_property
    def bandwidths(self) -> Floats:
        """[device] Bytes a us that a device moves."""
        return np.array([max(one.profile.bandwidth_bytes_per_us, 1e-9) for one in self.predictors])

    def _make(self, node: Node) -> NodeTable:
        shape = self.graph.shape(node.output)
        selections = [predictor.choose(node, self.graph) for predictor in self.predictors]
        rulers = list_rulers(node, shape, [one.parameters for one in selections])
        boxes = list_boxes(shape, rulers)
        is_empty = boxes.is_empty
        # Slices of nothing are described as the whole: so all devices are asked about the same boxes.
        empty = is_empty[:, None]
        boxes = OutputBoxes.find(
            node,
            self.graph,
            Boxes(np.where(empty, 0, boxes.begin), np.where(empty, boxes.end[0], boxes.end)),
        )
        values, uncertainty = np.empty((len(self.predictors), boxes.count, 2)), 0.0
        for place, (predictor, selection) in enumerate(zip(self.predictors, selections, strict=True)):
            found = predictor.predict(node, self.graph, boxes, selection=selection)
            values[place, :, 0] = found.us
            values[place, :, 1] = found.us * found.memory_share
            uncertainty = max(uncertainty, found.uncertainty)
        values[:, is_empty] = 0.0
        # Whole, a concatenation's inputs lie inside its output as a rule: nothing is copied.
        whole = np.zeros_like(values[:, 0]) if isinstance(node.op, Concat) else values[:, 0]
        return NodeTable(
            whole=whole,
            axes=self._read_axes(node, rulers, values=values, needs=boxes.needs, is_empty=is_empty),
            reads=tuple(need.region(0) for need in boxes.needs),
            size_bytes=prod(shape) * FLOAT_BYTES,
            uncertainty=uncertainty,
        )

    def _read_axes(
        self,
        node: Node,
        rulers: Sequence[Ruler],
        *,
        values: Floats,
        needs: Sequence[Boxes],
        is_empty: Flags,
    ) -> dict[int, AxisTable]:
        """Return the tables of all axes but those where a cut saves no work."""
        rank, is_saving = len(self.graph.shape(node.output)), [False] * len(rulers)
        found: list[list[Need]] = [[] for _ in rulers]
        for name, need in zip(node.inputs, needs, strict=True):
            shape, is_constant = self.graph.shape(name), name in self.graph.constants
            nothing = is_empty | need.is_empty
            for place, varies in enumerate(_find_varying(need, shape, rulers)):
                ruler = rulers[place]
                is_saving[place] = is_saving[place] or any(varies)
                # What moves along other axes too is no interval: all of it is read.
                is_interval = len(shape) == rank and varies == [axis == ruler.axis for axis in range(rank)]
                if is_constant or not is_interval:
                    found[place].append(_WHOLE_NEED)
                else:
                    found[place].append(_read_need(need, nothing, ruler, shape[ruler.axis]))
        return {
            ruler.axis: _make_axis(ruler, values, tuple(found[place]))
            for place, ruler in enumerate(rulers)
            if is_saving[place]
        }


def _make_axis(ruler: Ruler, values: Floats, needs: tuple[Need, ...]) -> AxisTable:
    length = ruler.length
    slices = np.zeros((len(values), 2 * length + 3, 2))
    slices[:, : length + 1] = ruler.spread_out(values[:, ruler.heads], up=True)
    slices[:, length + 1 : -1] = ruler.spread_out(values[:, ruler.tails], up=False)
    return AxisTable(
        length=length,
        sampled=None if ruler.is_complete else frozenset(ruler.positions.tolist()),
        granule=ruler.granule,
        slices=np.maximum(slices, 0.0),
        needs=needs,
    )


def _find_varying(need: Boxes, shape: Sequence[int], rulers: Sequence[Ruler]) -> list[list[bool]]:
    """Return, by ruler and axis of an input, whether some slices read less than all along it."""
    if not rulers or not shape:
        return [[] for _ in rulers]
    heads = [edge for ruler in rulers for edge in (ruler.heads.start + 1, ruler.heads.stop)]
    tails = [edge for ruler in rulers for edge in (ruler.tails.start, ruler.tails.stop - 1)]
    ends = np.logical_or.reduceat(need.end != np.asarray(shape), heads, axis=0)[::2]
    begins = np.logical_or.reduceat(need.begin != 0, tails, axis=0)[::2]
    varies: list[list[bool]] = (ends | begins).tolist()
    return varies


def _read_need(need: Boxes, nothing: Flags, ruler: Ruler, length: int) -> Need:
    """Return the intervals that slices along an axis read of an input; nothing where ``nothing`` says so."""
    low = np.where(nothing[ruler.tails], length, need.begin[ruler.tails, ruler.axis])
    high = np.where(nothing[ruler.heads], 0, need.end[ruler.heads, ruler.axis])
    if not ruler.is_complete:
        full = np.arange(ruler.length + 1)
        low = np.floor(np.interp(full, ruler.positions, low)).astype(np.int64)
        high = np.ceil(np.interp(full, ruler.positions, high)).astype(np.int64)
    return Need(low=low, high=high)

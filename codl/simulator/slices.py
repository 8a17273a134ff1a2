"""Latency tables: what slices of every operator take and read, for all positions of its cut grids.

All predictions of a network are made together, when the first table is needed.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from codl.catalog.shape_key import find_class
from codl.catalog.spec import Selection
from codl.ir.graph import FLOAT_BYTES, Graph, Node, Shape
from codl.ir.ops import Concat, HostCall
from codl.ir.regions import OutputBoxes, Region
from codl.latency.predictor import Predictor
from codl.latency.questions import Question, answer_questions
from codl.simulator.arrays import Floats
from codl.simulator.cut_grid import CutGrid, list_boxes, list_cut_grids
from codl.simulator.fused import FusedLaunches
from codl.simulator.input_needs import Need, find_needs


class OperatorClasses:
    """Numbers of the classes of operators of a network.

    Args:
        graph: The network.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._numbers: dict[Hashable, int] = {}
        self._by_name: dict[str, int] = {}

    def find(self, node: Node) -> int:
        """Return the number of a node's class."""
        number = self._by_name.get(node.name)
        if number is None:
            key = find_class(node, self._graph)
            number = self._by_name[node.name] = self._numbers.setdefault(key, len(self._numbers))
        return number


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisTable:
    """Slices of an operator along one axis."""

    grid: CutGrid
    predicted: Floats
    """[device, slice, 2] Latency in us, and the part of it that memory limits, of slices from 0 to each
    position of the grid, then of those from each position to the end."""
    needs: tuple[Need, ...]
    """By input, constants included, what slices read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTable:
    """The latencies, reads and size of one operator."""

    whole: Floats
    """[device, 2] Latency in us, and the part of it that memory limits, of the whole operator."""
    apart: Floats
    """[device, 2] As `whole`; of a concatenation, if all of its inputs are copied."""
    axes: Mapping[int, AxisTable]
    """Those along which a cut saves work."""
    reads: tuple[Region, ...]
    """By input, what the whole operator reads of it."""
    size_bytes: int
    """Of the output."""
    uncertainty: float
    """Typical relative error of the predictions, the largest of all devices."""
    selections: tuple[Selection, ...]
    """By device, the kernel that computes it."""


class SliceTables:
    """The tables of a network's operators; operators of one class share a table.

    Args:
        graph: The network.
        predictors: One for each device.
    """

    def __init__(self, graph: Graph, predictors: Sequence[Predictor]) -> None:
        self.graph, self.predictors = graph, tuple(predictors)
        self.classes, self.fused = OperatorClasses(graph), FusedLaunches(graph, predictors)

    def find(self, node: Node) -> NodeTable:
        """Return the table of an operator that the host does not compute.

        Raises:
            UnsupportedError: An operator of the network that no kernel of a device computes.
        """
        return self._by_name[node.name]

    def find_reads(self, node: Node, region: Region) -> tuple[Region, ...] | None:
        """Return what a region of an operator's output reads of each input; None where no table has it.

        Of constants the whole is returned.
        """
        table = self.find(node)
        axes = _list_cut_axes(region, self.graph.shape(node.output))
        if not axes:
            return table.reads
        axis, low, high = axes[0], region.begin[axes[0]], region.end[axes[0]]
        known = table.axes.get(axis)
        if len(axes) > 1 or known is None or not all(need.is_exact for need in known.needs):
            return None
        return tuple(
            [
                whole
                if need.low is None or need.high is None
                else whole.cut(axis, int(need.low[low]), int(need.high[high]))
                for whole, need in zip(table.reads, known.needs, strict=True)
            ]
        )

    def look_up(self, node: Node, device: int, region: Region) -> tuple[float, float] | None:
        """Return the latency of a slice in us and the part of it that memory limits; None if not predicted.

        All inputs of a concatenation are taken to be copied.
        """
        table = self.find(node)
        axes = _list_cut_axes(region, self.graph.shape(node.output))
        if not axes:
            us, memory_us = table.apart[device].tolist()
            return us, memory_us
        low, high = region.begin[axes[0]], region.end[axes[0]]
        known = table.axes.get(axes[0])
        index = None if known is None else known.grid.find_index(low or high)
        if len(axes) > 1 or known is None or index is None or (low and high < known.grid.length):
            return None
        us, memory_us = known.predicted[device, index + (len(known.grid.positions) if low else 0)].tolist()
        return us, memory_us

    @cached_property
    def _by_name(self) -> Mapping[str, NodeTable]:
        nodes = [node for node in self.graph.nodes if not isinstance(node.op, HostCall)]
        numbers = [self.classes.find(node) for node in nodes]
        distinct = dict(zip(reversed(numbers), reversed(nodes), strict=True))
        tables = dict(zip(distinct, self._make(list(distinct.values())), strict=True))
        return {node.name: tables[number] for node, number in zip(nodes, numbers, strict=True)}

    def _make(self, nodes: Sequence[Node]) -> list[NodeTable]:
        """Return the tables of some operators."""
        if not nodes:
            return []
        graph = self.graph
        chosen = [tuple([one.choose(node, graph) for one in self.predictors]) for node in nodes]
        shapes = [graph.shape(node.output) for node in nodes]
        grids = list(map(list_cut_grids, nodes, shapes, chosen))
        boxes = list(map(list_boxes, shapes, grids))
        outs = OutputBoxes.find_all(nodes, graph, [one for one, _ in boxes])
        questions = [
            Question(node=node, out=out, selections=selections)
            for node, out, selections in zip(nodes, outs, chosen, strict=True)
        ]
        found = answer_questions(questions, graph, self.predictors)
        values = np.stack([found.us, found.memory_us], axis=2)
        values[:, np.concatenate([is_empty for _, is_empty in boxes])] = 0.0
        starts = np.cumsum([0, *(out.count for out in outs)])
        apart = values[:, starts[:-1]]
        whole = apart.copy()
        # As a rule the inputs of a whole concatenation lie inside its output, and nothing is copied.
        whole[:, [isinstance(node.op, Concat) for node in nodes]] = 0.0
        tables = []
        for place, (node, start) in enumerate(zip(nodes, starts.tolist(), strict=False)):
            reads, needs = find_needs(node, grids[place], outs[place], graph)
            axes = {
                grid.axis: AxisTable(
                    grid=grid,
                    predicted=values[:, start + grid.heads.start : start + grid.tails.stop],
                    needs=needs[grid.axis],
                )
                for grid in grids[place]
                if grid.axis in needs
            }
            table = NodeTable(
                whole=whole[:, place],
                apart=apart[:, place],
                axes=axes,
                reads=reads,
                size_bytes=prod(shapes[place]) * FLOAT_BYTES,
                uncertainty=float(found.uncertainties[place]),
                selections=chosen[place],
            )
            tables.append(table)
        return tables


def _list_cut_axes(region: Region, shape: Shape) -> list[int]:
    """Return the axes along which a region of a tensor is not all of it."""
    return [axis for axis, length in enumerate(shape) if region.begin[axis] or region.end[axis] != length]

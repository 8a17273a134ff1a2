"""What every slice of every operator takes, and what it reads, for all places to cut it at: asked once.

A slice between two inner positions of an axis takes what a slice from the start and a slice to the end take
together, less the whole: exact where times are sums over positions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import lcm, prod

import numpy as np
import numpy.typing as npt

from codl.catalog.spec import Parameters
from codl.ir.boxes import Boxes
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.ops import Concat
from codl.ir.regions import Region, input_boxes
from codl.latency.predictor import Predictor
from codl.partitioner.sorts import Sorts

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
FAR = 1 << 40
"""Where empty intervals begin, so that a hull with them is the other one."""
_MOST_POSITIONS = 48
"""Places along an axis whose slices are predicted; between them times are interpolated."""
_LONGEST_AXIS = 4096
"""What is longer, such as a list of all anchors of a detector, is no axis to cut along."""
_WIDEST_PANEL = 32
"""Channels that a kernel computes at once, where its parameters do not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What slices along one axis read of an input."""

    low: Ints | None
    """[length + 1] First position that a slice reads that begins here; None: slices read all of it."""
    high: Ints | None
    """[length + 1] One past the last position that a slice reads that ends here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisTable:
    """Slices of an operator along one axis."""

    length: int
    sampled: frozenset[int] | None
    """Positions that were predicted; None for all."""
    granule: int
    """Positions that kernels compute at once: cuts elsewhere cost as much as the next one here."""
    head: Floats
    """[device, length + 1, 2] Time and memory's part of it, us, of a slice from the start to here."""
    tail: Floats
    """[device, length + 1, 2] Of a slice from here to the end."""
    needs: tuple[Need, ...]
    """By input, constants included."""

    def take(self, low: Ints, high: Ints) -> Floats:
        """Return time and memory's part [count, device, 2] of each device's interval [count, device]."""
        devices = np.arange(len(self.head))
        is_empty = high <= low
        found = self.head[devices, np.where(is_empty, 0, high)]
        if len(self.head) > 2:
            found = found + self.tail[devices, np.where(is_empty, 0, low)] - self.tail[devices, 0]
        else:  # one interval begins at the start, the other ends at the end
            found = np.where((low == 0)[:, :, None], found, self.tail[devices, np.where(is_empty, 0, low)])
        return np.where(is_empty[:, :, None], 0.0, np.maximum(found, 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTable:
    """All that planners ask of an operator."""

    whole: Floats
    """[device, 2] Time and memory's part of it, us, of the whole operator."""
    axes: Mapping[int, AxisTable]
    """Those along which a cut saves work."""
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
        plans = [
            (axis, granule, _list_positions(shape[axis], granule))
            for axis in list_axes(shape)
            for granule in [_find_granule(node, axis, shape, [one.parameters for one in selections])]
        ]
        boxes, spans = _list_boxes(shape, plans)
        times, uncertainty = [], 0.0
        for predictor, selection in zip(self.predictors, selections, strict=True):
            found = predictor.predict(node, self.graph, boxes, selection=selection)
            times.append(np.stack([found.us, found.us * found.memory_share], axis=1))
            uncertainty = max(uncertainty, found.uncertainty)
        values = np.stack(times)
        needs = input_boxes(node, self.graph, boxes)
        axes = {}
        for plan, (start, count) in zip(plans, spans, strict=True):
            part = values[:, start : start + 2 * count]
            table = self._read_axis(node, plan, values=part, needs=needs, start=start)
            if table is not None:
                axes[plan[0]] = table
        # Whole, a concatenation's inputs lie inside its output as a rule: nothing is copied.
        whole = np.zeros_like(values[:, 0]) if isinstance(node.op, Concat) else values[:, 0]
        return NodeTable(
            whole=whole,
            axes=axes,
            size_bytes=prod(shape) * FLOAT_BYTES,
            uncertainty=uncertainty,
        )

    def _read_axis(
        self,
        node: Node,
        plan: tuple[int, int, Ints],
        *,
        values: Floats,
        needs: Sequence[Boxes],
        start: int,
    ) -> AxisTable | None:
        """Return the table of one axis; None where a cut saves no work or reads more than intervals."""
        axis, granule, positions = plan
        length, count = int(positions[-1]), len(positions)
        found, is_saving = [], False
        for name, need in zip(node.inputs, needs, strict=True):
            shape = self.graph.shape(name)
            heads, tails = slice(start, start + count), slice(start + count, start + 2 * count)
            begin, end = need.begin, need.end
            varies = [
                place
                for place, extent in enumerate(shape)
                if (end[heads][1:, place] != extent).any() or (begin[tails][:-1, place] != 0).any()
            ]
            is_saving = is_saving or bool(varies)
            if name in self.graph.constants or not varies:
                found.append(Need(low=None, high=None))
                continue
            if varies != [axis] or len(shape) != len(self.graph.shape(node.output)):
                found.append(Need(low=None, high=None))
                continue
            low = np.where(need.is_empty[tails], shape[axis], begin[tails][:, axis])
            high = np.where(need.is_empty[heads], 0, end[heads][:, axis])
            full = np.arange(length + 1)
            found.append(
                Need(
                    low=np.floor(np.interp(full, positions, low)).astype(np.int64),
                    high=np.ceil(np.interp(full, positions, high)).astype(np.int64),
                )
            )
        if not is_saving:
            return None
        return AxisTable(
            length=length,
            sampled=None if count == length + 1 else frozenset(positions.tolist()),
            granule=granule,
            head=_spread_out(values[:, :count], positions, granule, length, up=True),
            tail=_spread_out(values[:, count:], positions, granule, length, up=False),
            needs=tuple(found),
        )


def list_axes(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the axes that planners may cut: height, channels and batch of images, all of other tensors."""
    axes = (2, 1, 0) if len(shape) == 4 else range(len(shape))
    return tuple(axis for axis in axes if 1 < shape[axis] <= _LONGEST_AXIS)


def _find_granule(node: Node, axis: int, shape: Sequence[int], parameters: Sequence[Parameters]) -> int:
    """Return how many positions kernels compute at once, 1 where the axis is too short for that."""
    is_channel = axis == (1 if len(shape) == 4 else len(shape) - 1)
    granule = 1
    if is_channel:
        granule = lcm(*(_find_panel(one) for one in parameters))
        granule = granule if granule <= _WIDEST_PANEL else max(map(_find_panel, parameters))
    elif len(shape) == 4 and axis == 2:
        granule = getattr(node.op, "tile", (1, 1))[0]
    while granule > 1 and 2 * granule > shape[axis]:
        granule //= 2
    return max(1, granule)


def _find_panel(parameters: Parameters) -> int:
    if "NR" in parameters:
        return parameters["NR"]
    return parameters.get("VECTOR", 8) * parameters.get("VECTORS", 1)


def _list_positions(length: int, granule: int) -> Ints:
    """Return the places of an axis that are predicted, its ends included."""
    if length <= _MOST_POSITIONS:
        return np.arange(length + 1)
    count = -(-length // granule)
    step = granule * -(-count // _MOST_POSITIONS)
    return np.unique(np.append(np.arange(0, length, step), length))


def _list_boxes(
    shape: Sequence[int], plans: Sequence[tuple[int, int, Ints]]
) -> tuple[Boxes, list[tuple[int, int]]]:
    """Return the whole output, then slices from the start and to the end of each axis, and their places."""
    count = 1 + 2 * sum(len(positions) for _, _, positions in plans)
    begin = np.zeros((count, len(shape)), np.int64)
    end = np.tile(np.asarray(shape, np.int64), (count, 1))
    spans, start = [], 1
    for axis, _, positions in plans:
        size = len(positions)
        end[start : start + size, axis] = positions
        begin[start + size : start + 2 * size, axis] = positions
        spans.append((start, size))
        start += 2 * size
    return Boxes(begin, end), spans


def _spread_out(values: Floats, positions: Ints, granule: int, length: int, *, up: bool) -> Floats:
    """Return values [device, positions, 2] at all places: at granules' edges, linear between samples."""
    if len(positions) == length + 1:
        return values
    full = np.arange(length + 1)
    if up:
        full = np.minimum(-(-full // granule) * granule, length)
    else:
        full = np.where(full == length, length, full // granule * granule)
    after = np.clip(np.searchsorted(positions, full), 1, len(positions) - 1)
    before = after - 1
    part = (full - positions[before]) / (positions[after] - positions[before])
    return np.asarray(values[:, before] * (1 - part)[None, :, None] + values[:, after] * part[None, :, None])

"""Alternatives of an operator: each device alone, each axis cut at many places, priced on its own."""

from collections.abc import Sequence
from itertools import pairwise, permutations

import numpy as np

from codl.analysis.slices import Predictors
from codl.devices.memory import count_runs
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.regions import Boxes, Region, find_splittable_axes
from codl.latency.predictor import Predictor
from codl.latency.profile import mix_slowdown
from codl.plan.sharing import Arrangement, Sharing
from codl.plan.text import axis_name
from codl.report.inspection import Alternative
from codl.simulator.contention import read_slowdowns

_AXES = (2, 1, 0)
_MOVES = {Sharing.MAPPED: ("map", "unmap"), Sharing.COPIED: ("read", "write")}
"""Transfers that make a part visible to other devices."""
_GRID = tuple(range(10, 100, 10))
"""Percent of the first of two devices."""


def list_alternatives(
    node: Node,
    graph: Graph,
    predictors: Predictors,
    arrangement: Arrangement,
    *,
    chosen: tuple[int | None, tuple[int, ...]],
) -> tuple[Alternative, ...]:
    """Return the ways to compute a node, cheapest first; none where a device has no profile.

    Each is priced as if it stood alone: its inputs are in place, every device computes its part, and then the
    devices synchronize. What a chain saves is not included.

    Args:
        node: The operator.
        graph: The network.
        predictors: By device.
        arrangement: How devices see each other's results.
        chosen: Axis and bounds that the plan has, None and the bounds of one device where it is not cut.
    """
    known = [predictor for predictor in predictors if predictor is not None]
    if len(known) < len(predictors):
        return ()
    shape = graph.shape(node.output)
    ways = _list_ways(node, graph, len(known), shape, chosen)
    priced = _price(node, graph, known, arrangement, ways)
    return tuple(sorted(priced, key=lambda way: way.total_us or 0.0))


_Way = tuple[int | None, tuple[int, ...], bool]
"""Axis, bounds, whether the plan has chosen it; without an axis, bounds count devices: [i, i + 1) is one."""


def _list_ways(
    node: Node, graph: Graph, count: int, shape: Sequence[int], chosen: tuple[int | None, tuple[int, ...]]
) -> list[_Way]:
    ways: dict[tuple[int | None, tuple[int, ...]], bool] = {}
    for device in range(count):
        ways[None, (device, device + 1)] = False
    if count > 1:
        splittable = find_splittable_axes(node, graph)
        for axis in (axis for axis in _AXES if axis in splittable):
            for shares in _list_shares(count):
                ends = np.round(np.cumsum(shares)[:-1] * shape[axis]).astype(int).tolist()
                bounds = (0, *ends, shape[axis])
                if all(low < high for low, high in pairwise(bounds)):
                    ways[axis, bounds] = False
    ways[chosen] = True
    return [(axis, bounds, is_chosen) for (axis, bounds), is_chosen in ways.items()]


def _list_shares(count: int) -> list[tuple[float, ...]]:
    if count == 2:
        return [(percent / 100, 1 - percent / 100) for percent in _GRID]
    return [(1 / count,) * count]


def _price(
    node: Node,
    graph: Graph,
    predictors: Sequence[Predictor],
    arrangement: Arrangement,
    ways: Sequence[_Way],
) -> list[Alternative]:
    whole = Region.whole(graph.shape(node.output))
    regions = [[_find_part(whole, way, device) for way in ways] for device in range(len(predictors))]
    found = [
        predictor.predict(node, graph, Boxes.of(parts))
        for predictor, parts in zip(predictors, regions, strict=True)
    ]
    alone = np.array([prediction.us for prediction in found])
    busy = np.array([[not part.is_empty for part in parts] for parts in regions])
    slowed = alone.copy()
    slowdowns = read_slowdowns(predictors)
    for device, other in permutations(range(len(predictors)), 2):
        shares = found[device].memory_share, found[other].memory_share
        factor = mix_slowdown(slowdowns[device, other].tolist(), *shares)
        slowed[device] *= np.where(busy[other] & (alone[device] > 0), factor, 1.0)
    share_us = _price_shares(regions, predictors, arrangement, whole)
    return [
        _describe(way, slowed[:, index].tolist(), predictors, share_us[index], whole)
        for index, way in enumerate(ways)
    ]


def _find_part(whole: Region, way: _Way, device: int) -> Region:
    axis, bounds, _ = way
    if axis is None:
        return whole if device == bounds[0] else Region(whole.begin, whole.begin)
    return whole.cut(axis, bounds[device], bounds[device + 1])


def _describe(
    way: _Way,
    compute: Sequence[float],
    predictors: Sequence[Predictor],
    share_us: float,
    whole: Region,
) -> Alternative:
    axis, bounds, is_chosen = way
    is_split = sum(us > 0 for us in compute) > 1
    sync = _price_synchronization(predictors) if is_split else 0.0
    share = share_us if is_split else 0.0
    if axis is None:
        label = f"all on {predictors[bounds[0]].info.name}"
    else:
        length = max(whole.end[axis], 1)
        cut = ":".join(f"{(high - low) * 100 / length:.0f}" for low, high in pairwise(bounds))
        label = f"{axis_name(axis, len(whole.end))} {cut}"
    return Alternative(
        label=label,
        axis=axis,
        bounds=() if axis is None else bounds,
        compute_us=tuple(compute),
        share_us=share,
        sync_us=sync,
        total_us=max(compute) + share + sync,
        is_chosen=is_chosen,
    )


def _price_synchronization(predictors: Sequence[Predictor]) -> float:
    """Return the synchronization cost of all devices in us; 0 where they were never measured together."""
    names = [predictor.info.name for predictor in predictors]
    found = [predictor.profile.neighbours.get(name) for predictor in predictors for name in names]
    return max((n.meeting.median_us for n in found if n is not None and n.meeting is not None), default=0.0)


def _price_shares(
    regions: Sequence[Sequence[Region]],
    predictors: Sequence[Predictor],
    arrangement: Arrangement,
    whole: Region,
) -> list[float]:
    """Return in us, for each way, the time until every device sees the whole output.

    Args:
        regions: By device and way.
        predictors: By device.
        arrangement: How devices see each other's results.
        whole: All of the output.
    """
    total = np.zeros(len(regions[0]))
    for device, (predictor, parts) in enumerate(zip(predictors, regions, strict=True)):
        size = np.array([float(part.size * FLOAT_BYTES) for part in parts])
        for kind in _MOVES.get(arrangement.mode(device), ()):
            rows = np.array([float(count_runs(part, whole)) for part in parts])
            call_us, byte_us, run_us = predictor.find_transfer_us(kind).tolist()
            total += np.where(size > 0, call_us + byte_us * size + run_us * rows, 0.0)
    return [float(us) for us in total]

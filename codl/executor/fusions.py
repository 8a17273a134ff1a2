"""Launches that compute several nodes at once: what the first one reads lives until the last one runs."""

from collections.abc import Mapping, Sequence

from codl.catalog.pairs import list_pairs
from codl.catalog.spec import Implementation, Selection
from codl.catalog.table import PAIRS
from codl.executor.images import Work
from codl.ir.graph import Graph
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo
from codl.plan.pairs import find_pairs
from codl.plan.schedule import Launch, Schedule

Fusions = Mapping[Launch, tuple[Launch, ...]]
"""Launch of a last node -> the launches of nodes before it that it takes over, the nearest one first."""


def find_fusions(
    graph: Graph,
    schedule: Schedule,
    devices: Sequence[DeviceInfo],
    rows: Sequence[Implementation] = PAIRS,
) -> dict[Launch, tuple[tuple[Launch, ...], Selection]]:
    """Return what becomes one launch: the last node's launch -> those before it, and the selection for all.

    Without facts of devices there are none.
    """
    if not devices:
        return {}
    return find_pairs(graph, schedule, lambda node, device: list_pairs(node, graph, devices[device], rows))


def fuse_work(
    graph: Graph,
    schedule: Schedule,
    work: Mapping[Launch, Work],
    devices: Sequence[DeviceInfo],
    *,
    rows: Sequence[Implementation] = PAIRS,
) -> tuple[dict[Launch, Work], Fusions]:
    """Return the work with several nodes in one launch, and which these are."""
    fused, fusions = dict(work), {}
    for last, (firsts, selection) in find_fusions(graph, schedule, devices, rows).items():
        node, info = graph.nodes_by_name[last.node], devices[last.device]
        boxes = Boxes.of([last.region])
        batches = selection.implementation.describe(node, graph, boxes, info, selection.parameters)
        fused[last] = Work(selection=selection, batches=batches)
        for first in firsts:
            fused[first] = Work(selection=work[first].selection, batches=())
        fusions[last] = firsts
    return fused, fusions


def find_parts(
    action: Launch, fusions: Mapping[Launch, Sequence[Launch]], alone: Mapping[Launch, Work]
) -> tuple[tuple[str, float], ...]:
    """Return the nodes of a launch with their shares of its operations; nothing for a single one.

    Args:
        action: The launch, of the last node.
        fusions: What it takes over, the last first.
        alone: What would compute each launch by itself.
    """
    if action not in fusions:
        return ()
    launches = (*reversed(fusions[action]), action)
    flops = [max(1, sum(int(one.flops[0]) for one in alone[each].batches)) for each in launches]
    return tuple((each.node, own / sum(flops)) for each, own in zip(launches, flops, strict=True))

"""Launches that compute two nodes or three at once: a first one's result is made where the next one reads it.

A pair is one launch where a device computes both nodes and nobody else reads what lies between them. Its bits
are those of two launches, so it is no matter of the plan; what the first node reads has to live until the
second runs.
"""

from collections.abc import Mapping, Sequence

from codl.catalog.spec import Implementation, Selection
from codl.catalog.table import PAIRS
from codl.executor.images import Work
from codl.ir.graph import Graph
from codl.ir.regions import Boxes, input_regions
from codl.machine import DeviceInfo
from codl.plan.schedule import Call, Copy, Launch, Map, Publish, Schedule

Fusions = Mapping[Launch, tuple[Launch, ...]]
"""Launch of a last node -> the launches of nodes before it that it takes over, the nearest one first."""


def find_fusions(
    graph: Graph,
    schedule: Schedule,
    devices: Sequence[DeviceInfo],
    rows: Sequence[Implementation] = PAIRS,
) -> dict[Launch, tuple[tuple[Launch, ...], Selection]]:
    """Return what becomes one launch: by the last node's launch those before it, and what computes all.

    Args:
        graph: The network.
        schedule: What a run does.
        devices: Facts of its devices, in the plan's order; without them there are no pairs.
        rows: What may compute two nodes or more.
    """
    if not devices:
        return {}
    finder = _Finder(graph, schedule)
    found: dict[Launch, tuple[tuple[Launch, ...], Selection]] = {}
    for (name, device), (last, *others) in finder.launches.items():
        node, info = graph.nodes_by_name[name], devices[device]
        for row in () if others else rows:
            parameters = row.accepts(node, graph, info)
            firsts = finder.find_firsts(last, row.taken) if parameters is not None else None
            if parameters is None or firsts is None:
                continue
            for first in firsts:
                found.pop(first, None)
            found[last] = firsts, Selection(implementation=row, parameters=parameters)
            break
    return found


class _Finder:
    """Which launches of a schedule make what one other launch alone reads."""

    def __init__(self, graph: Graph, schedule: Schedule) -> None:
        self._graph = graph
        self._readers = _find_readers(schedule)
        self.launches: dict[tuple[str, int], list[Launch]] = {}
        """Those of a node on a device, in order."""
        self._moved: set[str] = set()
        for action in schedule.actions:
            match action:
                case Launch(node=name, device=device):
                    self.launches.setdefault((name, device), []).append(action)
                case Publish(tensor=name) | Map(tensor=name):
                    self._moved.add(name)
                case Copy(transfer=transfer):
                    self._moved.add(transfer.tensor)
                case Call(reads=names):
                    self._moved.update(names)
                case _:
                    pass

    def find_firsts(self, last: Launch, count: int) -> tuple[Launch, ...] | None:
        """Return the ``count`` launches before one, each all that the next one reads, the nearest first."""
        found: list[Launch] = []
        name, region = last.node, last.region
        for _ in range(count):
            node = self._graph.nodes_by_name[name]
            tensor = node.inputs[0]
            name = self._graph.producers[tensor].name
            firsts = self.launches.get((name, last.device), [])
            region = input_regions(node, self._graph, region)[0]
            is_own = tensor not in self._moved and self._readers.get(tensor, set()) <= {last.device}
            if not is_own or region.is_empty or len(firsts) != 1 or not firsts[0].region.contains(region):
                return None
            found.append(firsts[0])
        return tuple(found)


def fuse_work(
    graph: Graph,
    schedule: Schedule,
    work: Mapping[Launch, Work],
    devices: Sequence[DeviceInfo],
    *,
    rows: Sequence[Implementation] = PAIRS,
) -> tuple[dict[Launch, Work], Fusions]:
    """Return the work with several nodes in one launch, and which.

    Args:
        graph: The network.
        schedule: What a run does.
        work: What computes each launch alone.
        devices: Facts of its devices, in the plan's order.
        rows: What may compute two nodes or more.
    """
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


def _find_readers(schedule: Schedule) -> dict[str, set[int]]:
    """Return the devices that read what some step has published, by tensor."""
    readers: dict[str, set[int]] = {}
    for shares in schedule.shares:
        for device, share in enumerate(shares):
            for name in share.reads:
                readers.setdefault(name, set()).add(device)
    return readers

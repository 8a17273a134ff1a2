"""Launches that compute two nodes at once: the first one's result is made where the second one reads it.

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

Fusions = Mapping[Launch, Launch]
"""Launch of a second node -> the launch of the first node that it takes over."""


def find_fusions(
    graph: Graph,
    schedule: Schedule,
    devices: Sequence[DeviceInfo],
    rows: Sequence[Implementation] = PAIRS,
) -> dict[Launch, tuple[Launch, Selection]]:
    """Return the pairs that become one launch: by the second node's the first one's, and what computes both.

    Args:
        graph: The network.
        schedule: What a run does.
        devices: Facts of its devices, in the plan's order; without them there are no pairs.
        rows: What may compute two nodes.
    """
    if not devices:
        return {}
    readers = _find_readers(schedule)
    launches: dict[tuple[str, int], list[Launch]] = {}
    moved: set[str] = set()
    for action in schedule.actions:
        match action:
            case Launch(node=name, device=device):
                launches.setdefault((name, device), []).append(action)
            case Publish(tensor=name) | Map(tensor=name):
                moved.add(name)
            case Copy(transfer=transfer):
                moved.add(transfer.tensor)
            case Call(reads=names):
                moved.update(names)
            case _:
                pass
    found = {}
    for (name, device), (second, *others) in launches.items():
        node, info = graph.nodes_by_name[name], devices[device]
        for row in rows:
            parameters = row.accepts(node, graph, info)
            if parameters is None or others or node.inputs[0] in moved:
                continue
            between = graph.producers[node.inputs[0]]
            firsts = launches.get((between.name, device), [])
            need = input_regions(node, graph, second.region)[0]
            is_own = readers.get(between.output, set()) <= {device}
            if not is_own or len(firsts) != 1 or not firsts[0].region.contains(need):
                continue
            found[second] = firsts[0], Selection(implementation=row, parameters=parameters)
            break
    return found


def fuse_work(
    graph: Graph,
    schedule: Schedule,
    work: Mapping[Launch, Work],
    devices: Sequence[DeviceInfo],
    *,
    rows: Sequence[Implementation] = PAIRS,
) -> tuple[dict[Launch, Work], Fusions]:
    """Return the work with pairs in one launch, and the pairs.

    Args:
        graph: The network.
        schedule: What a run does.
        work: What computes each launch alone.
        devices: Facts of its devices, in the plan's order.
        rows: What may compute two nodes.
    """
    fused, fusions = dict(work), {}
    for second, (first, selection) in find_fusions(graph, schedule, devices, rows).items():
        node, info = graph.nodes_by_name[second.node], devices[second.device]
        boxes = Boxes.of([second.region])
        batches = selection.implementation.describe(node, graph, boxes, info, selection.parameters)
        fused[second] = Work(selection=selection, batches=batches)
        fused[first] = Work(selection=work[first].selection, batches=())
        fusions[second] = first
    return fused, fusions


def _find_readers(schedule: Schedule) -> dict[str, set[int]]:
    """Return the devices that read what some step has published, by tensor."""
    readers: dict[str, set[int]] = {}
    for shares in schedule.shares:
        for device, share in enumerate(shares):
            for name in share.reads:
                readers.setdefault(name, set()).add(device)
    return readers

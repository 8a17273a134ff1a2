"""What each device computes, publishes and reads in a step: its own parts followed back through it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from codl.ir.graph import Graph, Node
from codl.ir.regions import Boxes, Region, input_boxes
from codl.plan.steps import Chain, Run, Step

FindReads = Callable[[Node, Region], Sequence[Region] | None]
"""What a region of an operator's output reads of each input, where that is known; else None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one device does in one step."""

    computes: Mapping[str, Region]
    """Node name -> region of its output that the device computes, halo included; never empty."""
    publishes: Mapping[str, Region]
    """Tensor -> region that is the device's own among the tensors read outside the step; never empty."""
    reads: Mapping[str, Region]
    """Tensor from outside the step -> region the device reads of it; never empty."""


_NOTHING = Share(computes={}, publishes={}, reads={})


@dataclass(slots=True)
class _Task:
    """What one device does in one step, followed back so far."""

    names: Sequence[str]
    """Nodes of the step."""
    owned: Mapping[str, Region]
    needs: dict[str, Region]
    computes: dict[str, Region]


def share_step(step: Step, graph: Graph, devices: Sequence[str]) -> tuple[Share, ...]:
    """Return what each device does in ``step``, by device index: nothing in a step of the host.

    Every device's own part of each published tensor is followed backwards
    through the step: an inner tensor is computed where a later node needs it.
    """
    return share_steps([step], graph, devices)[0]


def share_steps(
    steps: Sequence[Step], graph: Graph, devices: Sequence[str], find_reads: FindReads | None = None
) -> list[tuple[Share, ...]]:
    """Return what `share_step` does for each step; what is alike in them is asked once.

    Args:
        steps: Of any plans of the network.
        graph: The network.
        devices: Names of the devices of all plans.
        find_reads: What regions read of each input, where that is known already.
    """
    ask = None if find_reads is None else _remember(find_reads)
    tasks = {
        place: [_begin(step, graph, index) for index in range(len(devices))]
        for place, step in enumerate(steps)
        if isinstance(step, Chain)
    }
    _follow_back([task for each in tasks.values() for task in each if task is not None], graph, ask)
    found = {
        place: tuple([_NOTHING if task is None else _finish(task, graph) for task in each])
        for place, each in tasks.items()
    }
    names = dict.fromkeys([step.node for step in steps if isinstance(step, Run)])
    whole = {name: _share_whole(graph.nodes_by_name[name], graph, ask) for name in names}
    return [
        found[place]
        if place in found
        else tuple([whole[step.node] if name == step.device else _NOTHING for name in devices])
        if isinstance(step, Run)
        else (_NOTHING,) * len(devices)
        for place, step in enumerate(steps)
    ]


def _remember(find_reads: FindReads) -> FindReads:
    """Return what asks once about each region of a node's output."""
    known: dict[tuple[str, Region], Sequence[Region] | None] = {}

    def ask(node: Node, region: Region) -> Sequence[Region] | None:
        key = node.name, region
        if key not in known:
            known[key] = find_reads(node, region)
        return known[key]

    return ask


def _share_whole(node: Node, graph: Graph, find_reads: FindReads | None) -> Share:
    """Return what a device does that computes a whole node."""
    region = Region.whole(graph.shape(node.output))
    if region.is_empty:
        return Share(computes={}, publishes={node.output: region}, reads={})
    needs: dict[str, Region] = {}
    for tensor, part in _find_reads(node, graph, [region], find_reads)[region]:
        known = needs.get(tensor)
        needs[tensor] = part if known is None else known.hull(part)
    return Share(computes={node.name: region}, publishes={node.output: region}, reads=needs)


def _begin(chain: Chain, graph: Graph, index: int) -> _Task | None:
    """Return what a device owns of what a chain publishes; None where it has nothing to do."""
    owned = {}
    for cut in chain.cuts:
        whole = Region.whole(graph.shape(cut.tensor))
        part = whole.cut(cut.axis, cut.bounds[index], cut.bounds[index + 1])
        if not part.is_empty:
            owned[cut.tensor] = part
    if not owned:
        return None
    return _Task(names=chain.nodes, owned=owned, needs=dict(owned), computes={})


def _follow_back(tasks: Iterable[_Task], graph: Graph, find_reads: FindReads | None) -> None:
    """Find what tasks compute and need, node after node from the last one to the first."""
    by_node: dict[str, list[_Task]] = {}
    for task in tasks:
        for name in task.names:
            by_node.setdefault(name, []).append(task)
    for name in sorted(by_node, key=graph.positions.__getitem__, reverse=True):
        node = graph.nodes_by_name[name]
        busy = [
            (task, region)
            for task in by_node[name]
            if (region := task.needs.get(node.output)) is not None and not region.is_empty
        ]
        if not busy:
            continue
        reads = _find_reads(node, graph, dict.fromkeys(region for _, region in busy), find_reads)
        for task, region in busy:
            task.computes[name] = region
            for tensor, part in reads[region]:
                known = task.needs.get(tensor)
                task.needs[tensor] = part if known is None else known.hull(part)


def _find_reads(
    node: Node, graph: Graph, regions: Iterable[Region], find_reads: FindReads | None
) -> dict[Region, list[tuple[str, Region]]]:
    """Return which activations some regions of a node's output need, and what of them; never nothing."""
    found: dict[Region, Sequence[Region]] = {}
    parts = []
    for region in regions:
        known = None if find_reads is None else find_reads(node, region)
        if known is None:
            parts.append(region)
        else:
            found[region] = known
    if parts:
        boxes = input_boxes(node, graph, Boxes.of(parts))
        for place, region in enumerate(parts):
            found[region] = [each.region(place) for each in boxes]
    names = [(place, name) for place, name in enumerate(node.inputs) if name not in graph.constants]
    return {
        region: [(name, reads[place]) for place, name in names if not reads[place].is_empty]
        for region, reads in found.items()
    }


def _finish(task: _Task, graph: Graph) -> Share:
    """Return the share of a finished task; its reads are listed from the tail to the head."""
    if len(task.names) == 1:
        reads = {name: region for name, region in task.needs.items() if name not in task.owned}
        return Share(computes=task.computes, publishes=task.owned, reads=reads)
    nodes = [graph.nodes_by_name[name] for name in task.names]
    produced = {node.output for node in nodes}
    inputs = dict.fromkeys(name for node in reversed(nodes) for name in node.inputs)
    computed = [node.name for node in reversed(nodes) if node.name in task.computes]
    return Share(
        computes={name: task.computes[name] for name in computed},
        publishes=task.owned,
        reads={name: task.needs[name] for name in inputs if name in task.needs and name not in produced},
    )


class Sharer:
    """Finds and keeps the shares of steps of many plans of one network.

    Args:
        graph: The network.
        devices: Names of the devices of all plans.
        find_reads: What regions read of each input, where that is known already.
    """

    def __init__(self, graph: Graph, devices: Sequence[str], find_reads: FindReads | None = None) -> None:
        self._graph, self._devices, self._find_reads = graph, tuple(devices), find_reads
        self._known: dict[object, tuple[Share, ...]] = {}

    def share(self, steps: Sequence[Step]) -> tuple[tuple[Share, ...], ...]:
        """Return what `share_step` does for each step."""
        keys = [(step.node, step.device) if isinstance(step, Run) else step for step in steps]
        unknown = {key: step for key, step in zip(keys, steps, strict=True) if key not in self._known}
        if unknown:
            found = share_steps(list(unknown.values()), self._graph, self._devices, self._find_reads)
            self._known.update(zip(unknown, found, strict=True))
        return tuple([self._known[key] for key in keys])

"""Where data is during a run: what each device computes in a step, and what it must be sent first.

The partitioner prices exactly the transfers that the executor performs,
because both ask this module.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codl.ir.graph import Graph
from codl.ir.regions import Boxes, Region, input_boxes
from codl.plan.steps import Host, Run, Step

HOST = -1
"""Stands for the host where a device index is expected: graph inputs come from it, outputs go to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """A region that one device has and another needs."""

    tensor: str
    region: Region
    source: int
    destination: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one device does in one step."""

    computes: Mapping[str, Region]
    """Node name -> region of its output that the device computes, halo included; never empty."""
    publishes: Mapping[str, Region]
    """Tensor -> region that is the device's own among the tensors read outside the step; never empty."""
    reads: Mapping[str, Region]
    """Tensor from outside the step -> region the device reads of it; never empty."""


def step_nodes(step: Step) -> tuple[str, ...]:
    """Return the names of the nodes that a step computes."""
    return (step.node,) if isinstance(step, Run) else step.nodes


def find_published(nodes: Sequence[str], graph: Graph) -> tuple[str, ...]:
    """Return the tensors that ``nodes`` write and that are read outside them or are graph outputs."""
    inside = set(nodes)
    published = []
    for name in nodes:
        tensor = graph.nodes_by_name[name].output
        readers = graph.consumers[tensor]
        if tensor in graph.outputs or any(reader.name not in inside for reader in readers):
            published.append(tensor)
    return tuple(published)


def share_step(step: Step, graph: Graph, devices: Sequence[str]) -> tuple[Share, ...]:
    """Return what each device does in ``step``, by device index: nothing in a step of the host.

    Every device's own part of each published tensor is followed backwards
    through the step: an inner tensor is computed where a later node needs it.
    """
    owned = [_owned_regions(step, graph, devices, index) for index in range(len(devices))]
    return _follow_back(step_nodes(step), graph, owned)


def _owned_regions(step: Step, graph: Graph, devices: Sequence[str], index: int) -> dict[str, Region]:
    if isinstance(step, Host):
        return {}
    if isinstance(step, Run):
        if devices[index] != step.device:
            return {}
        tensor = graph.nodes_by_name[step.node].output
        return {tensor: Region.whole(graph.shape(tensor))}
    owned = {}
    for cut in step.cuts:
        whole = Region.whole(graph.shape(cut.tensor))
        part = whole.cut(cut.axis, cut.bounds[index], cut.bounds[index + 1])
        if not part.is_empty:
            owned[cut.tensor] = part
    return owned


def _follow_back(
    names: Sequence[str], graph: Graph, owned: Sequence[Mapping[str, Region]]
) -> tuple[Share, ...]:
    """Return what each device computes and reads for its own parts of what is published."""
    nodes = [graph.nodes_by_name[name] for name in names]
    produced = {node.output for node in nodes}
    needs = [dict(own) for own in owned]
    computes: list[dict[str, Region]] = [{} for _ in owned]
    for node in reversed(nodes):
        wanted = [(index, need[node.output]) for index, need in enumerate(needs) if node.output in need]
        busy = [(index, region) for index, region in wanted if not region.is_empty]
        if not busy:
            continue
        boxes = input_boxes(node, graph, Boxes.of([region for _, region in busy]))
        for place, (index, region) in enumerate(busy):
            computes[index][node.name] = region
            need = needs[index]
            for tensor, parts in zip(node.inputs, boxes, strict=True):
                if tensor in graph.constants:
                    continue
                part = parts.region(place)
                if not part.is_empty:
                    need[tensor] = need[tensor].hull(part) if tensor in need else part
    return tuple(
        Share(
            computes=computed,
            publishes=dict(own),
            reads={tensor: region for tensor, region in need.items() if tensor not in produced},
        )
        for computed, own, need in zip(computes, owned, needs, strict=True)
    )


def find_host_reads(step: Host, graph: Graph) -> tuple[str, ...]:
    """Return the tensors of devices that a step of the host reads whole, each once."""
    names = dict.fromkeys(name for node in step.nodes for name in graph.nodes_by_name[node].inputs)
    return tuple(name for name in names if not graph.tensors[name].is_on_host)


def find_host_writes(step: Host, graph: Graph) -> tuple[str, ...]:
    """Return the tensors of devices that a step of the host writes whole."""
    names = (graph.nodes_by_name[node].output for node in step.nodes)
    return tuple(name for name in names if not graph.tensors[name].is_on_host)


class Residency:
    """Which published regions are valid on which device, as a run goes on."""

    def __init__(self, graph: Graph) -> None:
        self._owners: dict[str, list[tuple[int, Region]]] = {}
        self._present: dict[tuple[str, int], list[Region]] = {}
        for name in graph.inputs:
            if not graph.tensors[name].is_on_host:
                self.publish(name, Region.whole(graph.shape(name)), HOST)

    def publish(self, tensor: str, region: Region, device: int) -> None:
        """Note that ``device`` computed ``region`` of ``tensor`` as its own part."""
        self._owners.setdefault(tensor, []).append((device, region))
        self.receive(tensor, region, device)

    def receive(self, tensor: str, region: Region, device: int) -> None:
        """Note that ``region`` of ``tensor`` is valid on ``device``, whoever owns it."""
        self._present.setdefault((tensor, device), []).append(region)

    def forget(self, tensor: str, region: Region, device: int) -> None:
        """Note that ``device`` no longer sees ``region`` of ``tensor``, which others own."""
        present = self._present.get((tensor, device), [])
        self._present[tensor, device] = [rest for box in present for rest in box.subtract(region)]

    def request(self, tensor: str, region: Region, device: int) -> tuple[Transfer, ...]:
        """Return, and note as done, the transfers that make ``region`` of ``tensor`` valid on ``device``."""
        present = self._present.setdefault((tensor, device), [])
        missing = [region]
        for box in present:
            missing = [rest for piece in missing for rest in piece.subtract(box)]
        transfers = []
        for piece in missing:
            for owner, part in self._owners.get(tensor, ()):
                common = piece.intersect(part)
                if not common.is_empty:
                    transfers.append(Transfer(tensor=tensor, region=common, source=owner, destination=device))
            present.append(piece)
        return tuple(transfers)

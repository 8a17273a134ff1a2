"""Where data is during a run: what each device has, and what it must be sent before a step.

The partitioner prices exactly the transfers that the executor performs,
because both ask this module.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from codl.ir.graph import Graph
from codl.ir.regions import Region
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
        if tensor in graph.ends or any(reader.name not in inside for reader in readers):
            published.append(tensor)
    return tuple(published)


def connect_nodes(names: Sequence[str], graph: Graph) -> list[tuple[str, ...]]:
    """Return nodes, given in topological order, in groups that share tensors; each keeps the order."""
    groups: list[set[str]] = []
    for name in names:
        node = graph.nodes_by_name[name]
        near = {graph.producers[t].name for t in graph.activations(node) if t in graph.producers}
        joined = {name}.union(*(group for group in groups if group & near))
        groups = [group for group in groups if not group & near]
        groups.append(joined)
    return [tuple(name for name in names if name in group) for group in groups]


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
        """Note that ``region`` of ``tensor`` is valid on ``device``, which need not own it."""
        self._present.setdefault((tensor, device), []).append(region)

    def forget(self, tensor: str, region: Region, device: int) -> None:
        """Note that ``device`` no longer sees ``region`` of ``tensor``, which others own."""
        present = self._present.get((tensor, device), [])
        self._present[tensor, device] = [rest for box in present for rest in box.subtract(region)]

    def has(self, tensor: str, region: Region, device: int) -> bool:
        """Return whether ``region`` of ``tensor`` lies within what was made valid on ``device`` at once."""
        present = self._present.get((tensor, device), ())
        return any(box.contains(region) for box in present)

    def request(self, tensor: str, region: Region, device: int) -> tuple[Transfer, ...]:
        """Return, and note as done, the transfers that make ``region`` of ``tensor`` valid on ``device``."""
        present = self._present.setdefault((tensor, device), [])
        if any(box.contains(region) for box in present):
            return ()
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

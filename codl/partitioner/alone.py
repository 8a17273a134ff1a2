"""What a network takes on one device alone: what walking through a run of that plan adds up to.

One device computes one operator after the other and waits for nobody, so there is nothing to schedule.
"""

from collections.abc import Iterator, Mapping
from functools import reduce
from math import prod

from codl.catalog.layers import list_before
from codl.ir.graph import NO_EPILOGUE, Graph, Node
from codl.ir.ops import Concat
from codl.ir.regions import Region
from codl.partitioner.durations import Durations, count_kib
from codl.partitioner.pairs import Pairs
from codl.partitioner.tables import Tables
from codl.plan.residency import Residency
from codl.plan.sharing import Sharing


def is_lone(graph: Graph) -> bool:
    """Return whether a device can compute all of a network, and has something to do for each operator."""
    return bool(graph.nodes) and not graph.host_groups and all(map(prod, _list_shapes(graph)))


def _list_shapes(graph: Graph) -> Iterator[tuple[int, ...]]:
    return (graph.shape(name) for node in graph.nodes for name in (*node.inputs, node.output))


class Alone:
    """A run of a whole network, as `is_lone` allows it, on one device.

    Args:
        tables: What whole operators read and take.
        durations: What all else takes.
        device: The device's place among those of `tables`.
        sharing: How it shares memory with the host.
    """

    def __init__(self, tables: Tables, durations: Durations, device: int, *, sharing: Sharing) -> None:
        self._tables, self._durations, self._graph = tables, durations, tables.graph
        self._device, self._predictor, self._sharing = device, tables.predictors[device], sharing
        self._inside = _find_inside(self._graph)

    def find_us(self) -> float:
        """Return what a run takes: to the last bit what `Pricer.price` says of such a plan."""
        graph, us = self._graph, 0.0
        if self._sharing is Sharing.MAPPED:
            for name, regions in self._list_reads().items():
                us += self._move("unmap", name, reduce(Region.hull, regions))
        residency = Residency(graph)
        groups = self._find_groups(self._tables.pairs)
        inputs, outputs = {*graph.inputs}, {*graph.outputs}
        for node in graph.nodes:
            if self._sharing is not Sharing.MAPPED and not inputs.isdisjoint(node.inputs):
                for name, region in zip(node.inputs, self._tables.find(node).reads, strict=True):
                    for transfer in residency.request(name, region, self._device):
                        us += self._bring(name, transfer.region)
            us += groups[node.name] if node.name in groups else self._time(node)
            if self._sharing is Sharing.COHERENT and node.output in outputs:
                region = Region.whole(graph.shape(node.output))
                us += self._predictor.host_coherence.output_us * count_kib(region)
        us += self._predictor.profile.wait_us
        kinds = {Sharing.MAPPED: ("map", "unmap"), Sharing.COPIED: ("read",)}
        for kind in kinds.get(self._sharing, ()):
            for name in dict.fromkeys(graph.outputs):
                if name in graph.producers:
                    us += self._move(kind, name, Region.whole(graph.shape(name)))
        return us

    def _list_reads(self) -> Mapping[str, list[Region]]:
        """Return by input of the network what operators read of it."""
        found: dict[str, list[Region]] = {}
        for name in self._graph.inputs:
            for node in self._graph.consumers[name]:
                reads = zip(node.inputs, self._tables.find(node).reads, strict=True)
                found.setdefault(name, []).extend(region for read, region in reads if read == name)
        return found

    def _time(self, node: Node) -> float:
        inside = self._inside.get(node.name)
        if inside:
            region = Region.whole(self._graph.shape(node.output))
            return self._durations.time_rest(node, self._predictor.info.name, region, inside).us
        return float(self._tables.find(node).apart[self._device, 0])

    def _find_groups(self, pairs: Pairs) -> dict[str, float]:
        """Return what nodes take that are computed together with others, where that is not by themselves."""
        found: dict[str, tuple[tuple[Node, ...], float | None]] = {}
        for name in pairs.ways:
            last = self._graph.nodes_by_name[name]
            for count, how in pairs.list_choices(last, self._device):
                before = self._list_before(last, count)
                if before is None:
                    continue
                for node in before:
                    found.pop(node.name, None)
                whole = None if how is None else pairs.find_known_us(last, count, self._device)
                found[name] = (*before, last), whole
                break
        times: dict[str, float] = {}
        launch_us = self._predictor.profile.launch_us
        for nodes, whole in found.values():
            main = pairs.find_main(nodes)
            for node in nodes:
                if node is main and whole is not None:
                    times[node.name] = whole
                elif node is not main:
                    us, memory_us = self._tables.find(node).apart[self._device].tolist()
                    times[node.name] = 0.0 if whole is not None else max(us - memory_us - launch_us, 0.0)
        return times

    def _list_before(self, last: Node, count: int) -> tuple[Node, ...] | None:
        """Return the nodes before one that may be computed with it; None where the host sees between them."""
        before = list_before(last, self._graph, count)
        if before is None or self._sharing is Sharing.COHERENT:
            return before
        return None if any(node.output in self._graph.outputs for node in before) else before

    def _bring(self, tensor: str, region: Region) -> float:
        """Return what it takes that the device has a part of an input."""
        if self._sharing is Sharing.COPIED:
            return self._move("write", tensor, region)
        return self._predictor.host_coherence.input_us * count_kib(region)

    def _move(self, kind: str, tensor: str, region: Region) -> float:
        return self._durations.time_move(kind, tensor, region, self._predictor)


def _find_inside(graph: Graph) -> Mapping[str, frozenset[str]]:
    """Return by concatenation the inputs that lie inside an output, as `find_lying_inside` lays them out."""
    nodes = [node for node in graph.nodes if isinstance(node.op, Concat)]
    ends = {*graph.inputs, *graph.outputs}
    inside = {
        name
        for node in nodes
        if node.epilogue == NO_EPILOGUE and node.output not in ends
        for name in node.inputs
        if name not in ends and name not in graph.constants
    }
    return {node.name: frozenset(inside & {*node.inputs}) for node in nodes}

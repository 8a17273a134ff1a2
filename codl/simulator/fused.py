"""Fused launches: operators that a device computes in one launch, and their latency.

Where a profile has a model of the fused kernel, that model is used. Otherwise the operator with most
arithmetic takes as long as alone, and the others, its *riders*, cost only their arithmetic: no launch and no
memory traffic, as the tensors between the operators never leave the caches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from codl.catalog.layers import list_before
from codl.catalog.pairs import list_pairs
from codl.catalog.spec import Selection
from codl.ir.graph import Graph, Node
from codl.ir.ops import Conv2d
from codl.ir.regions import Region
from codl.latency.predictor import Predictor
from codl.latency.questions import predict_regions
from codl.plan.pairs import find_pairs
from codl.plan.schedule import Launch, Schedule
from codl.simulator.arrays import Flags, Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedGroup:
    """Operators that some devices compute in one launch; each but the last is read by the next one alone."""

    nodes: tuple[Node, ...]
    """In order."""
    main: Node
    """The one with most arithmetic; the others are riders."""
    devices: Flags
    """[device]"""

    @property
    def last(self) -> Node:
        """The one whose output is read by others."""
        return self.nodes[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedLaunch:
    """Launches of a schedule that a device makes as one."""

    main: Launch
    """Of the operator with most arithmetic."""
    riders: tuple[Launch, ...]
    """Of the other operators."""
    last: Launch
    """Of the operator whose output is read by others."""
    kernel: Selection | None
    """None where the device's profile has no model of it."""


class FusedLaunches:
    """The fused launches of a network.

    Args:
        graph: The network.
        predictors: One for each device.
    """

    def __init__(self, graph: Graph, predictors: Sequence[Predictor]) -> None:
        self._graph, self._predictors = graph, tuple(predictors)
        self._launch_us = np.array([one.profile.launch_us for one in predictors])

    @cached_property
    def groups(self) -> Sequence[FusedGroup]:
        """All groups; several may end with the same operator."""
        found = []
        for name, by_device in self._kernels.items():
            for count in sorted({count for kernels in by_device for count, _ in kernels}):
                last = self._graph.nodes_by_name[name]
                before = list_before(last, self._graph, count)
                assert before is not None
                nodes = *before, last
                devices = np.array([any(one == count for one, _ in kernels) for kernels in by_device])
                found.append(FusedGroup(nodes=nodes, main=self.find_main(nodes), devices=devices))
        return found

    @cached_property
    def by_rider(self) -> Mapping[str, Sequence[FusedGroup]]:
        """By name of an operator, the groups in which it is a rider."""
        found: dict[str, list[FusedGroup]] = {}
        for group in self.groups:
            for node in group.nodes:
                if node is not group.main:
                    found.setdefault(node.name, []).append(group)
        return found

    def list_choices(self, node: Node, device: int) -> Sequence[tuple[int, Selection | None]]:
        """Return the ways to fuse an operator with those before it on a device, the preferred one first.

        Each is the number of operators before it, and the fused kernel; None where the device's profile has
        no model of that kernel.
        """
        predictor = self._predictors[device]
        return [
            (count, kernel if predictor.is_known(kernel.implementation.name) else None)
            for count, kernel in self._kernels.get(node.name, [()] * (device + 1))[device]
        ]

    def find_in(self, schedule: Schedule) -> list[FusedLaunch]:
        """Return the fused launches of one run of a plan."""
        if not self._kernels:
            return []
        nodes, found = self._graph.nodes_by_name, []
        for last, (firsts, kernel) in find_pairs(self._graph, schedule, self.list_choices).items():
            group = {launch.node: launch for launch in (*reversed(firsts), last)}
            main = group.pop(self.find_main([nodes[name] for name in group]).name)
            found.append(FusedLaunch(main=main, riders=tuple(group.values()), last=last, kernel=kernel))
        return found

    def find_whole_us(self, group: FusedGroup, default_us: Floats) -> Floats:
        """Return [device] the latency in us of a whole group.

        Args:
            group: The group.
            default_us: [device] What is returned for devices without a model of the fused kernel.
        """
        found, count = np.array(default_us, np.float64), len(group.nodes) - 1
        for device in np.flatnonzero(group.devices).tolist():
            found[device] = self._wholes_us.get((group.last.name, count, device), found[device])
        return found

    def find_main(self, nodes: Sequence[Node]) -> Node:
        """Return the operator of a group that has most arithmetic."""
        return max(nodes, key=lambda node: _count_products(node, self._graph))

    def ride(self, latencies: Floats, devices: Flags) -> Floats:
        """Return [..., device, 2] what an operator takes as a rider on some devices.

        Args:
            latencies: [..., device, 2] Its latency in us in a launch of its own, and memory's part of it.
            devices: [device] Where it is a rider.
        """
        us = np.maximum(latencies[..., 0] - latencies[..., 1] - self._launch_us, 0.0)
        return np.where(devices[:, None], np.stack([us, np.zeros_like(us)], axis=-1), latencies)

    @cached_property
    def _wholes_us(self) -> Mapping[tuple[str, int, int], float]:
        """By last operator, operators before it and device, latencies by the models of fused kernels."""
        wanted: dict[tuple[str, int], dict[int, Selection]] = {}
        for name in self._kernels:
            last = self._graph.nodes_by_name[name]
            for device in range(len(self._predictors)):
                for count, kernel in self.list_choices(last, device):
                    if kernel is not None:  # the preferred one counts
                        wanted.setdefault((name, count), {}).setdefault(device, kernel)
        lasts = [self._graph.nodes_by_name[name] for name, _ in wanted]
        regions = [Region.whole(self._graph.shape(last.output)) for last in lasts]
        launches = [
            (last, kernels, [region])
            for last, kernels, region in zip(lasts, wanted.values(), regions, strict=True)
        ]
        found = predict_regions(launches, self._graph, self._predictors)
        return {
            (*key, device): latencies[device, region].us
            for key, kernels, region, latencies in zip(wanted, wanted.values(), regions, found, strict=True)
            for device in kernels
        }

    @cached_property
    def _kernels(self) -> Mapping[str, Sequence[Sequence[tuple[int, Selection]]]]:
        """By name of a last operator and by device, the fused kernels with how many operators come before."""
        found = {node.name: self._list_kernels(node) for node in self._graph.nodes}
        return {name: by_device for name, by_device in found.items() if any(by_device)}

    def _list_kernels(self, node: Node) -> Sequence[Sequence[tuple[int, Selection]]]:
        graph = self._graph
        first = graph.producers.get(node.inputs[0]) if node.inputs else None
        if first is None or first.output in graph.ends or len(graph.consumers[first.output]) > 1:
            return ()
        return [list(list_pairs(node, graph, one.info)) for one in self._predictors]


def _count_products(node: Node, graph: Graph) -> int:
    """Return how many products an operator sums, or how many values it has."""
    window = prod(graph.shape(node.inputs[1])[1:]) if isinstance(node.op, Conv2d) else 1
    return window * prod(graph.shape(node.output))

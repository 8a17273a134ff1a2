"""Operators that devices compute in one launch, and what they take then.

A profile knows such launches where they were measured. Elsewhere all but the one with most arithmetic ride
along: beside what that one takes alone each costs its arithmetic, but no launch and no traffic, for what lies
between them never leaves the caches.
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
from codl.ir.regions import Boxes, OutputBoxes, Region
from codl.latency.predictor import Predictor
from codl.latency.question import Question
from codl.latency.questions import answer_questions
from codl.partitioner.arrays import Flags, Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Operators that some devices compute in one launch, each but the last read by the next one alone."""

    nodes: tuple[Node, ...]
    """In order."""
    main: Node
    """The one that does most."""
    devices: Flags
    """[device]"""

    @property
    def last(self) -> Node:
        """The one whose output is read by others."""
        return self.nodes[-1]


class Pairs:
    """The groups of a network.

    Args:
        graph: The network.
        predictors: One for each device.
    """

    def __init__(self, graph: Graph, predictors: Sequence[Predictor]) -> None:
        self._graph, self._predictors = graph, tuple(predictors)
        self._launch_us = np.array([one.profile.launch_us for one in predictors])

    @cached_property
    def ways(self) -> Mapping[str, Sequence[Sequence[int]]]:
        """By name of a last node and by device, numbers of nodes before it that its launch may compute."""
        found = self._selections.items()
        return {name: [[count for count, _ in device] for device in ways] for name, ways in found}

    @cached_property
    def groups(self) -> Sequence[Group]:
        """All of them, those with the same last node included."""
        found = []
        for name, ways in self.ways.items():
            for count in sorted({count for counts in ways for count in counts}):
                last = self._graph.nodes_by_name[name]
                before = list_before(last, self._graph, count)
                assert before is not None
                nodes = *before, last
                devices = np.array([count in counts for counts in ways])
                found.append(Group(nodes=nodes, main=self.find_main(nodes), devices=devices))
        return found

    @cached_property
    def by_rider(self) -> Mapping[str, Sequence[Group]]:
        """By name of a node, the groups in which it rides along."""
        found: dict[str, list[Group]] = {}
        for group in self.groups:
            for node in group.nodes:
                if node is not group.main:
                    found.setdefault(node.name, []).append(group)
        return found

    def list_choices(self, node: Node, device: int) -> Sequence[tuple[int, Selection | None]]:
        """Return how many nodes before one a device computes in its launch, the preferred number first.

        Each with what computes them where the device's profile knows that, else with None.
        """
        predictor = self._predictors[device]
        return [
            (count, how if predictor.is_known(how.implementation.name) else None)
            for count, how in self._selections.get(node.name, [()] * (device + 1))[device]
        ]

    def find_whole_us(self, group: Group, alone_us: Floats) -> Floats:
        """Return [device] what a group takes whole.

        Args:
            group: The group.
            alone_us: [device] What it takes as far as it is known by its nodes.
        """
        found, count = np.array(alone_us, np.float64), len(group.nodes) - 1
        for device in np.flatnonzero(group.devices).tolist():
            found[device] = self._wholes_us.get((group.last.name, count, device), found[device])
        return found

    def find_known_us(self, last: Node, count: int, device: int) -> float:
        """Return what a launch takes whole that a profile knows: of a node and so many before it."""
        return self._wholes_us[last.name, count, device]

    def find_main(self, nodes: Sequence[Node]) -> Node:
        """Return the one of a group that does most."""
        return max(nodes, key=lambda node: _count_products(node, self._graph))

    def ride(self, times: Floats, riding: Flags) -> Floats:
        """Return [..., device, 2] times and memory's part of them, less what devices save that it rides on.

        Args:
            times: What a node takes by itself.
            riding: [device]
        """
        us = np.maximum(times[..., 0] - times[..., 1] - self._launch_us, 0.0)
        return np.where(riding[:, None], np.stack([us, np.zeros_like(us)], axis=-1), times)

    @cached_property
    def _wholes_us(self) -> Mapping[tuple[str, int, int], float]:
        """By last node, nodes before it and device, what a launch takes whole that a profile knows."""
        wanted: dict[tuple[str, int], dict[int, Selection]] = {}
        for name in self._selections:
            last = self._graph.nodes_by_name[name]
            for device in range(len(self._predictors)):
                for count, how in self.list_choices(last, device):
                    if how is not None:  # the preferred way counts
                        wanted.setdefault((name, count), {}).setdefault(device, how)
        lasts = [self._graph.nodes_by_name[name] for name, _ in wanted]
        regions = [Region.whole(self._graph.shape(last.output)) for last in lasts]
        launches = [
            (last, hows, [region]) for last, hows, region in zip(lasts, wanted.values(), regions, strict=True)
        ]
        found = time_launches(launches, self._graph, self._predictors)
        return {
            (*key, device): times[device, region][0]
            for key, hows, region, times in zip(wanted, wanted.values(), regions, found, strict=True)
            for device in hows
        }

    @cached_property
    def _selections(self) -> Mapping[str, Sequence[Sequence[tuple[int, Selection]]]]:
        """By name of a last node and by device, how many nodes before it may be computed with it, and how."""
        found = {node.name: self._list_ways(node) for node in self._graph.nodes}
        return {name: ways for name, ways in found.items() if any(ways)}

    def _list_ways(self, node: Node) -> Sequence[Sequence[tuple[int, Selection]]]:
        graph = self._graph
        first = graph.producers.get(node.inputs[0]) if node.inputs else None
        if first is None or first.output in graph.ends or len(graph.consumers[first.output]) > 1:
            return ()
        return [list(list_pairs(node, graph, one.info)) for one in self._predictors]


def time_launches(
    launches: Sequence[tuple[Node, Mapping[int, Selection], Sequence[Region]]],
    graph: Graph,
    predictors: Sequence[Predictor],
) -> list[dict[tuple[int, Region], tuple[float, float]]]:
    """Return what launches of several operators take, by device and region, and memory's part of it, in us.

    Args:
        launches: The last operator of each, by device what computes all, regions of the last one's output.
        graph: The network.
        predictors: Of the devices; each knows what it is asked about.
    """
    found: list[dict[tuple[int, Region], tuple[float, float]]] = [{} for _ in launches]
    alike: dict[tuple[int, ...], list[int]] = {}
    for place, (_, hows, _) in enumerate(launches):
        alike.setdefault(tuple(hows), []).append(place)
    for devices, places in alike.items():
        asked = [launches[place] for place in places]
        nodes, boxes = [node for node, _, _ in asked], [Boxes.of(regions) for _, _, regions in asked]
        questions = [
            Question(node=node, out=out, selections=tuple(hows.values()))
            for (node, hows, _), out in zip(asked, OutputBoxes.find_all(nodes, graph, boxes), strict=True)
        ]
        answers = answer_questions(questions, graph, [predictors[device] for device in devices])
        keys = [(place, region) for place in places for region in launches[place][2]]
        for device, *times in zip(devices, answers.us.tolist(), answers.memory_us.tolist(), strict=True):
            for (place, region), us, memory_us in zip(keys, *times, strict=True):
                found[place][device, region] = us, memory_us
    return found


def _count_products(node: Node, graph: Graph) -> int:
    """Return how many products an operator sums, or how many values it has."""
    window = prod(graph.shape(node.inputs[1])[1:]) if isinstance(node.op, Conv2d) else 1
    return window * prod(graph.shape(node.output))

"""What slices, publications and transfers of one network take: a predictor is asked once about each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from codl.catalog.rows.copy import COPY_ROW, concat_batches
from codl.catalog.spec import Selection
from codl.devices.memory import count_runs
from codl.ir.graph import FLOAT_BYTES, Graph, Node, Shape
from codl.ir.regions import Boxes, OutputBoxes, Region
from codl.latency.predictor import Predictor
from codl.latency.profile import KIB
from codl.latency.question import Question
from codl.latency.questions import answer_questions
from codl.partitioner.pairs import Pairs, time_launches
from codl.partitioner.sorts import Sorts
from codl.partitioner.tables import Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Time:
    """Of one slice on one device working alone."""

    us: float
    memory_us: float
    """As much of it as memory limits."""


@dataclass(frozen=True, kw_only=True)
class Durations:
    """Remembers what predictors have said."""

    graph: Graph
    predictors: Mapping[str, Predictor]
    """By device name."""
    tables: Tables | None = field(default=None, repr=False)
    """What was predicted before, for the same devices in the same order."""
    _known: dict[tuple[str, int, Region], Time] = field(default_factory=dict, repr=False)
    _together: dict[tuple[str, str, str, Region], Time] = field(default_factory=dict, repr=False)
    _rests: dict[tuple[str, str, Region, frozenset[str]], Time] = field(default_factory=dict, repr=False)
    _publications: dict[tuple[str, Shape, Region], float] = field(default_factory=dict, repr=False)
    _sharing: dict[tuple[str, str], tuple[float, float, float]] = field(default_factory=dict, repr=False)
    _pairs: dict[tuple[str, ...], Pairs] = field(default_factory=dict, repr=False)

    def learn(self, slices: Iterable[tuple[Node, str, Region]]) -> None:
        """Ask the predictors about all slices at once: one question for each sort of operator.

        Args:
            slices: Operators with the name of a device and the region that it computes.
        """
        wanted: dict[int, tuple[Node, dict[str, None], dict[Region, None]]] = {}
        for node, device, region in slices:
            sort = self._sorts.find(node)
            key = device, sort, region
            if key in self._known:
                continue
            found_before = self._look_up(node, device, region)
            if found_before is not None:
                self._known[key] = found_before
                continue
            _, devices, regions = wanted.setdefault(sort, (node, {}, {}))
            devices[device] = regions[region] = None
        alike: dict[frozenset[str], list[int]] = {}
        for sort, (_, devices, _) in wanted.items():
            alike.setdefault(frozenset(devices), []).append(sort)
        for names, sorts in alike.items():
            mine = [name for name in self.predictors if name in names]
            self._ask(mine, [(sort, wanted[sort][0], list(wanted[sort][2])) for sort in sorts])

    def _ask(self, devices: Sequence[str], wanted: Sequence[tuple[int, Node, Sequence[Region]]]) -> None:
        """Ask predictors of devices about regions of operators, each with the number of its sort."""
        predictors, nodes = [self.predictors[name] for name in devices], [node for _, node, _ in wanted]
        outs = OutputBoxes.find_all(nodes, self.graph, [Boxes.of(regions) for *_, regions in wanted])
        questions = [
            Question(
                node=node,
                out=out,
                selections=tuple([self._choose(node, name) for name in devices]),
            )
            for node, out in zip(nodes, outs, strict=True)
        ]
        found = answer_questions(questions, self.graph, predictors)
        keys = [(sort, region) for sort, _, regions in wanted for region in regions]
        for place, name in enumerate(devices):
            times = zip(keys, found.us[place].tolist(), found.memory_us[place].tolist(), strict=True)
            for (sort, region), us, slow in times:
                self._known[name, sort, region] = Time(us=us, memory_us=slow)

    def _choose(self, node: Node, device: str) -> Selection:
        """Return what computes a node on a device."""
        if self.tables is None:
            return self.predictors[device].choose(node, self.graph)
        return self.tables.find(node).selections[self._places[device]]

    def find_pairs(self, devices: tuple[str, ...]) -> Pairs:
        """Return the pairs of the network on some devices."""
        if self.tables is not None and devices == tuple(self.predictors):
            return self.tables.pairs
        if devices not in self._pairs:
            self._pairs[devices] = Pairs(self.graph, [self.predictors[name] for name in devices])
        return self._pairs[devices]

    def time(self, node: Node, device: str, region: Region) -> Time:
        """Return what a slice takes that `learn` was told of."""
        return self._known[device, self._sorts.find(node), region]

    def learn_together(self, launches: Iterable[tuple[Node, Selection, str, Region]]) -> None:
        """Ask the predictors about all launches of several operators at once.

        Args:
            launches: The last operator of each, what computes them all, the name of the device and the region
                of the last one's output.
        """
        wanted: dict[tuple[str, str], tuple[Node, dict[int, Selection], dict[Region, None]]] = {}
        for last, how, device, region in launches:
            key = last.name, how.implementation.name
            if (*key, device, region) not in self._together:
                _, hows, regions = wanted.setdefault(key, (last, {}, {}))
                hows[self._places[device]], regions[region] = how, None
        names, predictors = list(self.predictors), list(self.predictors.values())
        asked = [(last, hows, list(regions)) for last, hows, regions in wanted.values()]
        for key, times in zip(wanted, time_launches(asked, self.graph, predictors), strict=True):
            for (place, region), (us, memory_us) in times.items():
                self._together[*key, names[place], region] = Time(us=us, memory_us=memory_us)

    def time_together(self, last: Node, how: Selection, device: str, region: Region) -> Time:
        """Return what a launch of several operators takes that `learn_together` was told of."""
        return self._together[last.name, how.implementation.name, device, region]

    def time_rest(self, node: Node, device: str, region: Region, inside: frozenset[str]) -> Time:
        """Return what a concatenation takes when some inputs lie inside its output already."""
        key = node.name, device, region, inside
        if key not in self._rests:
            self._rests[key] = self._predict_rest(node, self.predictors[device], region, inside)
        return self._rests[key]

    def _predict_rest(self, node: Node, predictor: Predictor, region: Region, inside: frozenset[str]) -> Time:
        if inside.issuperset(node.inputs):
            return Time(us=0.0, memory_us=0.0)
        batches = [
            batch
            for batch in concat_batches(node, self.graph, Boxes.of([region]), predictor.info)
            if batch.tensors[1].name not in inside
        ]
        if not batches:
            return Time(us=0.0, memory_us=0.0)
        found = predictor.predict_launches(Selection(implementation=COPY_ROW, parameters={}), batches)
        us = float(found.us[0])
        return Time(us=us, memory_us=us * float(found.memory_share[0]))

    def time_publication(self, shape: Shape, region: Region, predictor: Predictor) -> float:
        """Return what it takes to copy a region to where all devices see it, in us."""
        key = predictor.info.name, shape, region
        if key not in self._publications:
            us = predictor.predict_publish("published", shape, Boxes.of([region]))
            self._publications[key] = float(us[0])
        return self._publications[key]

    def find_sharing(self, kind: str, predictor: Predictor) -> tuple[float, float, float]:
        """Return what a transfer, each of its bytes and each of its runs of bytes cost, in us."""
        key = predictor.info.name, kind
        if key not in self._sharing:
            unit = np.eye(3)
            found = predictor.predict_sharing(kind, calls=unit[0], bytes_=unit[1], rows=unit[2])
            call, byte, row = found.tolist()
            self._sharing[key] = call, byte, row
        return self._sharing[key]

    def time_move(self, kind: str, tensor: str, region: Region, predictor: Predictor) -> float:
        """Return what it takes to move a region of a tensor in one of the ways that profiles know, in us."""
        runs = count_runs(region, Region.whole(self.graph.shape(tensor)))
        call, byte, row = self.find_sharing(kind, predictor)
        return call + byte * region.size * FLOAT_BYTES + row * runs

    def _look_up(self, node: Node, device: str, region: Region) -> Time | None:
        if self.tables is None:
            return None
        found = self.tables.look_up(node, self._places[device], region)
        return None if found is None else Time(us=found[0], memory_us=found[1])

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {name: place for place, name in enumerate(self.predictors)}

    @cached_property
    def _sorts(self) -> Sorts:
        return Sorts(self.graph) if self.tables is None else self.tables.sorts


def count_kib(region: Region) -> float:
    """Return how large a region of a tensor is, in KiB."""
    return region.size * FLOAT_BYTES / KIB

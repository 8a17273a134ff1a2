"""Latencies of the slices, copies and transfers of one network; predictors are asked once about each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from codl.catalog.rows.copy import COPY_ROW, concat_batches
from codl.catalog.spec import Selection
from codl.devices.memory import count_runs
from codl.ir.graph import FLOAT_BYTES, Graph, Node, Shape
from codl.ir.regions import Boxes, OutputBoxes, Region
from codl.latency.predictor import Predictor
from codl.latency.profile import KIB
from codl.latency.question import Question
from codl.latency.questions import answer_questions
from codl.simulator.fused import FusedLaunches, predict_fused
from codl.simulator.slices import OperatorClasses, SliceTables
from codl.simulator.transfers import find_costs


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Of one launch on a device that works alone."""

    us: float
    memory_us: float
    """The part of it that memory limits."""


@dataclass(frozen=True, kw_only=True)
class Latencies:
    """Predictions, remembered."""

    graph: Graph
    predictors: Mapping[str, Predictor]
    """By device name."""
    tables: SliceTables | None = field(default=None, repr=False)
    """Tables of the same devices, in the same order: what they have is not predicted again."""
    _slices: dict[tuple[str, int, Region], Latency] = field(default_factory=dict, repr=False)
    _fused: dict[tuple[str, str, str, Region], Latency] = field(default_factory=dict, repr=False)
    _concats: dict[tuple[str, str, Region, frozenset[str]], Latency] = field(default_factory=dict, repr=False)
    _publications: dict[tuple[str, Shape, Region], float] = field(default_factory=dict, repr=False)
    _transfers: dict[tuple[str, str], tuple[float, float, float]] = field(default_factory=dict, repr=False)
    _launches: dict[tuple[str, ...], FusedLaunches] = field(default_factory=dict, repr=False)

    def predict_slices(self, slices: Iterable[tuple[Node, str, Region]]) -> None:
        """Predict many slices at once, for `find_slice`: one question for each class of operators.

        Args:
            slices: Operators, each with the name of a device and the region that it computes.
        """
        wanted: dict[int, tuple[Node, dict[str, None], dict[Region, None]]] = {}
        for node, device, region in slices:
            number = self._classes.find(node)
            key = device, number, region
            if key in self._slices:
                continue
            known = None if self.tables is None else self.tables.look_up(node, self._places[device], region)
            if known is not None:
                self._slices[key] = Latency(us=known[0], memory_us=known[1])
                continue
            _, devices, regions = wanted.setdefault(number, (node, {}, {}))
            devices[device] = regions[region] = None
        alike: dict[frozenset[str], list[int]] = {}
        for number, (_, devices, _) in wanted.items():
            alike.setdefault(frozenset(devices), []).append(number)
        for names, numbers in alike.items():
            mine = [name for name in self.predictors if name in names]
            self._ask(mine, [(number, wanted[number][0], list(wanted[number][2])) for number in numbers])

    def find_slice(self, node: Node, device: str, region: Region) -> Latency:
        """Return the latency of a slice that `predict_slices` was given."""
        return self._slices[device, self._classes.find(node), region]

    def predict_fused(self, launches: Iterable[tuple[Node, Selection, str, Region]]) -> None:
        """Predict many fused launches at once, for `find_fused`.

        Args:
            launches: The last operator of each, the fused kernel, the name of the device and the region of
                the last one's output.
        """
        wanted: dict[tuple[str, str], tuple[Node, dict[int, Selection], dict[Region, None]]] = {}
        for last, kernel, device, region in launches:
            key = last.name, kernel.implementation.name
            if (*key, device, region) not in self._fused:
                _, kernels, regions = wanted.setdefault(key, (last, {}, {}))
                kernels[self._places[device]], regions[region] = kernel, None
        names, predictors = list(self.predictors), list(self.predictors.values())
        asked = [(last, kernels, list(regions)) for last, kernels, regions in wanted.values()]
        for key, found in zip(wanted, predict_fused(asked, self.graph, predictors), strict=True):
            for (place, region), (us, memory_us) in found.items():
                self._fused[*key, names[place], region] = Latency(us=us, memory_us=memory_us)

    def find_fused(self, last: Node, kernel: Selection, device: str, region: Region) -> Latency:
        """Return the latency of a fused launch that `predict_fused` was given."""
        return self._fused[last.name, kernel.implementation.name, device, region]

    def find_concat(self, node: Node, device: str, region: Region, inside: frozenset[str]) -> Latency:
        """Return the latency of a concatenation; inputs ``inside`` lie in its output and are not copied."""
        if inside.issuperset(node.inputs):
            return Latency(us=0.0, memory_us=0.0)
        key = node.name, device, region, inside
        if key not in self._concats:
            predictor = self.predictors[device]
            batches = [
                batch
                for batch in concat_batches(node, self.graph, Boxes.of([region]), predictor.info)
                if batch.tensors[1].name not in inside
            ]
            us = share = 0.0
            if batches:
                found = predictor.predict_launches(Selection(implementation=COPY_ROW, parameters={}), batches)
                us, share = float(found.us[0]), float(found.memory_share[0])
            self._concats[key] = Latency(us=us, memory_us=us * share)
        return self._concats[key]

    def find_publication_us(self, shape: Shape, region: Region, predictor: Predictor) -> float:
        """Return what it takes in us to copy a region of a tensor to where all devices see it."""
        key = predictor.info.name, shape, region
        if key not in self._publications:
            us = predictor.predict_publish("published", shape, Boxes.of([region]))
            self._publications[key] = float(us[0])
        return self._publications[key]

    def find_transfer_us(self, kind: str, tensor: str, region: Region, predictor: Predictor) -> float:
        """Return what it takes in us to `read`, `write`, `map` or `unmap` a region of a tensor."""
        key = predictor.info.name, kind
        if key not in self._transfers:
            call, byte, row = find_costs(predictor, (kind,)).tolist()
            self._transfers[key] = call, byte, row
        call, byte, row = self._transfers[key]
        runs = count_runs(region, Region.whole(self.graph.shape(tensor)))
        return call + byte * region.size * FLOAT_BYTES + row * runs

    def list_fused(self, devices: tuple[str, ...]) -> FusedLaunches:
        """Return the fused launches of the network on some devices."""
        if self.tables is not None and devices == tuple(self.predictors):
            return self.tables.fused
        if devices not in self._launches:
            predictors = [self.predictors[name] for name in devices]
            self._launches[devices] = FusedLaunches(self.graph, predictors)
        return self._launches[devices]

    def _ask(self, devices: Sequence[str], wanted: Sequence[tuple[int, Node, Sequence[Region]]]) -> None:
        """Predict regions of operators, each with the number of its class, on some devices."""
        predictors, nodes = [self.predictors[name] for name in devices], [node for _, node, _ in wanted]
        outs = OutputBoxes.find_all(nodes, self.graph, [Boxes.of(regions) for *_, regions in wanted])
        questions = [
            Question(node=node, out=out, selections=tuple([self._choose(node, name) for name in devices]))
            for node, out in zip(nodes, outs, strict=True)
        ]
        found = answer_questions(questions, self.graph, predictors)
        keys = [(number, region) for number, _, regions in wanted for region in regions]
        for place, name in enumerate(devices):
            columns = found.us[place].tolist(), found.memory_us[place].tolist()
            for (number, region), us, memory_us in zip(keys, *columns, strict=True):
                self._slices[name, number, region] = Latency(us=us, memory_us=memory_us)

    def _choose(self, node: Node, device: str) -> Selection:
        """Return the kernel that computes an operator on a device."""
        if self.tables is None:
            return self.predictors[device].choose(node, self.graph)
        return self.tables.find(node).selections[self._places[device]]

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {name: place for place, name in enumerate(self.predictors)}

    @cached_property
    def _classes(self) -> OperatorClasses:
        return OperatorClasses(self.graph) if self.tables is None else self.tables.classes


def count_kib(region: Region) -> float:
    """Return the size of a region of a tensor in KiB."""
    return region.size * FLOAT_BYTES / KIB

"""Latencies of the slices, copies and transfers of one network; each is predicted once."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from codl.catalog.rows.copy import COPY_ROW, concat_batches
from codl.catalog.spec import Selection
from codl.devices.memory import count_runs
from codl.ir.graph import FLOAT_BYTES, Graph, Node, Shape
from codl.ir.regions import Boxes, Region
from codl.latency.predictor import Predictor
from codl.latency.profile import KIB
from codl.latency.questions import Latency, predict_regions
from codl.simulator.fused import FusedLaunches
from codl.simulator.slices import OperatorClasses, SliceTables

_Wanted = dict[object, tuple[Node, dict[int, Selection], dict[Region, None]]]
"""By class or fused kernel: an operator, what computes it by device, regions of its output."""


@dataclass(frozen=True, kw_only=True)
class Latencies:
    """Predictions of one network; each is kept."""

    graph: Graph
    predictors: Mapping[str, Predictor]
    """By device name."""
    tables: SliceTables | None = field(default=None, repr=False)
    """Of the same devices in the same order; what they hold is not predicted again."""
    _launches: dict[tuple[object, str, Region], Latency] = field(default_factory=dict, repr=False)
    """By class of operators, or name of a last operator and of a fused kernel, then by device and region."""
    _concats: dict[tuple[str, str, Region, frozenset[str]], Latency] = field(default_factory=dict, repr=False)
    _publications: dict[tuple[str, Shape, Region], float] = field(default_factory=dict, repr=False)
    _transfers: dict[tuple[str, str], tuple[float, float, float]] = field(default_factory=dict, repr=False)
    _fused: dict[tuple[str, ...], FusedLaunches] = field(default_factory=dict, repr=False)
    """By the names of a plan's devices."""

    def predict_slices(self, slices: Iterable[tuple[Node, str, Region]]) -> None:
        """Predict many slices at once, for `find_slice`: one question for each class of operators.

        Args:
            slices: Operators, each with the name of a device and the region that it computes.
        """
        wanted: _Wanted = {}
        for node, device, region in slices:
            number, place = self._classes.find(node), self._places[device]
            key = number, device, region
            if key in self._launches:
                continue
            known = None if self.tables is None else self.tables.look_up(node, place, region)
            if known is not None:
                self._launches[key] = Latency(us=known[0], memory_us=known[1])
                continue
            _, kernels, regions = wanted.setdefault(number, (node, {}, {}))
            regions[region] = None
            if place not in kernels:
                kernels[place] = self._choose(node, device)
        self._predict(wanted)

    def find_slice(self, node: Node, device: str, region: Region) -> Latency:
        """Return the latency of a slice that `predict_slices` was given."""
        return self._launches[self._classes.find(node), device, region]

    def predict_fused(self, launches: Iterable[tuple[Node, Selection, str, Region]]) -> None:
        """Predict many fused launches at once, for `find_fused`.

        Args:
            launches: The last operator of each, the fused kernel, the name of the device and the region of
                the last one's output.
        """
        wanted: _Wanted = {}
        for last, kernel, device, region in launches:
            key = last.name, kernel.implementation.name
            if (key, device, region) not in self._launches:
                _, kernels, regions = wanted.setdefault(key, (last, {}, {}))
                kernels[self._places[device]], regions[region] = kernel, None
        self._predict(wanted)

    def find_fused(self, last: Node, kernel: Selection, device: str, region: Region) -> Latency:
        """Return the latency of a fused launch that `predict_fused` was given."""
        return self._launches[(last.name, kernel.implementation.name), device, region]

    def _predict(self, wanted: _Wanted) -> None:
        """Predict launches that are not known yet."""
        names, predictors = list(self.predictors), list(self.predictors.values())
        asked = [(node, kernels, list(regions)) for node, kernels, regions in wanted.values()]
        for key, found in zip(wanted, predict_regions(asked, self.graph, predictors), strict=True):
            for (place, region), latency in found.items():
                self._launches[key, names[place], region] = latency

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
            call, byte, row = predictor.find_transfer_us(kind).tolist()
            self._transfers[key] = call, byte, row
        call, byte, row = self._transfers[key]
        runs = count_runs(region, Region.whole(self.graph.shape(tensor)))
        return call + byte * region.size * FLOAT_BYTES + row * runs

    def list_fused(self, devices: tuple[str, ...]) -> FusedLaunches:
        """Return the fused launches of the network on some devices."""
        if self.tables is not None and devices == tuple(self.predictors):
            return self.tables.fused
        if devices not in self._fused:
            predictors = [self.predictors[name] for name in devices]
            self._fused[devices] = FusedLaunches(self.graph, predictors)
        return self._fused[devices]

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

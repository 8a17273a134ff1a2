"""What is measured: one operator, the kernel that computes it, and which part of its output."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, islice
from typing import Any

import numpy as np

from codl.catalog.layers import Layer, fill_constants
from codl.catalog.spec import LaunchBatch, PackedArg, Selection
from codl.devices.launch import bind_alone
from codl.devices.loads import Call, prepare_read, prepare_write
from codl.devices.memory import Storage, place_constant
from codl.devices.pools import ActivationPool, ConstantPool
from codl.devices.reference import CACHED_BYTES
from codl.devices.stopwatch import Stopwatch
from codl.ir.graph import FLOAT_BYTES, FloatArray, Graph, Node
from codl.ir.regions import Boxes, Region, input_regions
from codl.latency.features import count_constants
from codl.machine import DeviceInfo

_PLAY_SECONDS, _MOST_PLAYS = 3e-4, 4
"""A reading plays a case for about this long: the clocks of devices tick in us."""


@dataclass(frozen=True, slots=True)
class _Play:
    launches: Sequence[Call]
    """What enqueues the kernels, each returning its event."""
    before: Sequence[Call]
    """What enqueues that which comes before them and is not counted."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A slice of an operator, computed by one implementation."""

    layer: Layer
    selection: Selection
    region: Region
    """Of the output."""
    are_constants_far: bool = False
    """Whether its constants come from memory, and not from a cache that cores share."""

    @cached_property
    def key(self) -> str:
        """Text by which the case is known."""
        row, parameters = self.selection.implementation.name, sorted(self.selection.parameters.items())
        far = " far" if self.are_constants_far else ""
        return f"{row} {parameters} {self.layer.key} {self.region.begin}{self.region.end}{far}"

    @cached_property
    def graph(self) -> Graph:
        """The operator alone; its constants are outlines without memory of their own."""
        return self.layer.make_graph()

    @property
    def node(self) -> Node:
        """The last node, and as a rule the only one."""
        return self.graph.nodes[-1]

    @property
    def size_bytes(self) -> int:
        """All tensors of the operator together, constants counted twice: as they are and packed."""
        sizes = [
            int(np.prod(tensor.shape)) * (2 if name in self.graph.constants else 1)
            for name, tensor in self.graph.tensors.items()
        ]
        return sum(sizes) * FLOAT_BYTES

    def find_needs(self) -> dict[str, Region]:
        """Return what is read of each tensor, or, of the output, written."""
        needs = {self.node.output: self.region}
        for node in reversed(self.graph.nodes):
            regions = input_regions(node, self.graph, needs[node.output])
            needs.update(zip(node.inputs, regions, strict=True))
        return needs


class PreparedCase:
    """A case bound to a device, its operands in memory; it runs as often as it is asked to.

    In a network an operator finds its input just written and its weights long out of the core's own caches.
    So before each run near weights are read, the caches are swept, and output and input are written anew,
    none of which is counted.

    Args:
        case: What to run.
        stopwatch: What times it, on which device.
        sweep: Enqueues something that fills the caches with other data.
        pool: Where its weights are.
        activations: Where its activations are; by default in memory of their own.
        places: Places for its operands, which plays take in turn: where they lie to each other in a network
            nobody knows.

    Raises:
        BuildError: The driver refused a kernel.
        DeviceError: The driver refused memory.
    """

    def __init__(
        self,
        case: Case,
        stopwatch: Stopwatch,
        sweep: Call,
        pool: ConstantPool,
        *,
        activations: ActivationPool | None = None,
        places: int = 1,
    ) -> None:
        self.case = case
        self._stopwatch, self._device, self._pool = stopwatch, stopwatch.device, pool
        self._activations = activations or ActivationPool(self._device, least_floats=0)
        self._keep: list[Any] = []
        """Pools may grow under those who use them."""
        self._plays = 1
        self._sweep = sweep
        self._batches, self._needs = _describe(case, self._device.info), case.find_needs()
        self._places = tuple(self._prepare(sweep) for _ in range(places))
        self._turns = cycle(self._places)

    @property
    def enqueues(self) -> Sequence[Call]:
        """What enqueues its kernels, one call each, and nothing else."""
        return self._places[0].launches

    def run(self) -> float:
        """Run it once in each place and return how long its kernels took at best, in seconds."""
        times = [self._stopwatch.time(place.launches, before=place.before) for place in self._places]
        # what is far is not so a second time in the same place
        most = min(_MOST_PLAYS, len(self._places)) if self.case.are_constants_far else _MOST_PLAYS
        self._plays = int(np.clip(_PLAY_SECONDS / max(min(times), 1e-9), 1, most))
        return min(times)

    def read(self) -> float:
        """Return what its kernels take in seconds: the median of several plays if they are short.

        Caches are swept first; meanwhile the host hands over the rest.
        """
        groups: list[Sequence[Call]] = [[self._sweep]]
        for play in islice(self._turns, self._plays):
            groups += play.before, play.launches
        return float(np.median(self._stopwatch.time_groups(groups)[0, 2::2]))

    def _prepare(self, sweep: Call) -> _Play:
        """Return the case with its operands in a place of their own."""
        graph, output = self.case.graph, self.case.node.output
        used = {arg.name for batch in self._batches for arg in batch.tensors}
        reads: list[Call] = []
        storages = self._place(sorted(used | {output}), reads)
        writes = {
            name: prepare_write(self._device, storages[name], self._needs[name])
            for name in (output, *(name for name in graph.inputs if name in used))
            if not self._needs[name].is_empty
        }
        for name in storages.keys() - writes.keys() - graph.constants.keys():
            prepare_write(self._device, storages[name], storages[name].region)()
        launches = bind_alone(
            self._device,
            self.case.selection,
            self._batches,
            storages=storages,
            find_panels=lambda packed, begin, end: self._take_panels(packed, end - begin, reads),
            take_scratch=self._activations.take_scratch,
        )
        self._keep += storages.values(), launches
        return _Play([launch.enqueue for launch in launches], (*reads, sweep, *writes.values()))

    def _take_panels(self, packed: PackedArg, count: int, reads: list[Call]) -> Any:
        """Return panels of random weights; real ones are packed only where nothing else tells their size."""
        floats = packed.panel_floats
        if floats is None:
            floats = packed.count_panel_floats(fill_constants(self.case.graph))
        return self._take(count * floats, reads)[0]

    def _place(self, names: Sequence[str], reads: list[Call]) -> dict[str, Storage]:
        """Return tensors on the device: constants in ONNX order, activations in storage order."""
        whole = {name: Region.whole(self.case.graph.shape(name)) for name in names}
        constants = [name for name in names if name in self.case.graph.constants]
        storages = self._activations.place({name: whole[name] for name in names if name not in constants})
        for name in constants:
            storages[name] = place_constant(whole[name].shape, *self._take(whole[name].size, reads))
        return storages

    def _take(self, floats: int, reads: list[Call]) -> tuple[Any, FloatArray]:
        """Return constants; what reads near ones joins ``reads``."""
        if self.case.are_constants_far:
            taken = self._pool.take_far(floats)
        else:
            taken = self._pool.take_near(floats)
            reads.append(prepare_read(self._device, taken[0], floats))
        self._keep.append(taken)
        return taken


def count_memory_bytes(case: Case, info: DeviceInfo) -> float:
    """Return about how many bytes of what a case reads and writes pass between caches and memory."""
    batches = _describe(case, info)
    moved = float(sum(batch.read_bytes[0] + batch.written_bytes[0] for batch in batches))
    return max(_sum_constants(batches) if case.are_constants_far else 0.0, moved - CACHED_BYTES)


def count_constant_bytes(case: Case, info: DeviceInfo) -> float:
    """Return how many bytes of packed constants a case reads, those apart that no kernel packs."""
    return _sum_constants(_describe(case, info))


def _sum_constants(batches: Sequence[LaunchBatch]) -> float:
    return float(sum(count_constants(batch)[0] for batch in batches))


def _describe(case: Case, info: DeviceInfo) -> tuple[LaunchBatch, ...]:
    row, parameters = case.selection.implementation, case.selection.parameters
    return row.describe(case.node, case.graph, Boxes.of([case.region]), info, parameters)

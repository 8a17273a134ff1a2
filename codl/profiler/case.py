"""What is measured: one operator, the kernel that computes it, and which part of its output."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from codl.catalog.layers import Layer, fill_constants
from codl.catalog.spec import LaunchBatch, PackedArg, Selection
from codl.devices.images import Images
from codl.devices.launch import BoundLaunch, bind_launch
from codl.devices.loads import Call, prepare_write
from codl.devices.memory import Storage
from codl.devices.stopwatch import Stopwatch
from codl.ir.graph import FLOAT_BYTES, FloatArray, Graph, Node, Shape
from codl.ir.regions import Boxes, Region, input_regions
from codl.machine import DeviceInfo
from codl.profiler.guard import Guard, Reading
from codl.profiler.pools import ActivationPool, ConstantPool, are_large

_PLAY_SECONDS, _MOST_PLAYS = 3e-4, 3
"""A run plays a case for about this long: the clocks of devices tick in us, and so do disturbances."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A slice of an operator, computed by one implementation."""

    layer: Layer
    selection: Selection
    region: Region
    """Of the output."""

    @cached_property
    def key(self) -> str:
        """Text by which the case is known."""
        row, parameters = self.selection.implementation.name, sorted(self.selection.parameters.items())
        return f"{row} {parameters} {self.layer.key} {self.region.begin}{self.region.end}"

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

    In a network an operator finds its input just written and its weights long out of the caches. So before
    each run the caches are swept, and output and input are written anew, none of which is counted.

    Args:
        case: What to run.
        stopwatch: What times it, on which device.
        sweep: Enqueues something that fills the caches with other data.
        pool: Where its weights are.
        activations: Where its activations are; by default in memory of their own.

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
    ) -> None:
        self.case = case
        self._stopwatch, self._device, self._pool = stopwatch, stopwatch.device, pool
        self._keep: list[Any] = []
        """The pool may grow under those who use it."""
        self.has_large_weights = False
        """Whether its weights come from memory."""
        self._plays, self._is_known = 1, False
        node, graph = case.node, case.graph
        row, parameters = case.selection.implementation, case.selection.parameters
        batches = row.describe(node, graph, Boxes.of([case.region]), self._device.info, parameters)
        used = {arg.name for batch in batches for arg in batch.tensors}
        activations = activations or ActivationPool(self._device, least_floats=0)
        self._storages = self._place(sorted(used | {node.output}), activations)
        needs = case.find_needs()
        self._before: list[Call] = [sweep]
        for name in (node.output, *(name for name in graph.inputs if name in used)):
            region = needs[name]
            if not region.is_empty:
                self._before.append(prepare_write(self._device, self._storages[name], region))
        floats = max((int(batch.scratch[0]) for batch in batches if batch.scratch is not None), default=0)
        scratch = activations.take_scratch(floats) if floats else None
        images = Images(self._device)
        bound = [self._bind(batch, scratch, images) for batch in batches]
        self._launches = tuple(launch for launch in bound if launch is not None)

    @property
    def enqueues(self) -> tuple[Call, ...]:
        """What enqueues its kernels, one call each, and nothing else."""
        return tuple(launch.enqueue for launch in self._launches)

    def run(self) -> float:
        """Run it and return how long its kernels took, in seconds; a short one runs several times."""
        seconds = self._stopwatch.time(self.enqueues, before=self._before, plays=self._plays)
        if not self._is_known:
            self._is_known = True
            self._plays = int(np.clip(_PLAY_SECONDS / max(seconds, 1e-9), 1, _MOST_PLAYS))
        return seconds

    def read(self, guard: Guard) -> Reading:
        """Run it between two readings of a guard."""
        plays = guard.surround(self.enqueues, before=self._before, plays=self._plays)
        before, taken, after = np.median(plays, axis=0).tolist()
        return guard.relate(before, taken, after)

    def _bind(self, batch: LaunchBatch, scratch: Any, images: Images) -> BoundLaunch | None:
        row, parameters = self.case.selection.implementation, self.case.selection.parameters
        panels = []
        if batch.panel_begin is not None and batch.panel_end is not None:
            begin, end = int(batch.panel_begin[0]), int(batch.panel_end[0])
            panels = [self._panels(packed, begin, end) for packed in batch.packed]
        return bind_launch(
            self._device,
            batch,
            tensors=[images.find(arg) or self._storages[arg.name] for arg in batch.tensors],
            panels=panels,
            scratch=scratch,
            source=row.source,
            parameters=parameters,
        )

    def _panels(self, packed: PackedArg, begin: int, end: int) -> Any:
        """Return panels of random weights; real ones are packed only where nothing else tells their size."""
        floats = packed.panel_floats
        if floats is None:
            floats = packed.count_panel_floats(fill_constants(self.case.graph))
        return self._take((end - begin) * floats)[0]

    def _place(self, names: Sequence[str], activations: ActivationPool) -> dict[str, Storage]:
        """Return tensors on the device: constants in ONNX order, activations in storage order."""
        whole = {name: Region.whole(self.case.graph.shape(name)) for name in names}
        constants = [name for name in names if name in self.case.graph.constants]
        storages = activations.place({name: whole[name] for name in names if name not in constants})
        for name, storage in storages.items():
            prepare_write(self._device, storage, whole[name])()
        for name in constants:
            buffer, host = self._take(whole[name].size)
            strides = _row_major(whole[name].shape)
            storages[name] = Storage(region=whole[name], buffer=buffer, host=host, strides=strides)
        return storages

    def _take(self, floats: int) -> tuple[Any, FloatArray]:
        self.has_large_weights |= are_large(floats)
        taken = self._pool.take(floats)
        self._keep.append(taken)
        return taken


def _row_major(shape: Shape) -> tuple[int, ...]:
    return tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))


def count_bytes(case: Case, info: DeviceInfo) -> float:
    """Return the bytes that a case reads and writes."""
    row, parameters = case.selection.implementation, case.selection.parameters
    batches = row.describe(case.node, case.graph, Boxes.of([case.region]), info, parameters)
    return float(sum(batch.read_bytes[0] + batch.written_bytes[0] for batch in batches))

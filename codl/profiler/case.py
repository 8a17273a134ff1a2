"""Cases: one operator, the kernel that computes it, and a region of its output; and how a case is timed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2s
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

_NEAR_SHARE = 3
"""Near constants take at most the shared cache over this: activations need room in it, too."""
_PLAY_SECONDS, _MOST_PLAYS = 3e-4, 4
"""A reading plays a case for about this long, at most so often: clocks of devices tick in us."""
_PLACES = 4
"""For the operands of each case: their addresses change times by up to 10 %."""

_Play = tuple[Sequence[Call], Sequence[Call]]
"""What enqueues something before the kernels, which is not counted; what enqueues the kernels."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A slice of an operator, computed by one implementation."""

    layer: Layer
    selection: Selection
    region: Region
    """Of the output."""
    are_constants_far: bool = False
    """Whether its constants come from memory, and not from a cache that cores share."""
    repeat_of: float | None = None
    """When it was first measured, if this is a repetition; in seconds of the Unix epoch."""

    @cached_property
    def key(self) -> str:
        """Text that identifies the case in logs."""
        row, parameters = self.selection.implementation.name, sorted(self.selection.parameters.items())
        far = " far" if self.are_constants_far else ""
        return f"{row} {parameters} {self.layer.key} {self.region.begin}{self.region.end}{far}"

    @cached_property
    def graph(self) -> Graph:
        """The operator alone; its constants have shapes but no memory."""
        return self.layer.make_graph()

    @property
    def node(self) -> Node:
        """The last node, of whose output the case computes a region."""
        return self.graph.nodes[-1]

    @property
    def size_bytes(self) -> int:
        """Bytes of all tensors; constants count twice, as they are and packed."""
        sizes = [
            int(np.prod(tensor.shape)) * (2 if name in self.graph.constants else 1)
            for name, tensor in self.graph.tensors.items()
        ]
        return sum(sizes) * FLOAT_BYTES

    def find_needs(self) -> dict[str, Region]:
        """Return by tensor the region that is read, or written of the output."""
        needs = {self.node.output: self.region}
        for node in reversed(self.graph.nodes):
            regions = input_regions(node, self.graph, needs[node.output])
            needs.update(zip(node.inputs, regions, strict=True))
        return needs

    def describe(self, info: DeviceInfo) -> tuple[LaunchBatch, ...]:
        """Return the launches that compute the case."""
        row, parameters = self.selection.implementation, self.selection.parameters
        return row.describe(self.node, self.graph, Boxes.of([self.region]), info, parameters)

    def count_constant_bytes(self, info: DeviceInfo) -> float:
        """Return the bytes of packed constants that are read."""
        return float(sum(count_constants(batch)[0] for batch in self.describe(info)))

    def count_memory_bytes(self, info: DeviceInfo) -> float:
        """Return about how many bytes pass between caches and memory."""
        moved = float(sum(one.read_bytes[0] + one.written_bytes[0] for one in self.describe(info)))
        constants = self.count_constant_bytes(info) if self.are_constants_far else 0.0
        return max(constants, moved - CACHED_BYTES)

    def place_constants(self, info: DeviceInfo, shared_cache_bytes: int) -> "Case":
        """Return the case with its constants far where no cache has room for them, else in every second case.

        The choice depends on the key alone, so that a profiler that is started again asks for the same.

        Args:
            info: The device.
            shared_cache_bytes: What a cache that cores share keeps; 0 where memory is as fast: all are near.
        """
        constants = self.count_constant_bytes(info)
        if not constants or not shared_cache_bytes:
            return self
        is_drawn = bool(blake2s(self.key.encode()).digest()[0] % 2)
        return replace(self, are_constants_far=is_drawn or constants * _NEAR_SHARE > shared_cache_bytes)


class PreparedCase:
    """A case bound to a device, with its operands in memory, that can be timed any number of times.

    In a network the input of an operator was just written, and its weights have left the core's own caches.
    So before each run near weights are read, the caches are swept, and output and input are written anew;
    none of this is counted.

    Its operands have several places, which plays use in turn.

    Args:
        case: What to run.
        stopwatch: Times it on its device.
        sweep: Enqueues something that fills the caches with other data.
        pool: Memory for weights.
        activations: Memory for activations.

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
        activations: ActivationPool,
    ) -> None:
        self.case = case
        self._stopwatch, self._device, self._pool = stopwatch, stopwatch.device, pool
        self._activations = activations
        self._keep: list[Any] = []
        """Memory of the pools that is in use; a pool that grows lets go of it."""
        self._sweep = sweep
        self._batches, self._needs = case.describe(self._device.info), case.find_needs()
        places = [self._prepare(sweep) for _ in range(_PLACES)]
        self._turns = cycle(places)
        # drivers compile at the first launch
        seconds = min(stopwatch.time(launches, before=before) for before, launches in places)
        self._plays = int(np.clip(_PLAY_SECONDS / max(seconds, 1e-9), 1, _MOST_PLAYS))
        """Plays of a reading; no more than places, as far constants are in a cache the second time."""

    def read(self) -> float:
        """Return the time of its kernels in seconds: the median of several plays if they are short.

        Caches are swept first; meanwhile the host enqueues the rest.
        """
        groups: list[Sequence[Call]] = [[self._sweep]]
        for play in islice(self._turns, self._plays):
            groups += play
        return float(np.median(self._stopwatch.time_groups(groups)[0, 2::2]))

    def _prepare(self, sweep: Call) -> _Play:
        """Return a play of the case with its operands in a new place."""
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
        return (*reads, sweep, *writes.values()), [launch.enqueue for launch in launches]

    def _take_panels(self, packed: PackedArg, count: int, reads: list[Call]) -> Any:
        """Return panels of random weights; real ones are packed only to find a size that is not known."""
        floats = packed.panel_floats
        if floats is None:
            floats = packed.count_panel_floats(fill_constants(self.case.graph))
        return self._take(count * floats, reads)[0]

    def _place(self, names: Sequence[str], reads: list[Call]) -> dict[str, Storage]:
        """Return tensors on the device: constants in ONNX order, activations as kernels store them."""
        whole = {name: Region.whole(self.case.graph.shape(name)) for name in names}
        constants = [name for name in names if name in self.case.graph.constants]
        storages = self._activations.place({name: whole[name] for name in names if name not in constants})
        for name in constants:
            storages[name] = place_constant(whole[name].shape, *self._take(whole[name].size, reads))
        return storages

    def _take(self, floats: int, reads: list[Call]) -> tuple[Any, FloatArray]:
        """Return constants; for near ones a call that reads them is added to ``reads``."""
        if self.case.are_constants_far:
            taken = self._pool.take_far(floats)
        else:
            taken = self._pool.take_near(floats)
            reads.append(prepare_read(self._device, taken[0], floats))
        self._keep.append(taken)
        return taken

"""A node on a device, ready to be computed by any candidate: operands in place, results read back."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from codl.catalog.candidates import describe_whole
from codl.catalog.spec import LaunchBatch, PackedArg, Selection
from codl.devices.boundary import at_work
from codl.devices.launch import BoundLaunch, bind_alone
from codl.devices.memory import HostCopy, Storage, allocate_own, place_constant, place_host, place_in
from codl.devices.opencl import Device
from codl.devices.pages import allocate_host
from codl.devices.pools import ActivationPool, ConstantPool
from codl.ir.graph import FLOAT_BYTES, FloatArray, Graph
from codl.ir.regions import Region
from codl.latency.features import count_constants

_MOST_PACKED = 3
"""Layouts of constants kept at a time; those of a large matrix product are hundreds of MiB."""


class Trial:
    """One node with random operands on one device.

    Args:
        graph: A graph of this node alone, with its constants.
        device: Where to run it.
    """

    def __init__(self, graph: Graph, device: Device) -> None:
        (self.node,) = graph.nodes
        self.graph, self.device = graph, device
        rng = np.random.default_rng(0)
        self.feeds: Mapping[str, FloatArray] = {
            name: rng.uniform(-1.0, 1.0, graph.shape(name)).astype(np.float32)
            for name in graph.activations(self.node)
        }
        self._whole = Region.whole(graph.shape(self.node.output))
        self._storages = {name: self._place(value) for name, value in self.feeds.items()}
        self._storages |= {
            name: self._place_constant(graph.constants[name])
            for name in self.node.inputs
            if name in graph.constants
        }
        self._output = place_host(self._whole)
        self._storages[self.node.output] = place_in(self._whole, allocate_own(device, self._whole.size))
        self._packed: dict[str, Any] = {}
        self._activations = ActivationPool(device, least_floats=0)
        """Of scratch memory, which all launches share as in a network."""

    def bind(self, selection: Selection, constants: ConstantPool | None = None) -> list[BoundLaunch]:
        """Return the launches that compute the whole node.

        Args:
            selection: What computes it.
            constants: What to take for constants instead of the node's own: far ones, other ones in each
                call, as large as they. What is computed is of no use then.

        Raises:
            BuildError: The driver refused a kernel.
            DeviceError: The driver refused memory.
        """
        batches = describe_whole(selection, self.node, self.graph, self.device.info)
        storages = self._storages
        if constants is not None:
            storages = storages | {
                name: self._take_far(name, constants) for name in self._find_plain(batches)
            }

        def find_panels(arg: PackedArg, begin: int, end: int) -> Any:
            if constants is None:
                return self._pack(arg, begin, end)
            return constants.take_far((end - begin) * arg.count_panel_floats(self.graph.constants))[0]

        return bind_alone(
            self.device,
            selection,
            batches,
            storages=storages,
            find_panels=find_panels,
            take_scratch=self._activations.take_scratch,
        )

    def count_constant_bytes(self, selection: Selection) -> float:
        """Return how many bytes of constants a candidate reads, packed or as they are."""
        batches = describe_whole(selection, self.node, self.graph, self.device.info)
        packed = sum(float(count_constants(batch)[0]) for batch in batches)
        plain = sum(prod(self.graph.shape(name)) for name in self._find_plain(batches))
        return packed + FLOAT_BYTES * plain

    def compute(self, selection: Selection) -> FloatArray:
        """Return the node's output as a candidate computes it, NaN where it writes nothing."""
        target = self._storages[self.node.output]
        self.device.fill(target.buffer, float("nan"))
        launches = self.bind(selection)  # held until they are done: a launch retains its buffers, not OpenCL
        copy = HostCopy(device=self.device, storage=target, host=self._output, region=self._whole)
        with self._at_work():
            for launch in launches:
                launch.enqueue()
            self.device.finish()
            copy.read()
        return np.array(self._output.view(), order="C")

    def _at_work(self) -> AbstractContextManager[None]:
        return at_work([self.device], f"{self.node.name} on {self.device.info.name}")

    def _find_plain(self, batches: Iterable[LaunchBatch]) -> set[str]:
        """Return the constants that launches read as they are."""
        return {arg.name for batch in batches for arg in batch.tensors} & self.graph.constants.keys()

    def _take_far(self, name: str, constants: ConstantPool) -> Storage:
        """Return a constant's place with other values in it, far ones."""
        storage = self._storages[name]
        return replace(storage, buffer=constants.take_far(storage.region.size)[0])

    def _pack(self, arg: PackedArg, begin: int, end: int) -> Any:
        key = f"{arg.key} {begin}:{end}"
        found = self._packed.pop(key, None)
        if found is None:
            while len(self._packed) >= _MOST_PACKED:
                self._packed.pop(next(iter(self._packed)))
            panels = arg.pack(self.graph.constants)[begin:end].reshape(-1)
            values = allocate_host(panels.size)
            np.copyto(values[: panels.size], panels)
            found = (self.device.upload(values), values)
        self._packed[key] = found
        return found[0]

    def _place(self, value: FloatArray) -> Storage:
        """Return a tensor on the device, in storage order."""
        region = Region.whole(value.shape)
        host = place_host(region)
        np.copyto(host.view(), value)
        storage = place_in(region, allocate_own(self.device, region.size))
        copy = HostCopy(device=self.device, storage=storage, host=host, region=region)
        with self._at_work():
            copy.write()
            self.device.finish()
        return storage

    def _place_constant(self, value: FloatArray) -> Storage:
        """Return a constant on the device, in ONNX order."""
        values = np.ascontiguousarray(value).reshape(-1)
        return place_constant(value.shape, self.device.upload(values), values)

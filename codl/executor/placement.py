"""Where the tensors of a plan lie on each device, for either way of sharing.

Inside a chain a tensor is private to its device; published regions lie where
others can have them. Coherent devices see one shared allocation; a device that
computes more of a published tensor than its own part computes it privately and
copies its part over. Copied devices have one storage for each tensor, around
everything they compute or read of it.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from codl.devices.memory import Sharing, Storage, place_host, place_private, place_shared
from codl.devices.opencl import Device
from codl.ir.graph import Graph
from codl.ir.regions import Region
from codl.plan.residency import Share


class Placement(Protocol):
    """Answers where to write and where to read."""

    @property
    def hosts(self) -> Mapping[str, Storage]:
        """Graph inputs and outputs as the host sees them."""

    def target(self, step: int, tensor: str, device: int) -> Storage:
        """Return where ``device`` writes what it computes of ``tensor`` in ``step``."""

    def source(self, step: int, tensor: str, device: int) -> Storage | None:
        """Return where ``device`` reads ``tensor`` in ``step``; None when it needs nothing of it."""

    def publication(self, step: int, tensor: str, device: int) -> Storage | None:
        """Return where the own part of ``tensor`` must be copied after it is computed, if it must."""

    def storages(self) -> Sequence[tuple[int, Storage]]:
        """Return every storage of activations with the index of a device that can fill it."""


Shares = Sequence[tuple[Share, ...]]


def place(graph: Graph, shares: Shares, devices: Sequence[Device], sharing: Sharing) -> Placement:
    """Return the placement of every activation of a plan."""
    if sharing is Sharing.COHERENT:
        return _CoherentPlacement(graph, shares, devices)
    return _CopiedPlacement(graph, shares, devices)


class _CoherentPlacement:
    def __init__(self, graph: Graph, shares: Shares, devices: Sequence[Device]) -> None:
        self._shared: dict[str, tuple[Storage, ...]] = {}
        self._private: dict[tuple[int, str, int], Storage] = {}
        self._publications: set[tuple[int, str, int]] = set()
        for name in graph.inputs:
            self._shared[name] = place_shared(Region.whole(graph.shape(name)), devices)
        for step, parts in enumerate(shares):
            for device, part in enumerate(parts):
                for node, region in part.computes.items():
                    tensor = graph.nodes_by_name[node].output
                    own = part.publishes.get(tensor)
                    if own is not None and tensor not in self._shared:
                        self._shared[tensor] = place_shared(Region.whole(graph.shape(tensor)), devices)
                    if own != region:
                        self._private[step, tensor, device] = place_private(region, devices[device])
                    if own is not None and own != region:
                        self._publications.add((step, tensor, device))
        self._hosts = {name: self._shared[name][0] for name in (*graph.inputs, *graph.outputs)}

    @property
    def hosts(self) -> Mapping[str, Storage]:
        return self._hosts

    def target(self, step: int, tensor: str, device: int) -> Storage:
        return self._private.get((step, tensor, device)) or self._shared[tensor][device]

    def source(self, step: int, tensor: str, device: int) -> Storage | None:
        private = self._private.get((step, tensor, device))
        if private is not None:
            return private
        shared = self._shared.get(tensor)
        return shared[device] if shared else None

    def publication(self, step: int, tensor: str, device: int) -> Storage | None:
        return self._shared[tensor][device] if (step, tensor, device) in self._publications else None

    def storages(self) -> list[tuple[int, Storage]]:
        shared = [(0, storages[0]) for storages in self._shared.values()]
        return shared + [(device, storage) for (_, _, device), storage in self._private.items()]


class _CopiedPlacement:
    def __init__(self, graph: Graph, shares: Shares, devices: Sequence[Device]) -> None:
        hulls: dict[tuple[str, int], Region] = {}
        for parts in shares:
            for device, part in enumerate(parts):
                touched = [(graph.nodes_by_name[node].output, r) for node, r in part.computes.items()]
                for tensor, region in (*touched, *part.reads.items()):
                    known = hulls.get((tensor, device))
                    hulls[tensor, device] = known.hull(region) if known else region
        self._storages = {
            (tensor, device): place_private(region, devices[device])
            for (tensor, device), region in hulls.items()
        }
        self._hosts = {
            name: place_host(Region.whole(graph.shape(name))) for name in (*graph.inputs, *graph.outputs)
        }

    @property
    def hosts(self) -> Mapping[str, Storage]:
        return self._hosts

    def target(self, step: int, tensor: str, device: int) -> Storage:
        del step
        return self._storages[tensor, device]

    def source(self, step: int, tensor: str, device: int) -> Storage | None:
        del step
        return self._storages.get((tensor, device))

    def publication(self, step: int, tensor: str, device: int) -> Storage | None:
        del step, tensor, device
        return None

    def storages(self) -> list[tuple[int, Storage]]:
        return [(device, storage) for (_, device), storage in self._storages.items()]

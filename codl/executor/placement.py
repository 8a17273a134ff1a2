"""Where the tensors of a plan lie on each device, for either way of sharing.

Inside a chain a tensor is private to its device; published regions lie where
others can have them. Coherent devices see one shared allocation; a device that
computes more of a published tensor than its own part computes it privately and
copies its part over. Copied devices have one storage for each tensor, around
everything they compute or read of it.

Tensors that are never alive together share memory: one arena for each device,
and one for all coherent devices together.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from codl.devices.memory import Storage, allocate_host, place_host, place_in, place_shared
from codl.devices.opencl import Device
from codl.executor.arena import Life, assign_offsets
from codl.ir.graph import FLOAT_BYTES, Graph
from codl.ir.regions import Region
from codl.plan.residency import HOST
from codl.plan.schedule import Copy, Launch, Meet, Publish, Schedule

SHARED = -1
"""Stands for all coherent devices together where a device index is expected."""
_Key = tuple[str, int]
"""(tensor, device)"""


class Placement:
    """Answers where a device writes and reads each tensor."""

    def __init__(
        self, graph: Graph, schedule: Schedule, devices: Sequence[Device], *, is_copied: bool
    ) -> None:
        self._graph, self._devices, self._is_copied = graph, tuple(devices), is_copied
        self._regions = _copied_regions(graph, schedule) if is_copied else _coherent_regions(graph, schedule)
        self.hosts: dict[str, Storage] = {}
        """Graph inputs and outputs as the host sees them."""
        self.fillable: list[tuple[int, Any]] = []
        """Every buffer of activations with the index of a device that can fill it."""
        self.floats: dict[int, int] = {}
        """Floats of activations by device, `SHARED` for those that coherent devices share."""
        self._storages: dict[_Key, tuple[Storage, ...]] = {}
        self._place_ends()
        self._place_arenas(schedule)

    def target(self, tensor: str, device: int) -> Storage:
        """Return where ``device`` writes what it computes of ``tensor``."""
        storage = self.source(tensor, device)
        assert storage is not None
        return storage

    def source(self, tensor: str, device: int) -> Storage | None:
        """Return where ``device`` reads a tensor in the step that computes it, or when all is copied."""
        private = self._storages.get((tensor, device))
        return private[0] if private else self.shared(tensor, device)

    def shared(self, tensor: str, device: int) -> Storage | None:
        """Return where ``device`` reads a tensor that another step has published; None when it needs none."""
        if self._is_copied:
            return self.source(tensor, device) if (tensor, device) in self._storages else None
        views = self._storages.get((tensor, SHARED))
        return views[device] if views else None

    def _place_ends(self) -> None:
        """Give graph inputs and outputs memory of their own: the host uses it between runs."""
        for tensor in dict.fromkeys((*self._graph.inputs, *self._graph.outputs)):
            whole = Region.whole(self._graph.shape(tensor))
            if self._is_copied:
                self.hosts[tensor] = place_host(whole)
                continue
            views = place_shared(whole, self._devices)
            self._storages[tensor, SHARED] = views
            self.hosts[tensor] = views[0]
            self.fillable.append((0, views[0].buffer))
            self.floats[SHARED] = self.floats.get(SHARED, 0) + whole.size

    def _place_arenas(self, schedule: Schedule) -> None:
        lives = _find_lives(self._graph, schedule, self._regions, is_copied=self._is_copied)
        meetings: dict[int, list[int]] = {}
        for tick, action in enumerate(schedule.actions):
            if isinstance(action, Meet):
                for device in action.devices:
                    meetings.setdefault(device, []).append(tick)
        for owner in sorted({owner for _, owner in self._regions}):
            members = {
                tensor: lives[tensor, owner]
                for tensor, place in self._regions
                if place == owner and (tensor, owner) not in self._storages
            }
            if not members:
                continue
            offsets, total = assign_offsets(members, meetings)
            self.floats[owner] = self.floats.get(owner, 0) + total
            buffers, host = self._allocate(owner, total)
            self.fillable.append((max(owner, 0), buffers[0]))
            for tensor, base in offsets.items():
                region = self._regions[tensor, owner]
                self._storages[tensor, owner] = tuple(
                    place_in(region, buffer, base=base, host=host) for buffer in buffers
                )

    def _allocate(self, owner: int, floats: int) -> tuple[list[Any], npt.NDArray[np.float32] | None]:
        """Return an arena's buffer, once for each device that sees it, and its host memory if it has some."""
        if owner != SHARED:
            return [self._devices[owner].allocate(floats)], None
        host = allocate_host(floats)
        return [device.wrap(host) for device in self._devices], host

    def count_bytes(self) -> dict[str, int]:
        """Return the bytes of activations by device name, and under `shared` those that all see."""
        return {
            "shared" if owner == SHARED else self._devices[owner].info.name: floats * FLOAT_BYTES
            for owner, floats in sorted(self.floats.items())
        }


def _coherent_regions(graph: Graph, schedule: Schedule) -> dict[_Key, Region]:
    """Return the region of each storage: whole published tensors, and what devices compute privately."""
    regions: dict[_Key, Region] = {(t, SHARED): Region.whole(graph.shape(t)) for t in graph.inputs}
    for shares in schedule.shares:
        for device, share in enumerate(shares):
            for node, region in share.computes.items():
                tensor = graph.nodes_by_name[node].output
                own = share.publishes.get(tensor)
                if own is not None:
                    regions[tensor, SHARED] = Region.whole(graph.shape(tensor))
                if own != region:
                    regions[tensor, device] = region
    return regions


def _copied_regions(graph: Graph, schedule: Schedule) -> dict[_Key, Region]:
    """Return the region of each storage: the box around all that a device computes or reads of a tensor."""
    regions: dict[_Key, Region] = {}
    for shares in schedule.shares:
        for device, share in enumerate(shares):
            touched = [(graph.nodes_by_name[node].output, r) for node, r in share.computes.items()]
            for tensor, region in (*touched, *share.reads.items()):
                known = regions.get((tensor, device))
                regions[tensor, device] = known.hull(region) if known else region
    return regions


def _find_lives(
    graph: Graph, schedule: Schedule, regions: Mapping[_Key, Region], *, is_copied: bool
) -> dict[_Key, Life]:
    """Return when each storage is used, in ticks of the schedule."""
    lives: dict[_Key, Life] = {}

    def touch(tensor: str, device: int, tick: int, *, is_written: bool, is_shared: bool = False) -> None:
        key = (tensor, SHARED if is_shared else device)
        life = lives.setdefault(key, Life(floats=regions[key].size, first=tick))
        life.last[device] = tick
        if is_written:
            life.writers.add(device)

    for tick, action in enumerate(schedule.actions):
        match action:
            case Launch(node=name, device=device, step=step):
                node = graph.nodes_by_name[name]
                share = schedule.shares[step][device]
                for tensor in graph.activations(node):
                    is_outside = tensor in share.reads
                    key_is_shared = not is_copied and (is_outside or (tensor, device) not in regions)
                    if (tensor, SHARED if key_is_shared else device) in regions:
                        touch(tensor, device, tick, is_written=False, is_shared=key_is_shared)
                is_shared = not is_copied and (node.output, device) not in regions
                touch(node.output, device, tick, is_written=True, is_shared=is_shared)
            case Publish(tensor=tensor, device=device):
                touch(tensor, device, tick, is_written=False)
                touch(tensor, device, tick, is_written=True, is_shared=True)
            case Copy(transfer=transfer):
                if transfer.source != HOST:
                    touch(transfer.tensor, transfer.source, tick, is_written=False)
                if transfer.destination != HOST:
                    touch(transfer.tensor, transfer.destination, tick, is_written=True)
            case Meet():
                pass
    return lives

"""The memory of a plan, allocated: where each device writes and reads each tensor."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from codl.devices.memory import Storage, allocate_beside, allocate_own, place_host, place_in, place_shared
from codl.devices.opencl import Device
from codl.errors import ModelError
from codl.executor.images import Work
from codl.ir.graph import Graph
from codl.ir.regions import Region
from codl.limits import DEFAULT_LIMITS
from codl.plan.memory import NOTHING_TAKEN_OVER, plan_memory
from codl.plan.places import SHARED, Place, find_owner
from codl.plan.schedule import Launch, Schedule
from codl.plan.sharing import Arrangement


def check_planned_bytes(graph: Graph, planned: int, *, most_bytes: int) -> None:
    """Raise `ModelError` if a plan's activations take more memory than is allowed."""
    if planned > most_bytes:
        raise ModelError(
            f"{graph.name}: got a plan of {planned} bytes of activations, expected at most {most_bytes}; "
            "raise Limits.planned_bytes if you trust the model"
        )


def list_as_given(graph: Graph, work: Mapping[Launch, Work], arrangement: Arrangement) -> frozenset[str]:
    """Return the inputs that all devices take in ONNX order, as they are given, so that the host turns none.

    Args:
        graph: The network.
        work: What computes each launch.
        arrangement: How the devices share memory; those that share the host's have them in their own order.
    """
    if arrangement.shared:
        return frozenset()
    found = set(graph.inputs) - set(graph.outputs)
    for action, one in work.items():
        inputs = graph.nodes_by_name[action.node].inputs
        takes_first = one.selection.implementation.takes_onnx_order and one.batches
        found.difference_update(inputs[1:] if takes_first else inputs)
    return frozenset(found)


class Placement:
    """Answers where a device writes and reads each tensor.

    Launches that are ``taken_over`` are part of later ones; tensors that lie ``in_onnx_order`` do so on all
    devices, each with memory of its own; at most ``most_bytes`` are allocated.

    Raises:
        ModelError: All activations together need more.
        DeviceError: A device refused the memory.
    """

    def __init__(
        self,
        graph: Graph,
        schedule: Schedule,
        devices: Sequence[Device],
        arrangement: Arrangement,
        *,
        taken_over: Mapping[Launch, tuple[Launch, ...]] = NOTHING_TAKEN_OVER,
        in_onnx_order: Collection[str] = (),
        most_bytes: int = DEFAULT_LIMITS.planned_bytes,
    ) -> None:
        self._graph, self._devices, self._arrangement = graph, tuple(devices), arrangement
        self._in_onnx_order = frozenset(in_onnx_order)
        discrete = (one for index, one in enumerate(devices) if arrangement.is_discrete(index))
        self._discrete = next(discrete, None)
        """What copies from and to the host's memory."""
        self._plan = plan_memory(graph, schedule, arrangement, taken_over=taken_over)
        check_planned_bytes(graph, sum(self.count_bytes().values()), most_bytes=most_bytes)
        self.hosts: dict[str, Storage] = {}
        """Shared tensors, and graph inputs and outputs, as the host sees them."""
        self.fillable: list[tuple[int, Any]] = []
        """Every buffer of activations, and scratch memory, with the index of a device that can fill it."""
        self._storages: dict[Place, dict[int, Storage]] = {}
        """By device that sees them."""
        self._place_ends()
        self._place_arenas()

    def target(self, tensor: str, device: int) -> Storage:
        """Return where ``device`` writes what it computes, or is sent, of ``tensor``."""
        storage = self.source(tensor, device, is_outside=False)
        assert storage is not None
        return storage

    def source(self, tensor: str, device: int, *, is_outside: bool) -> Storage | None:
        """Return where ``device`` reads a tensor; None when it needs nothing of it.

        A tensor ``is_outside`` that another step has published.
        """
        owner = find_owner(tensor, device, self._storages, self._arrangement, is_outside=is_outside)
        return self._storages.get((tensor, owner), {}).get(device)

    def shared(self, tensor: str, device: int) -> Storage:
        """Return the shared memory of a tensor as ``device`` sees it."""
        return self._storages[tensor, SHARED][device]

    def count_bytes(self) -> dict[str, int]:
        """Return the bytes of activations by device name, and under `shared` those that several see."""
        return self._plan.count_bytes([device.info.name for device in self._devices])

    def _place_ends(self) -> None:
        """Give graph inputs and outputs memory of their own: the host uses it between runs."""
        for tensor in self._plan.ends:
            whole = Region.whole(self._graph.shape(tensor))
            if not self._arrangement.shared:
                is_kept = tensor in self._in_onnx_order
                self.hosts[tensor] = place_host(whole, beside=self._discrete, in_onnx_order=is_kept)
                continue
            sharers = [self._devices[index] for index in self._arrangement.shared]
            shared = place_shared(whole, sharers, beside=self._discrete)
            views = dict(zip(self._arrangement.shared, shared, strict=True))
            self._keep_shared(tensor, views)
            first, view = next(iter(views.items()))
            self.fillable.append((first, view.buffer))

    def _place_arenas(self) -> None:
        for owner, floats in self._plan.arena_floats.items():
            host = allocate_beside(self._discrete, floats) if owner == SHARED else None
            if host is None:
                buffers = {owner: allocate_own(self._devices[owner], floats)}
            else:
                buffers = {index: self._devices[index].wrap(host) for index in self._arrangement.shared}
            self.fillable.append(next(iter(buffers.items())))
            for (tensor, place), block in self._plan.blocks.items():
                if place != owner:
                    continue
                views = {
                    index: place_in(
                        block.region,
                        buffer,
                        base=block.base,
                        frame=block.frame,
                        host=host,
                        in_onnx_order=tensor in self._in_onnx_order,
                    )
                    for index, buffer in buffers.items()
                }
                if owner == SHARED:
                    self._keep_shared(tensor, views)
                else:
                    self._storages[tensor, owner] = views

    def _keep_shared(self, tensor: str, views: dict[int, Storage]) -> None:
        self._storages[tensor, SHARED] = views
        self.hosts[tensor] = next(iter(views.values()))

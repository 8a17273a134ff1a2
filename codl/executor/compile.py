"""From a plan to prepared calls: kernels bound, transfers laid out, meeting points fixed."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyopencl as cl

from codl.catalog.choose import choose
from codl.catalog.rows.copy import copy_batch
from codl.catalog.spec import LaunchBatch, Parameters, TensorArg
from codl.devices.meeting import start_order
from codl.devices.memory import HostCopy, Sharing, Storage, choose_sharing, place_host
from codl.devices.opencl import Device
from codl.errors import DeviceError
from codl.executor.placement import Placement, place
from codl.executor.run import Executable
from codl.executor.weights import Weights
from codl.ir.graph import Graph
from codl.ir.regions import Boxes, Region
from codl.plan.check import check_plan
from codl.plan.residency import HOST, Residency, Share, Transfer, share_step, step_nodes
from codl.plan.steps import Plan, Step

Call = Callable[[], object]
_INT_LIMIT = 2**31


def compile_plan(
    graph: Graph,
    plan: Plan,
    devices: Sequence[Device],
    *,
    weights: Weights | None = None,
    sharing: Sharing | None = None,
) -> Executable:
    """Return the executable of ``plan``: everything fixed, nothing left to decide.

    Args:
        graph: The network.
        plan: A sound plan of it.
        devices: The plan's devices, opened, in its order.
        weights: Packed constants shared with other plans of the same graph.
        sharing: How devices see each other's results; chosen from the devices by default.

    Raises:
        PlanError: The plan breaks a law.
        UnsupportedError: A node that no implementation of a device computes.
        DeviceError: A driver refused a kernel or memory.
    """
    check_plan(plan, graph)
    mode = sharing or choose_sharing([device.info for device in devices])
    return _Compiler(graph, plan, devices, weights or Weights(graph), mode).compile()


class _Compiler:
    def __init__(
        self, graph: Graph, plan: Plan, devices: Sequence[Device], weights: Weights, sharing: Sharing
    ) -> None:
        self._graph, self._plan, self._devices = graph, plan, tuple(devices)
        self._weights, self._sharing = weights, sharing
        self._shares = [share_step(step, graph, plan.devices) for step in plan.steps]
        self._placement: Placement = place(graph, self._shares, devices, sharing)
        self._residency = Residency(graph)
        self._script: list[Call] = []
        self._pending: list[list[Call]] = [[] for _ in devices]
        self._epochs = [0] * len(devices)
        """Times the host has waited for each device so far."""
        self._published_in: dict[tuple[str, int], int] = {}
        """(tensor, device) -> epoch in which the device last published a part of it."""
        self._busy: set[int] = set()
        """Devices with work enqueued that the host has not waited for."""
        self._keep: list[Any] = []
        self._launch_count = 0

    def compile(self) -> Executable:
        for index, (step, shares) in enumerate(zip(self._plan.steps, self._shares, strict=True)):
            self._bring_inputs(shares)
            for device, share in enumerate(shares):
                self._launch_step(index, step, share, device)
        self._collect_outputs()
        return Executable(
            graph=self._graph,
            plan=self._plan,
            devices=self._devices,
            script=tuple(self._script),
            hosts=self._placement.hosts,
            storages=tuple(self._placement.storages()),
            keep=tuple(self._keep),
            launch_count=self._launch_count,
        )

    def _bring_inputs(self, shares: Sequence[Share]) -> None:
        """Lay out the transfers that a step needs, after a meeting with the devices they come from."""
        transfers = [
            transfer
            for device, share in enumerate(shares)
            for tensor, region in share.reads.items()
            for transfer in self._residency.request(tensor, region, device)
        ]
        self._meet({t.source for t in transfers if t.source != HOST and self._is_unmet(t.tensor, t.source)})
        if self._sharing is Sharing.COPIED:
            for transfer in transfers:
                self._copy(transfer)

    def _is_unmet(self, tensor: str, device: int) -> bool:
        return self._published_in[tensor, device] == self._epochs[device]

    def _meet(self, sources: set[int]) -> None:
        """Enqueue all that is pending, everywhere, then wait for ``sources`` in turn."""
        if not sources:
            return
        for device in start_order([device.info for device in self._devices]):
            if self._pending[device]:
                self._script.extend(self._pending[device])
                self._script.append(self._devices[device].queue.flush)
                self._pending[device] = []
                self._busy.add(device)
        for device in sorted(sources):
            self._script.append(self._devices[device].finish)
            self._epochs[device] += 1
            self._busy.discard(device)

    def _copy(self, transfer: Transfer) -> None:
        """Lay out a copy through the host: read at once, write when the destination gets there."""
        tensor, region = transfer.tensor, transfer.region
        if transfer.source == HOST:
            host = self._placement.hosts[tensor]
        else:
            host = place_host(region)
            self._script.append(self._host_copy(tensor, region, transfer.source, host).read)
        self._pending[transfer.destination].append(
            self._host_copy(tensor, region, transfer.destination, host).write
        )

    def _host_copy(self, tensor: str, region: Region, device: int, host: Storage) -> HostCopy:
        storage = self._placement.source(0, tensor, device)
        assert storage is not None
        copy = HostCopy(device=self._devices[device], storage=storage, host=host, region=region)
        self._keep.append((copy, host))
        return copy

    def _launch_step(self, index: int, step: Step, share: Share, device: int) -> None:
        for name in step_nodes(step):
            region = share.computes.get(name)
            if region is None:
                continue
            node = self._graph.nodes_by_name[name]
            info = self._devices[device].info
            selection = choose(node, self._graph, info)
            row = selection.implementation
            for batch in row.describe(node, self._graph, Boxes.of([region]), info, selection.parameters):
                storages = [self._operand(index, arg, node.output, device) for arg in batch.tensors]
                self._launch(batch, storages, row.source, selection.parameters, device)
            self._publish(index, node.output, share, device)

    def _operand(self, step: int, arg: TensorArg, output: str, device: int) -> Storage:
        if arg.name == output:
            return self._placement.target(step, output, device)
        if arg.name in self._graph.constants:
            return self._weights.plain(arg.name, self._devices[device])
        # A slice whose windows lie wholly in the padding reads nothing: any storage will do.
        return self._placement.source(step, arg.name, device) or self._placement.target(step, output, device)

    def _publish(self, step: int, tensor: str, share: Share, device: int) -> None:
        own = share.publishes.get(tensor)
        if own is None:
            return
        shared = self._placement.publication(step, tensor, device)
        if shared is not None:
            row, batch = copy_batch(
                tensor, self._graph.shape(tensor), Boxes.of([own]), self._devices[device].info
            )
            private = self._placement.target(step, tensor, device)
            self._launch(batch, [shared, private], row.source, {}, device)
        self._residency.publish(tensor, own, device)
        self._published_in[tensor, device] = self._epochs[device]

    def _launch(
        self,
        batch: LaunchBatch,
        storages: Sequence[Storage],
        source: str,
        parameters: Parameters,
        device: int,
    ) -> None:
        """Bind one kernel: the first candidate of ``batch`` with every argument fixed."""
        global_size = tuple(int(size) for size in batch.global_size[0])
        if 0 in global_size:
            return
        owner = self._devices[device]
        kernel = owner.kernel(source, batch.entry, parameters)
        args: list[Any] = []
        for arg, storage in zip(batch.tensors, storages, strict=True):
            args += tensor_arguments(arg, storage)
        if batch.panel_begin is not None and batch.panel_end is not None:
            begin, end = int(batch.panel_begin[0]), int(batch.panel_end[0])
            args += [self._weights.panels(packed, owner, begin, end) for packed in batch.packed]
        if batch.zeros:
            args.append(owner.zeros(batch.zeros))
        args += [
            np.float32(values[0]) if values.dtype == np.float32 else np.int32(values[0])
            for values in batch.scalars.values()
        ]
        kernel.set_args(*args)
        self._keep.append((kernel, args))
        self._launch_count += 1
        self._pending[device].append(
            partial(cl.enqueue_nd_range_kernel, owner.queue, kernel, global_size, batch.local_size)
        )

    def _collect_outputs(self) -> None:
        """End the run: everything enqueued, every device waited for, outputs where the host sees them."""
        used = self._busy | {index for index, calls in enumerate(self._pending) if calls}
        self._meet(used)
        if self._sharing is not Sharing.COPIED:
            return
        for tensor in self._graph.outputs:
            whole = Region.whole(self._graph.shape(tensor))
            for transfer in self._residency.request(tensor, whole, HOST):
                host = self._placement.hosts[tensor]
                self._script.append(self._host_copy(tensor, transfer.region, transfer.source, host).read)


def tensor_arguments(arg: TensorArg, storage: Storage) -> list[Any]:
    """Return the six kernel arguments of a tensor operand: buffer, offset, strides of n, h, w, c.

    Raises:
        DeviceError: The tensor is too large for 32-bit indices.
    """
    offset = storage.offset + sum(o * s for o, s in zip(arg.origin, storage.strides, strict=True))
    strides = [0 if entry is None else storage.strides[entry[0]] * entry[1] for entry in arg.dims]
    values = (offset, *strides)
    if storage.region.size >= _INT_LIMIT or max(map(abs, values)) >= _INT_LIMIT:
        raise DeviceError(
            f"tensor {arg.name!r}: got {storage.region.size} elements, "
            "expected fewer than 2^31 on one device; cut it among more devices"
        )
    return [storage.buffer, *(np.int32(value) for value in values)]

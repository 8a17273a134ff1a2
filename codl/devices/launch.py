"""A kernel with all of its arguments fixed: what the executor plays, the profiler and the tuner time."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np
import pyopencl as cl

from codl.catalog.groups import GROUP
from codl.catalog.spec import LaunchBatch, PackedArg, Parameters, Selection, TensorArg, can_steal
from codl.catalog.walking import find_case
from codl.devices.boundary import at_work, driver_calls
from codl.devices.images import Images, ImageStorage
from codl.devices.memory import Storage
from codl.devices.opencl import COUNTER_STEP, Device
from codl.devices.timing import Row
from codl.errors import BuildError, DeviceError
from codl.ir.graph import FLOAT_BYTES
from codl.machine import DeviceInfo

_INT_LIMIT = 2**31
"""Kernels count elements in 32-bit integers."""
FindPanels = Callable[[PackedArg, int, int], Any]
"""Returns a buffer with the panels of a packed constant from one on, up to another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundLaunch:
    """A prepared launch; calling `enqueue` any number of times is all that is left to do."""

    enqueue: Callable[[], object]
    kernel: Any
    args: tuple[Any, ...]
    """Kept as long as the kernel: OpenCL retains no buffer for it."""
    scratch_position: int | None = None
    """Which argument is scratch memory, where the kernel takes some."""


def find_program(
    batch: LaunchBatch, source: str, parameters: Parameters, *, info: DeviceInfo
) -> tuple[str, Parameters]:
    """Return the source of a batch's kernel and what its program is built with on a device."""
    if batch.source is not None:
        source, parameters = batch.source, {}
    return source, {**parameters, "STEAL": COUNTER_STEP} if _is_stolen(batch, info) else parameters


def _is_stolen(batch: LaunchBatch, info: DeviceInfo) -> bool:
    return batch.steals and can_steal(info)


def bind_launch(
    device: Device,
    batch: LaunchBatch,
    *,
    tensors: Sequence[Storage | ImageStorage],
    find_panels: FindPanels,
    zeros: Any = None,
    scratch: Any = None,
    source: str,
    parameters: Parameters,
) -> BoundLaunch | None:
    """Return the launch of the first candidate of ``batch``, or None when it has nothing to do.

    Args:
        device: Whose queue takes it.
        batch: The launch description.
        tensors: Where each of the batch's tensors lies, in its order.
        find_panels: Returns what the launch reads of each packed constant.
        zeros: What the kernel reads as padding, if it asks for that; the device's own zeros by default.
        scratch: Buffer of scratch memory, where the batch asks for it; it may be set later.
        source: Kernel file of the row, relative to kernels/.
        parameters: What its program is built with.

    Raises:
        BuildError: The driver refused the kernel.
        DeviceError: A tensor is out of reach of 32-bit indices.
    """
    global_size = tuple(int(size) for size in batch.global_size[0])
    if 0 in global_size:
        return None
    source, parameters = find_program(batch, source, parameters, info=device.info)
    kernel = device.kernel(source, batch.entry, parameters)
    args: list[Any] = []
    for arg, storage in zip(batch.tensors, tensors, strict=True):
        if isinstance(storage, ImageStorage):
            args += storage.arguments()
        else:
            args += tensor_arguments(arg, storage)
    if batch.panel_begin is not None and batch.panel_end is not None:
        begin, end = int(batch.panel_begin[0]), int(batch.panel_end[0])
        args += [find_panels(packed, begin, end) for packed in batch.packed]
    if batch.zeros:
        args.append(device.zeros(batch.zeros) if zeros is None else zeros)
    scratch_position = None if batch.scratch is None else len(args)
    args += [] if batch.scratch is None else [scratch]
    if batch.arrivals is not None:
        args.append(device.arrivals(int(batch.arrivals[0])))
    if batch.local is not None:
        with driver_calls(device.info.name, "no local memory", kind=BuildError):
            args.append(cl.LocalMemory(int(batch.local[0]) * FLOAT_BYTES))
    args += [
        np.float32(values[0]) if values.dtype == np.float32 else np.int32(values[0])
        for values in batch.scalars.values()
    ]
    if _is_stolen(batch, device.info):
        args += [device.counters, *map(np.int32, global_size)]
        global_size = (min(device.info.units, prod(global_size)), 1, 1)
    if device.info.is_part and find_case(batch, parameters) is not None:
        # Groups take places in turns, so as many as there are units do all of them.
        global_size = (min(device.info.units * GROUP, global_size[0]), 1, 1)
    device.bind(kernel, *args)
    call = partial(cl.enqueue_nd_range_kernel, device.queue, kernel, global_size, batch.local_size)
    return BoundLaunch(enqueue=call, kernel=kernel, args=tuple(args), scratch_position=scratch_position)


def bind_alone(
    device: Device,
    selection: Selection,
    batches: Sequence[LaunchBatch],
    *,
    storages: Mapping[str, Storage],
    find_panels: FindPanels,
    take_scratch: Callable[[int], Any],
) -> list[BoundLaunch]:
    """Return the launches of an operator that runs by itself; errors as in `bind_launch`.

    Args:
        device: Whose queue takes them.
        selection: What computes it.
        batches: What that describes itself by; the first candidate of each counts.
        storages: Where its tensors lie, but for those in images.
        find_panels: As in `bind_launch`.
        take_scratch: Returns a buffer of so many floats at least.
    """
    floats = max((int(batch.scratch[0]) for batch in batches if batch.scratch is not None), default=0)
    scratch = take_scratch(floats) if floats else None
    images = Images(device)
    launches = (
        bind_launch(
            device,
            batch,
            tensors=[images.find(arg) or storages[arg.name] for arg in batch.tensors],
            find_panels=find_panels,
            scratch=scratch,
            source=selection.implementation.source,
            parameters=selection.parameters,
        )
        for batch in batches
    )
    return [launch for launch in launches if launch is not None]


def time_launches(device: Device, launches: Sequence[BoundLaunch], *, plays: int = 1) -> Row:
    """Return a row that plays launches one after the other and waits for them; its time is that of one play.

    Args:
        device: Whose launches they are.
        launches: What to play, in order.
        plays: How many plays of one thing they are: several where one is short compared with the wait.

    A row raises DeviceError when the driver fails.
    """
    calls = [launch.enqueue for launch in launches]

    def measure(_keep: Sequence[BoundLaunch] = launches) -> float:
        with at_work([device], f"launches on {device.info.name}"):
            start = time.perf_counter()
            for call in calls:
                call()
            device.finish()
            return (time.perf_counter() - start) / plays

    return measure


def tensor_arguments(arg: TensorArg, storage: Storage) -> list[Any]:
    """Return the six kernel arguments of a tensor operand: buffer, offset, strides of n, h, w, c.

    Raises:
        DeviceError: The tensor is too large, or lies too far from its buffer's start, for 32-bit indices.
    """
    offset = storage.offset + sum(o * s for o, s in zip(arg.origin, storage.strides, strict=True))
    strides = [0 if entry is None else storage.strides[entry[0]] * entry[1] for entry in arg.dims]
    values = (offset, *strides)
    if storage.region.size >= _INT_LIMIT:
        raise DeviceError(
            f"tensor {arg.name!r}: got {storage.region.size} elements, "
            "expected fewer than 2^31 on one device; cut it among more devices"
        )
    if storage.base + storage.region.size >= _INT_LIMIT or max(map(abs, values)) >= _INT_LIMIT:
        raise DeviceError(
            f"tensor {arg.name!r}: got a place at elements {storage.base} to "
            f"{storage.base + storage.region.size} of the memory that activations share, expected one below "
            "2^31; use a smaller batch, or longer chains and more devices, so that less is alive at a time"
        )
    return [storage.buffer, *(np.int32(value) for value in values)]

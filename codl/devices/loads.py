"""Work enqueued before or during what is measured, and never waited for."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl

from codl.devices.memory import Storage
from codl.devices.opencl import Device
from codl.ir.graph import FLOAT_BYTES
from codl.ir.regions import Region
from codl.machine import DeviceKind

Call = Callable[[], Any]
SWEPT_BYTES = 1 << 22
"""What other layers put between the writing of a tensor and its use: more than a core's own cache.

Source:
    Sums over ResNet-50 and MobileNetV2 of layers measured alone, against the same layers traced in a run: too
    long by 1.12 to 1.25 after a walk over 32 MiB, which throws activations out of the shared cache as well.
"""


def prepare_sweep(
    device: Device,
    *,
    footprint: int = SWEPT_BYTES,
    rounds: int = 1,
    lead: int = 0,
    copies: bool = True,
    parts: int = 1,
) -> Call:
    """Return a call that enqueues walks over ``footprint`` bytes, after which caches hold nothing else.

    What is enqueued behind it starts when the host has long handed it over: on CPU drivers the host's own
    thread would otherwise take the core from the kernel.

    Args:
        device: Where to.
        footprint: Bytes that are read and written in a walk, half each.
        rounds: Walks of the launch whose event is returned.
        lead: Walks of a launch right before it, which bring into the caches what they hold.
        copies: Whether they write; otherwise they only add up what they read, half of the footprint.
        parts: Of what each unit walks through; units that are free take what others have not begun.
    """
    floats, group, step = footprint // FLOAT_BYTES // 2, _count_group(device), _count_step(device)
    share = max(step, floats // (device.info.units * group * parts) // step * step)
    items = max(group, floats // share // group * group)
    src, dst = device.allocate(items * share), device.allocate(items * share)
    device.fill(src, 1.0)
    streams = [
        _build_stream(device, dst, src, share=share, walks=walks, copies=copies)
        for walks in (lead, rounds)
        if walks
    ]
    calls = [_prepare(device, stream, items, keep=(src, dst)) for stream in streams]

    def sweep() -> Any:
        for call in calls:
            event = call()
        return event

    return sweep


def prepare_read(device: Device, buffer: Any, floats: int) -> Call:
    """Return a call that enqueues the reading of a buffer's first floats, after which caches hold them.

    The buffer has no fewer floats than `round_read` returns.
    """
    group = _count_group(device)
    items = device.info.units * group
    share = round_read(device, floats) // items
    dst = device.allocate(items)
    kernel = _build_stream(device, dst, buffer, share=share, walks=1, copies=False)
    return _prepare(device, kernel, items, keep=(buffer, dst))


def round_read(device: Device, floats: int) -> int:
    """Return how many floats are read where so many are asked for: each work-item has whole steps."""
    step = device.info.units * _count_group(device) * _count_step(device)
    return -(-floats // step) * step


def _count_step(device: Device) -> int:
    """Return how many floats a work-item of the stream reads at once."""
    return 8 * _count_lanes(device)


def _count_lanes(device: Device) -> int:
    return max(4, min(16, device.info.vector_width))


def _build_stream(device: Device, dst: Any, src: Any, *, share: int, walks: int, copies: bool) -> Any:
    stream = "reference_stream__buffer"
    built = {"VECTOR": _count_lanes(device), "GROUP": _count_group(device), "COPIES": int(copies)}
    kernel = device.kernel(f"reference/{stream}.cl", stream, built)
    device.bind(kernel, dst, src, np.int32(share), np.int32(walks))
    return kernel


def prepare_write(device: Device, storage: Storage, region: Region, *, value: float = 1.0) -> Call:
    """Return a call that enqueues the writing of all bytes that a region spans, as a kernel before would."""
    first, count = storage.span(region)
    group = _count_group(device)
    items = max(1, min(count // 1024, 8 * device.info.units * group))
    share = -(-count // items)
    items = -(-items // group) * group
    write = "reference_write__buffer"
    kernel = device.kernel(f"reference/{write}.cl", write, {"GROUP": group})
    device.bind(kernel, storage.buffer, np.float32(value), *map(np.int32, (first, count, share)))
    return _prepare(device, kernel, items, keep=storage)


def _prepare(device: Device, kernel: Any, items: int, *, keep: Any) -> Call:
    """Return what enqueues a kernel whose arguments are set, which need `keep` to stay in memory."""
    sizes = (items, 1, 1), (_count_group(device), 1, 1)

    def enqueue(_keep: Any = keep) -> Any:
        return cl.enqueue_nd_range_kernel(device.queue, kernel, *sizes)

    return enqueue


def _count_group(device: Device) -> int:
    return 1 if device.info.kind is DeviceKind.CPU else min(64, device.info.max_work_group_size)

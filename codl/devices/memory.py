"""Where tensors lie: host arrays that several drivers see, private buffers, and copies between them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from codl.devices.meeting import can_signal
from codl.devices.opencl import Device
from codl.devices.pages import allocate_host
from codl.errors import DeviceError
from codl.ir.graph import FLOAT_BYTES, FloatArray, Shape
from codl.ir.regions import Region
from codl.machine import DeviceInfo, DeviceKind, split_units
from codl.plan.sharing import Arrangement, Sharing

_STORAGE_ORDERS = {4: (0, 2, 3, 1)}
"""By rank, the ONNX axes from outermost to innermost in memory; other ranks keep ONNX order."""


def arrange(devices: Sequence[DeviceInfo], sharing: Sharing | None = None) -> Arrangement:
    """Return how these devices share memory: each as its facts allow.

    Args:
        devices: Facts of the plan's devices, in its order.
        sharing: How devices that compute in the host's memory share it; by default what `CODL_SHARING`
            says, else coherently between CPU drivers and by maps with everything else.

    Raises:
        DeviceError: CODL_SHARING has a value that is no way of sharing.
    """
    wanted = sharing or _read_wish()
    modes = []
    for info in devices:
        usual = Sharing.COHERENT if info.kind is DeviceKind.CPU else Sharing.MAPPED
        modes.append((wanted or usual) if info.is_unified else Sharing.COPIED)
    signals = Sharing.COHERENT in modes and len({*modes}) == 1 and can_signal(devices)
    return Arrangement(modes=tuple(modes), signals=signals)


def arrange_named(names: Sequence[str]) -> Arrangement:
    """Return how devices of which only the names are known would share memory.

    A CPU is taken to compute in the host's memory, everything else to have its own.

    Raises:
        DeviceError: CODL_SHARING has a value that is no way of sharing.
    """
    unified = _read_wish() or Sharing.COHERENT
    is_cpu = (DeviceKind.CPU in split_units(name)[0].split("-") for name in names)
    return Arrangement(modes=tuple(unified if is_host else Sharing.COPIED for is_host in is_cpu))


def choose_sharing(devices: Sequence[DeviceInfo]) -> Sharing:
    """Return how these devices share tensors, all with all: as the one that needs most for it.

    Raises:
        DeviceError: CODL_SHARING has a value that is no way of sharing.
    """
    return arrange(devices).between_all()


def _read_wish() -> Sharing | None:
    """Return what CODL_SHARING asks for; it cannot make memory coherent that is not known to be."""
    wanted = os.environ.get("CODL_SHARING", "")
    if wanted not in ("", *Sharing):
        raise DeviceError(f"CODL_SHARING: got {wanted!r}, expected one of {[str(mode) for mode in Sharing]}")
    return Sharing(wanted) if wanted not in ("", Sharing.COHERENT) else None


def storage_order(rank: int) -> tuple[int, ...]:
    """Return the ONNX axes of a tensor of ``rank`` from outermost to innermost in memory."""
    return _STORAGE_ORDERS.get(rank, tuple(range(rank)))


def count_runs(region: Region, whole: Region) -> int:
    """Return how many runs of neighbouring bytes a region has in storage order inside ``whole``."""
    lengths, wholes = region.shape, whole.shape
    runs, is_whole = 1, True
    for axis in reversed(storage_order(len(wholes))):
        if not is_whole:
            runs *= lengths[axis]
        is_whole = is_whole and lengths[axis] == wholes[axis]
    return runs


def allocate_own(device: Device, floats: int) -> Any:
    """Return a buffer of so many floats in a device's own memory, to be kept until all that uses it is done.

    A CPU's own memory is the host's: it has large pages then, which drivers do not ask for.

    Raises:
        DeviceError: The driver refused the memory, or the host has not so much.
    """
    if device.info.kind is DeviceKind.CPU and device.info.is_unified:
        return device.wrap(allocate_host(floats))
    return device.allocate(floats)


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """A region of a tensor in a buffer; its innermost axis is dense."""

    region: Region
    buffer: Any
    host: npt.NDArray[np.float32] | None
    """The same memory as a flat array, where the host sees it."""
    strides: tuple[int, ...]
    """Elements between neighbours, by ONNX axis."""
    base: int = 0
    """Element of the buffer at which the region's first one lies."""

    @property
    def offset(self) -> int:
        """Element index at which coordinate (0, ..., 0) of the whole tensor would lie; may be negative."""
        return self.base - sum(b * s for b, s in zip(self.region.begin, self.strides, strict=True))

    def span(self, region: Region) -> tuple[int, int]:
        """Return the element at which a region begins, and the elements from there to its last one."""
        first, last = (
            self.offset + sum(index * stride for index, stride in zip(at, self.strides, strict=True))
            for at in (region.begin, tuple(end - 1 for end in region.end))
        )
        return first, last + 1 - first

    def view(self) -> npt.NDArray[np.float32]:
        """Return the host memory as an array in ONNX axis order, not a copy."""
        assert self.host is not None
        strides = tuple(stride * FLOAT_BYTES for stride in self.strides)
        return np.lib.stride_tricks.as_strided(self.host[self.base :], self.region.shape, strides)


def dense_strides(shape: Shape) -> tuple[int, ...]:
    """Return the strides, by ONNX axis, of a tensor stored densely in storage order."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(storage_order(len(shape))):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def place_constant(shape: Shape, buffer: Any, host: FloatArray) -> Storage:
    """Return the storage of a constant that lies in a buffer, and in the host's array, in ONNX order."""
    return Storage(region=Region.whole(shape), buffer=buffer, host=host, strides=onnx_strides(shape))


def onnx_strides(shape: Shape) -> tuple[int, ...]:
    """Return the strides, by ONNX axis, of a tensor stored densely in ONNX order."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def place_shared(
    region: Region, devices: Sequence[Device], *, beside: Device | None = None
) -> tuple[Storage, ...]:
    """Return one host allocation (`allocate_beside`) for ``region`` as each of ``devices`` sees it."""
    host = allocate_beside(beside, region.size)
    return tuple(place_in(region, device.wrap(host), host=host) for device in devices)


def allocate_beside(device: Device | None, floats: int) -> npt.NDArray[np.float32]:
    """Return page-aligned host memory that a device with memory of its own, if any, copies from and to.

    Raises:
        DeviceError: There is not so much, or the driver keeps not so much in place.

    Source:
        An H200: 602 KB written take 25 us instead of 77, read 24 instead of 96.
    """
    return allocate_host(floats) if device is None else device.pin(floats)


def place_in(
    region: Region,
    buffer: Any,
    *,
    base: int = 0,
    frame: Region | None = None,
    host: npt.NDArray[np.float32] | None = None,
    in_onnx_order: bool = False,
) -> Storage:
    """Return the storage of ``region`` in a buffer that exists.

    Args:
        region: What it holds of its tensor.
        buffer: The buffer, as the device sees it.
        base: Element of the buffer at which the frame begins.
        frame: What lies densely around the region, in its coordinates; by default the region itself.
        host: The same memory as a flat array, where the host sees it.
        in_onnx_order: Whether it lies there as programs give and take tensors, not as kernels like them.
    """
    frame = frame or region
    strides = onnx_strides(frame.shape) if in_onnx_order else dense_strides(frame.shape)
    first = base + sum((b - f) * s for b, f, s in zip(region.begin, frame.begin, strides, strict=True))
    return Storage(region=region, buffer=buffer, host=host, strides=strides, base=first)


def place_host(region: Region, *, beside: Device | None = None, in_onnx_order: bool = False) -> Storage:
    """Return host memory for ``region`` that no device sees; see `allocate_beside` and `place_in`."""
    host = allocate_beside(beside, region.size)
    return place_in(region, None, host=host, in_onnx_order=in_onnx_order)


@dataclass(frozen=True, slots=True)
class _Rectangle:
    """One OpenCL rectangular copy: at most three dimensions, in bytes."""

    region: tuple[int, int, int]
    host_origin: tuple[int, int, int]
    host_pitches: tuple[int, int]
    buffer_origin: tuple[int, int, int]
    buffer_pitches: tuple[int, int]


class HostCopy:
    """A prepared copy of a region between a device's storage and the host's, either way."""

    def __init__(self, *, device: Device, storage: Storage, host: Storage, region: Region) -> None:
        assert host.host is not None
        self._queue, self._buffer, self._host = device.queue, storage.buffer, host.host
        self._rectangles = tuple(_rectangles(region, storage, host))
        self._written: list[Any] = []
        """Events of the last write: pyopencl waits for one of them when it is dropped."""

    def read(self) -> None:
        """Copy device to host and wait for it."""
        self._enqueue(to_host=True)

    def write(self) -> None:
        """Enqueue host to device; the host memory must stay as it is until the queue has finished."""
        self._written = self._enqueue(to_host=False)

    def _enqueue(self, *, to_host: bool) -> list[Any]:
        last = len(self._rectangles) - 1
        ends = (self._host, self._buffer) if to_host else (self._buffer, self._host)
        return [
            cl.enqueue_copy(
                self._queue,
                *ends,
                buffer_origin=rectangle.buffer_origin,
                host_origin=rectangle.host_origin,
                region=rectangle.region,
                buffer_pitches=rectangle.buffer_pitches,
                host_pitches=rectangle.host_pitches,
                is_blocking=to_host and index == last,
            )
            for index, rectangle in enumerate(self._rectangles)
        ]


def _rectangles(region: Region, storage: Storage, host: Storage) -> list[_Rectangle]:
    """Return the copies of at most three dimensions that move ``region``, one for each outermost index."""
    dims = [
        (length, near, far)
        for length, near, far in zip(region.shape, storage.strides, host.strides, strict=True)
        if length > 1
    ]
    dims.sort(key=lambda dim: dim[1], reverse=True)
    merged: list[tuple[int, int, int]] = [(1, 1, 1)]
    for length, near, far in reversed(dims):
        inner_length, inner_near, inner_far = merged[-1]
        if (near, far) == (inner_length * inner_near, inner_length * inner_far):
            merged[-1] = (length * inner_length, inner_near, inner_far)
        else:
            merged.append((length, near, far))
    merged += [(1, 0, 0)] * (3 - len(merged))
    starts = [(0, 0)]
    for length, near, far in merged[3:]:
        starts = [(a + i * near, b + i * far) for a, b in starts for i in range(length)]
    near_start = storage.offset + sum(b * s for b, s in zip(region.begin, storage.strides, strict=True))
    far_start = host.offset + sum(b * s for b, s in zip(region.begin, host.strides, strict=True))
    (columns, _, _), (rows, near_row, far_row), (slices, near_slice, far_slice) = merged[:3]
    return [
        rectangle
        for near, far in starts
        for rectangle in _split_slices(
            (columns, rows, slices),
            (near_start + near, near_row, near_slice),
            (far_start + far, far_row, far_slice),
        )
    ]


def _split_slices(
    shape: tuple[int, int, int], near: tuple[int, int, int], far: tuple[int, int, int]
) -> list[_Rectangle]:
    """Return one copy for a box of rows and slices, or one for each slice where pitches do not nest.

    OpenCL wants the slice pitch to be a multiple of the row pitch, and origins
    inside the first row: a start is given as bytes of the first row.
    """
    columns, rows, slices = shape
    near_start, near_row, near_slice = near
    far_start, far_row, far_slice = far
    near_row, far_row = near_row or columns, far_row or columns
    aligned = near_slice % near_row == 0 and far_slice % far_row == 0
    if slices > 1 and not aligned:
        return [
            piece
            for index in range(slices)
            for piece in _split_slices(
                (columns, rows, 1),
                (near_start + index * near_slice, near_row, 0),
                (far_start + index * far_slice, far_row, 0),
            )
        ]
    size = FLOAT_BYTES
    return [
        _Rectangle(
            region=(columns * size, rows, slices),
            host_origin=(far_start * size, 0, 0),
            host_pitches=(far_row * size, (far_slice or far_row * rows) * size),
            buffer_origin=(near_start * size, 0, 0),
            buffer_pitches=(near_row * size, (near_slice or near_row * rows) * size),
        )
    ]

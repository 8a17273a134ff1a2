"""A device at work: its context, its queue, its programs and its buffers."""

import copy
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from codl.catalog.source import build_options, read_source
from codl.catalog.spec import Parameters
from codl.devices.boundary import drain, driver_calls
from codl.devices.drivers import find_device
from codl.devices.forks import check_not_lost, is_lost, keep_in_children, make_lock
from codl.devices.kernel_cache import KernelCache
from codl.devices.limits import pinned_caller
from codl.devices.pocl_cache import check_room
from codl.devices.probe import build_quietly
from codl.errors import BuildError
from codl.ir.graph import FLOAT_BYTES
from codl.machine import DeviceInfo, DeviceKind, Precision

_VECTORS_BY_HAND = "#define __kernel __kernel __attribute__((vec_type_hint(float8)))\n"
"""Kernels for CPUs are written in vectors, so compilers need not look for work-items to make vectors of.

Source:
    Intel's runtime on two cores of a Zen 3: conv2d_winograd_patch takes 5.1 s to compile and 0.8 with it,
    conv2d_pointwise 4.6 and 0.7; they run as fast.
"""
COUNTER_STEP = 16
"""Integers from one counter to the next one: a cache line."""


class Device:
    """One OpenCL device with one in-order queue. Opened once a process; see `open_device`."""

    def __init__(self, info: DeviceInfo, cl_device: Any) -> None:
        self.info = info
        with driver_calls(info.name, "driver refused a context"), pinned_caller():  # as `find_fault`
            self.context = cl.Context([cl_device])
            self.queue = cl.CommandQueue(self.context)
        self._kernel_cache = KernelCache(info, cl_device)
        self._lock = make_lock()
        """Sessions of several threads share a device and its programs."""
        self._programs: dict[tuple[str, str], Any] = {}
        self._unstored: list[tuple[str, str]] = []
        self._zeros: Any = None
        self._counters: Any = None
        self._arrivals: Any = None
        self.walkers: dict[int, Any] = {}
        """By number of groups, what walks tapes on this queue (codl/devices/walker.py)."""
        self._register()

    def _register(self) -> None:
        keep_in_children(self)
        _opened.add(self)

    def with_profiling(self) -> "Device":
        """Return the same device with another queue, whose events know when they ran; programs are shared.

        Raises:
            DeviceError: The driver refuses such a queue.
        """
        twin = self._copy()
        with driver_calls(self.info.name, "driver refused a queue with profiling"):
            twin.queue = cl.CommandQueue(
                self.context, properties=cl.command_queue_properties.PROFILING_ENABLE
            )
        return twin

    def with_facts(self, **changes: Any) -> "Device":
        """Return the same device with other facts, for instance with memory of its own.

        Args:
            changes: Fields of `DeviceInfo` with the values to believe.
        """
        twin = self._copy()
        twin.info = replace(self.info, **changes)
        return twin

    def _copy(self) -> "Device":
        """Return the same device with counters of its own, as another queue or other units need them."""
        twin = copy.copy(self)
        twin._counters = twin._arrivals = None
        twin.walkers = {}
        twin._register()
        return twin

    @property
    def keeps_times(self) -> bool:
        """Whether events of its queue know when they ran."""
        return bool(self.queue.properties & cl.command_queue_properties.PROFILING_ENABLE)

    @property
    def program_count(self) -> int:
        """Number of programs so far: one for each row and its parameters."""
        return len(self._programs)

    def has_program(self, source: str, parameters: Parameters) -> bool:
        """Return whether a program need not be built: it was, or is kept from an earlier process."""
        options = build_options(parameters)
        return (source, options) in self._programs or self._kernel_cache.has(
            text=self._read(source), options=options
        )

    def kernel(self, source: str, entry: str, parameters: Parameters) -> Any:
        """Return a new kernel object of its own arguments; its program is loaded or built at first use.

        Raises:
            BuildError: The driver refused the source; the message carries its log.
        """
        program = self.prepare(source, parameters)
        with driver_calls(self.info.name, f"no kernel {entry} in {source}", kind=BuildError):
            return cl.Kernel(program, entry)

    def prepare(self, source: str, parameters: Parameters) -> Any:
        """Return the program of a source, loaded or built at first use.

        Raises:
            BuildError: The driver refused the source; the message carries its log.
        """
        check_not_lost([self.info.name])
        options = build_options(parameters)
        with self._lock:
            program = self._programs.get((source, options))
            if program is None:
                check_room(self.info)
                program = self._kernel_cache.load(self.context, text=self._read(source), options=options)
                if program is None:
                    program = self._build(source, options)
                    self._unstored.append((source, options))
                self._programs[source, options] = program
        return program

    def bind(self, kernel: Any, *args: Any) -> None:
        """Set all arguments of a kernel; keep buffers as long as it, which OpenCL does not.

        Raises:
            BuildError: The driver refused them.
        """
        with driver_calls(self.info.name, "driver refused a kernel's arguments", kind=BuildError):
            # Without its type pyopencl tries what else a number may be: 40 us for each.
            kernel.set_scalar_arg_dtypes([type(arg) if isinstance(arg, np.generic) else None for arg in args])
            kernel.set_args(*args)

    def store_programs(self) -> None:
        """Keep what was built since the last call for later processes; call it after a first launch of it."""
        with self._lock:
            unstored = tuple(self._unstored)
            self._unstored.clear()
        for source, options in unstored:
            program = self._programs[source, options]
            self._kernel_cache.store(program, text=self._read(source), options=options, source=source)

    def _read(self, source: str) -> str:
        """Return the text of a source as the driver gets it."""
        text = read_source(source)
        return _VECTORS_BY_HAND + text if self.info.kind is DeviceKind.CPU else text

    def _build(self, source: str, options: str) -> Any:
        text = self._read(source)
        with driver_calls(self.info.name, f"cannot build {source} ({options})", kind=BuildError):
            return build_quietly(cl.Program(self.context, text), options)

    def allocate(self, floats: int) -> Any:
        """Return a new buffer of ``floats`` float32 values in the device's own memory."""
        return self._buffer(cl.mem_flags.READ_WRITE, size=max(1, floats) * FLOAT_BYTES)

    def allocate_image(self, width: int, height: int) -> Any:
        """Return a new image of ``width`` x ``height`` texels of four floats."""
        texel = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)
        with driver_calls(self.info.name, f"cannot allocate an image of {width} x {height}"):
            return cl.create_image(self.context, cl.mem_flags.READ_WRITE, texel, shape=(width, height))

    def wrap(self, array: npt.NDArray[np.float32]) -> Any:
        """Return a buffer over the memory of ``array`` itself; keep the array as long as the buffer."""
        return self._buffer(cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR, hostbuf=array)

    def pin(self, floats: int) -> npt.NDArray[np.float32]:
        """Return host memory that the driver keeps in place: it copies from and to it without a detour.

        Raises:
            DeviceError: The driver refused it.
        """
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
        buffer = self._buffer(flags, size=max(1, floats) * FLOAT_BYTES)
        access = cl.map_flags.READ | cl.map_flags.WRITE
        with driver_calls(self.info.name, f"cannot pin {floats} floats"):
            array, _ = cl.enqueue_map_buffer(self.queue, buffer, access, 0, (max(1, floats),), np.float32)
        return cast("npt.NDArray[np.float32]", array)

    def upload(self, array: npt.NDArray[np.float32]) -> Any:
        """Return a read-only buffer with the values of ``array``: the array itself where memory is shared."""
        sharing = cl.mem_flags.USE_HOST_PTR if self.info.is_unified else cl.mem_flags.COPY_HOST_PTR
        return self._buffer(cl.mem_flags.READ_ONLY | sharing, hostbuf=array)

    def _buffer(self, flags: Any, **what: Any) -> Any:
        check_not_lost([self.info.name])
        size = what.get("size") or what["hostbuf"].nbytes
        with driver_calls(self.info.name, f"cannot allocate {size} bytes"):
            return cl.Buffer(self.context, flags, **what)

    def zeros(self, floats: int) -> Any:
        """Return a buffer of at least ``floats`` zeros, shared by all kernels that read padding from it."""
        if self._zeros is None or self._zeros.size < floats * FLOAT_BYTES:
            self._zeros = self.upload(np.zeros(max(floats, 4096), np.float32))
        return self._zeros

    @property
    def counters(self) -> Any:
        """Zeros by which units share out a launch (kernels/common/grid.h), and which it leaves as zeros.

        One buffer will do for all launches, as the queue runs them one after the other.
        """
        if self._counters is None:
            zeros = np.zeros((self.info.units + 1) * COUNTER_STEP, np.int32)
            self._counters = self._buffer(cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=zeros)
        return self._counters

    def arrivals(self, count: int) -> Any:
        """Return a buffer of at least ``count`` zeros, which launches that count in it leave as zeros."""
        if self._arrivals is None or self._arrivals.size < count * FLOAT_BYTES:
            self._arrivals = self.upload_integers(np.zeros(max(count, 4096), np.int32))
        return self._arrivals

    def upload_integers(self, values: npt.NDArray[np.int32]) -> Any:
        """Return a buffer of the device's own with these values, which kernels may change."""
        return self._buffer(cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=values)

    def fill(self, buffer: Any, value: float) -> None:
        """Set every float of a buffer or an image."""
        with driver_calls(self.info.name, "cannot fill memory"):
            if isinstance(buffer, cl.Image):
                texel = np.full(4, value, np.float32)
                cl.enqueue_fill_image(self.queue, buffer, texel, (0, 0, 0), (*buffer.shape, 1))
                return
            cl.enqueue_fill_buffer(self.queue, buffer, np.float32(value), 0, buffer.size)

    def write(self, buffer: Any, values: npt.NDArray[np.float32], begin: int) -> None:
        """Copy values to a buffer, from its float ``begin`` on, and wait for it."""
        if values.size:
            with driver_calls(self.info.name, "cannot write memory"):
                cl.enqueue_copy(self.queue, buffer, values, dst_offset=begin * FLOAT_BYTES, is_blocking=True)

    def finish(self) -> None:
        """Wait until everything enqueued is done; other Python threads run meanwhile."""
        self.queue.finish()


_opened: "weakref.WeakSet[Device]" = weakref.WeakSet()


@contextmanager
def drained_on_error() -> Iterator[None]:
    """Wait for all devices of the process when the block fails: they may use memory that goes with it."""
    try:
        yield
    except BaseException:
        drain([device for device in _opened if not is_lost(device.info.name)])
        raise


def open_device(name: str, *, precision: Precision = Precision.FLOAT32) -> Device:
    """Return the device of this name or kind, opened once a process.

    Args:
        name: Its name or kind.
        precision: What its products may be rounded to; float32 where it has no matrix units.

    Raises:
        DeviceError: No such device, or its driver refuses it.
    """
    with _OPENING:
        return _open(find_device(name).info.name, precision)


_OPENING = make_lock()


@cache
def _open(name: str, precision: Precision) -> Device:
    if precision is Precision.FLOAT32:
        opened = find_device(name)
        return Device(opened.info, opened.cl_device)
    device = _open(name, Precision.FLOAT32)
    return device.with_facts(precision=precision) if device.info.has_matrix_units else device


def open_devices(names: Sequence[str], *, precision: Precision = Precision.FLOAT32) -> tuple[Device, ...]:
    """Return the devices of these names, in their order; products may be rounded as in `open_device`."""
    return tuple(open_device(name, precision=precision) for name in names)

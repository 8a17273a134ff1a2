"""Regions of shared memory that the host maps, so that devices see what others have written."""

from contextlib import suppress
from typing import Any

import numpy as np
import pyopencl as cl

from codl.devices.memory import Storage
from codl.devices.opencl import Device
from codl.ir.graph import FLOAT_BYTES
from codl.ir.regions import Region


class HeldRegion:
    """A region of a device's zero-copy buffer, prepared to be mapped and unmapped again and again.

    OpenCL maps ranges of bytes: from the first to the last element of the region, with
    all that lies between them. The memory is the host's own, so nothing of it moves.

    Args:
        device: The device whose buffer it is.
        storage: Where it lies there.
        region: What is mapped.
        is_written: Whether the host or another device writes it meanwhile; else they read it.
    """

    def __init__(self, *, device: Device, storage: Storage, region: Region, is_written: bool) -> None:
        self._queue, self._buffer = device.queue, storage.buffer
        self._flags = cl.map_flags.WRITE if is_written else cl.map_flags.READ
        self.begin_bytes, self.size_bytes = (count * FLOAT_BYTES for count in storage.span(region))
        self._map: Any = None

    def map(self) -> None:
        """Wait for all that the device has to do, and map the region."""
        array, _ = cl.enqueue_map_buffer(
            self._queue,
            self._buffer,
            self._flags,
            self.begin_bytes,
            (self.size_bytes,),
            np.uint8,
            is_blocking=True,
        )
        self._map = array.base

    def unmap(self) -> None:
        """Unmap the region; the device's next launches see what was written."""
        self._map.release(self._queue)
        self._map = None

    def let_go(self) -> None:
        """Unmap the region if a failed run has left it mapped."""
        if self._map is not None:
            with suppress(Exception):  # what failed before is told of; dropping a map gives it back, too
                self.unmap()
            self._map = None

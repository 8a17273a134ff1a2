"""Memory that many cases share: weights, which take long to make, and activations, as networks keep them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from codl.catalog.layers import draw_values
from codl.devices.boundary import driver_calls
from codl.devices.loads import round_read
from codl.devices.memory import Storage, allocate_own, place_in
from codl.devices.opencl import Device
from codl.devices.pages import allocate_host
from codl.ir.graph import FLOAT_BYTES, FloatArray
from codl.ir.regions import Region

_NEAR = 1 << 22
"""Floats of the memory of near weights, at least."""
_MOST_FAR = 1 << 27
"""Floats of the memory of far weights: more than caches that cores share hold."""
_SHARE_OF_FAR = 8
"""That memory is no larger than the device's memory over this, unless one layer's weights are."""
_PAGE_FLOATS = 1 << 10
"""Where weights may begin: of a page, and of what drivers want to be aligned."""
_MOST_GAP = 1 << 8
"""Steps of what drivers want to be aligned between two activations, at most."""
_LEAST_FLOATS = 1 << 24
"""Of activations: more than most operators have, so that few cases find the memory too small."""


class _Ring:
    """Memory of which one piece after the other is taken, from the beginning again where none is left.

    It is a buffer on the device, and the same memory as an array of the host.
    """

    def __init__(self, buffer: Any, host: FloatArray) -> None:
        self.buffer, self.host, self._end = buffer, host, 0

    def take(self, floats: int) -> tuple[Any, FloatArray]:
        """Return a buffer of so many values, no more than there are, and the same as an array."""
        begin = self._end if self._end + floats <= self.host.size else 0
        self._end = -(-(begin + floats) // _PAGE_FLOATS) * _PAGE_FLOATS
        with driver_calls("pool", f"no part of {floats} values"):
            piece = self.buffer.get_sub_region(begin * FLOAT_BYTES, floats * FLOAT_BYTES)
        return piece, self.host[begin : begin + floats]


class ConstantPool:
    """Random weights of a device, the same ones for many cases: making them takes longer than using them.

    In a network whose weights all stay in the cache that cores share, an operator finds its own there, where
    the last run has left them: near ones are read before each reading, and swept out of the core's own
    caches. In others they come from memory. Both lie behind each other, and begin anew at the end: caches
    have lost far ones when they are wanted again, of which there are more.

    Source:
        One core of a Zen 4 beside others that share 32 MB with it, linear layers of one row. While small
        weights took turns in four pools of 8 MB and those beyond that came from memory, the first 2 MB came
        at 70 GB/s, 3 to 8 MB at 30 to 45, as far as other cases had walked: a third of them was predicted
        within 10 %. Networks have all of theirs at 70 or at 33.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._near = self._far = _Ring(None, np.empty(0, np.float32))

    def take_near(self, floats: int) -> tuple[Any, FloatArray]:
        """Return a buffer of so many values or more, as `prepare_read` wants them, and the same as an array.

        Where memory is a device's own it is the whole of it: NVIDIA's driver (580.159) crashes when pieces
        that were read come and go, those of far weights do not.

        Raises:
            DeviceError: The driver refused memory.
        """
        floats = round_read(self._device, floats)
        if self._near.host.size < floats:
            self._near = self._make(max(_NEAR, 2 * floats))
        if not self._device.info.is_unified:
            return self._near.buffer, self._near.host
        return self._near.take(floats)

    def take_far(self, floats: int) -> tuple[Any, FloatArray]:
        """Return a buffer of so many values behind those taken last, at the first place where none are left.

        Raises:
            DeviceError: The driver refused memory.
        """
        if self._far.host.size < floats:
            most = self._device.info.global_memory_bytes // FLOAT_BYTES // _SHARE_OF_FAR
            self._far = self._make(max(floats, min(_MOST_FAR, most)))
        return self._far.take(floats)

    def _make(self, floats: int) -> _Ring:
        host = allocate_host(floats)
        host[:] = draw_values(floats)
        return _Ring(self._device.upload(host), host)


class ActivationPool:
    """Memory for the activations and scratch of one case after the other.

    In a network tensors lie where others lay just before, and all of them together stay in the caches that
    cores share. Cases in turns with memory of their own would find theirs long out of there, though they
    write it anew. A case keeps the memory it has taken when a later one needs more.

    Source:
        160 cases in turns, 2 cores of a Granite Rapids, Intel's driver, four convolutions of small and large
        images: 1.10 to 1.29 times as long as alone, each in memory of its own; 1.00 to 1.10 so, but for one
        whose 38 MB of weights come from memory.

    Args:
        device: Whose memory it is.
        least_floats: How much to take at first, of activations and of scratch.
    """

    def __init__(self, device: Device, *, least_floats: int = _LEAST_FLOATS) -> None:
        self._device, self._least = device, least_floats
        self._memory: tuple[Any, FloatArray | None] = (None, None)
        self._scratch: Any = None
        self._floats = self._scratch_floats = 0
        self._rng = np.random.default_rng(0)

    def place(self, regions: Mapping[str, Region]) -> dict[str, Storage]:
        """Return where each region of a case lies, one behind the other, with other gaps between each time.

        Raises:
            DeviceError: The driver refused memory.
        """
        step = max(1, self._device.info.alignment_bytes // FLOAT_BYTES)
        places, total = {}, 0
        for name, region in regions.items():
            places[name] = total + int(self._rng.integers(_MOST_GAP)) * step
            total = places[name] + -(-region.size // step) * step
        if total > self._floats:
            count = self._round_up(total, self._floats)
            self._memory, self._floats = self._take(count), count
        buffer, host = self._memory
        return {
            name: place_in(region, buffer, base=places[name], host=host) for name, region in regions.items()
        }

    def take_scratch(self, floats: int) -> Any:
        """Return a buffer of at least so many floats.

        Raises:
            DeviceError: The driver refused memory.
        """
        if floats > self._scratch_floats:
            count = self._round_up(floats, self._scratch_floats)
            self._scratch, self._scratch_floats = allocate_own(self._device, count), count
        return self._scratch

    def _round_up(self, floats: int, known: int) -> int:
        return max(floats, 2 * known, self._least)

    def _take(self, floats: int) -> tuple[Any, FloatArray | None]:
        if not self._device.info.is_unified:
            return self._device.allocate(floats), None
        host = allocate_host(floats)
        return self._device.wrap(host), host

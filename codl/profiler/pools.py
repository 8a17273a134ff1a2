"""Memory that many cases share: weights, which take long to make, and activations, as networks keep them."""

from collections.abc import Mapping
from typing import Any

from codl.catalog.layers import draw_values
from codl.devices.memory import Storage, allocate_host, place_in
from codl.devices.opencl import Device
from codl.ir.graph import FLOAT_BYTES, FloatArray
from codl.ir.regions import Region

_POOL, _POOLS = 1 << 21, 4
"""Floats of a pool of small weights, and how many there are: they stay in the caches that cores share."""
_MOST_LARGE = 1 << 27
"""Floats of the pool of weights that are larger: more than caches that cores share hold."""
_SHARE_OF_LARGE = 8
"""That pool is no larger than the device's memory over this, unless one layer's weights are."""
_PAGE_FLOATS = 1 << 10
"""Where larger weights may begin: of a page, and of what drivers want to be aligned."""
_LEAST_FLOATS = 1 << 24
"""Of activations: more than most operators have, so that few cases find the memory too small."""


def are_large(floats: int) -> bool:
    """Return whether so many weights come from memory, and not from a cache that cores share."""
    return floats > _POOL


class ConstantPool:
    """Random weights of a device, the same ones for many cases: making them takes longer than using them.

    Small ones come from one pool after the other: in a network no operator finds its own where another one
    has just walked, but most networks have all of theirs in the shared cache. Larger ones lie behind each
    other in a pool of their own, and begin anew at its end: they are of networks whose weights leave that
    cache before they are read again.

    Source:
        One core of a Granite Rapids, 3 x 3 of 192 and 128 channels in Inception v2 and ResNet-50: 331 and 405
        us in the network; among 60 cases 425 to 520 and 420 to 510 from twelve pools of 8 MB, 360 and 408
        from four.

    Args:
        device: Where they are.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._pools: list[tuple[Any, FloatArray]] = []
        self._taken = 0
        self._large: tuple[Any, FloatArray] | None = None
        self._large_end = 0

    def take(self, floats: int) -> tuple[Any, FloatArray]:
        """Return a buffer of at least so many values, and the same memory as an array where the host sees it.

        Raises:
            DeviceError: The driver refused memory.
        """
        if are_large(floats):
            return self._take_large(floats)
        if len(self._pools) < _POOLS:
            self._pools.append(self._make(_POOL))
        self._taken += 1
        return self._pools[(self._taken - 1) % _POOLS]

    def _take_large(self, floats: int) -> tuple[Any, FloatArray]:
        """Return the memory behind what was taken last, or the pool's first where that reaches too far."""
        if self._large is None or self._large[1].size < floats:
            most = self._device.info.global_memory_bytes // FLOAT_BYTES // _SHARE_OF_LARGE
            self._large, self._large_end = self._make(max(floats, min(_MOST_LARGE, most))), 0
        buffer, host = self._large
        begin = self._large_end if self._large_end + floats <= host.size else 0
        self._large_end = -(-(begin + floats) // _PAGE_FLOATS) * _PAGE_FLOATS
        return buffer.get_sub_region(begin * FLOAT_BYTES, floats * FLOAT_BYTES), host[begin : begin + floats]

    def _make(self, floats: int) -> tuple[Any, FloatArray]:
        host = allocate_host(floats)
        host[:] = draw_values(floats)
        return self._device.upload(host), host


class ActivationPool:
    """Memory for the activations and scratch of one case after the other.

    In a network tensors lie where others lay just before, and all of them together stay in the caches that
    cores share. Cases in turns with memory of their own would find theirs long out of there, though they
    write it anew. Whoever has taken some keeps it when others need more.

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

    def place(self, regions: Mapping[str, Region]) -> dict[str, Storage]:
        """Return where each region of a case lies, one behind the other.

        Raises:
            DeviceError: The driver refused memory.
        """
        step = max(1, self._device.info.alignment_bytes // FLOAT_BYTES)
        places, total = {}, 0
        for name, region in regions.items():
            places[name] = total
            total += -(-region.size // step) * step
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
            self._scratch, self._scratch_floats = self._device.allocate(count), count
        return self._scratch

    def _round_up(self, floats: int, known: int) -> int:
        return max(floats, 2 * known, self._least)

    def _take(self, floats: int) -> tuple[Any, FloatArray | None]:
        if not self._device.info.is_unified:
            return self._device.allocate(floats), None
        host = allocate_host(floats)
        return self._device.wrap(host), host

"""Host memory for tensors: on pages of its own, large ones where the system has them.

A run reads more megabytes than the processor keeps addresses of small pages for, and its prefetching of
memory stops at the end of a page.

Source:
    One core of a Granite Rapids reads weights during products at 16 GB/s instead of 12; eight networks take
    0.96 to 0.995 of the time. Mappings that processes may share, Python's default, keep small pages.
"""

import mmap
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from codl.errors import DeviceError
from codl.ir.graph import FLOAT_BYTES, FloatArray

PAGE_BYTES = 4096
LARGE_PAGE_BYTES = 2 << 20
_LEAST_LARGE_BYTES = 1 << 20
"""From this size on memory takes large pages: a half of the last one is lost on average."""
_CHUNK_BYTES = 32 << 20


def allocate_host(floats: int) -> npt.NDArray[np.float32]:
    """Return a page-aligned array of undefined values that a zero-copy buffer can stand on.

    From 1 MiB on it asks the system for large pages, and begins on one.

    Args:
        floats: Its length; there is room for one value at least.

    Raises:
        DeviceError: There is not so much.
    """
    size = max(1, floats) * FLOAT_BYTES
    page = LARGE_PAGE_BYTES if size >= _LEAST_LARGE_BYTES else PAGE_BYTES
    raw = _map_large(size) if page == LARGE_PAGE_BYTES else None
    if raw is None:
        try:
            raw = np.empty(size + page, np.uint8)
        except MemoryError as error:
            raise DeviceError(f"host: cannot allocate {size} bytes: {error}") from error
    start = -raw.ctypes.data % page
    return raw[start : start + size].view(np.float32)


def _map_large(size: int) -> npt.NDArray[np.uint8] | None:
    """Return memory with room for ``size`` bytes on large pages, or None where one cannot ask for them."""
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if advice is None:
        return None
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # what processes share has small pages
    try:
        mapped = mmap.mmap(-1, _round_up(size, LARGE_PAGE_BYTES) + LARGE_PAGE_BYTES, flags=flags)
    except OSError:
        return None
    with suppress(OSError):  # a kernel without large pages
        mapped.madvise(advice)
    return np.frombuffer(mapped, np.uint8)


@dataclass(slots=True)
class Chunks:
    """Large chunks of host memory that many arrays share, so that little of their pages is lost.

    A chunk is given back when the last array in it is.
    """

    _rest: npt.NDArray[np.float32] = field(default_factory=lambda: np.empty(0, np.float32))

    def place(self, values: FloatArray) -> FloatArray:
        """Return a copy of an array, on a page of its own."""
        floats = max(1, values.size)
        whole = _round_up(floats * FLOAT_BYTES, PAGE_BYTES) // FLOAT_BYTES
        if whole > self._rest.size:
            self._rest = allocate_host(max(whole, _CHUNK_BYTES // FLOAT_BYTES))
        placed, self._rest = self._rest[: values.size].reshape(values.shape), self._rest[whole:]
        np.copyto(placed, values)
        return placed


def _round_up(size: int, page: int) -> int:
    return -(-size // page) * page

"""Cores that wait for work without falling asleep.

A core that sleeps is slow to start again: at each synchronization one device also waits until the threads of
the other one's driver have woken up. Linux lets a program forbid that while it holds a file open.
"""

import os
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache

from codl.devices.forks import make_lock
from codl.devices.limits import pinned_caller, read_switch

AWAKE_VARIABLE = "CODL_KEEP_AWAKE"
LATENCY_FILE = "/dev/cpu_dma_latency"
"""Takes the most microseconds that any core may need to wake up; it counts while the file stays open."""
_AT_ONCE, _WHENEVER = struct.pack("i", 0), struct.pack("i", 2_000_000_000)


def awake_cores() -> AbstractContextManager[None]:
    """Keep idle cores from falling asleep while the block runs, where this process may ask for that.

    Root may, and any user who may write `LATENCY_FILE`. For others, and when `CODL_KEEP_AWAKE` is 0, the
    block runs without it. Idle cores use more power then, but take no time from other programs.

    Source:
        Linux, Documentation/power/pm_qos_interface.rst. Two kernels of 180 us, one on either driver of a
        virtual machine with 2 cores, take 200 to 220 us together with cores awake. Else they take 200 to 730,
        for a thread that wakes a sleeping core may go on only when that core's kernel is done; and networks
        on PoCL with both cores take 1.4 to 2.6 times as long.
    """
    return _request()


@contextmanager
def attentive_host() -> Iterator[None]:
    """Keep the host quick to start devices and to notice what they have done while the block runs."""
    with awake_cores(), pinned_caller():
        yield


def can_keep_awake() -> bool:
    """Return whether this process may ask that cores stay awake, and `CODL_KEEP_AWAKE` does not forbid it."""
    return _request().file is not None


class _Request:
    """The request of this process to the system, in force while any thread is inside the block."""

    def __init__(self, file: int | None) -> None:
        self.file = file
        self._lock = make_lock()
        self._blocks = 0

    def __enter__(self) -> None:
        with self._lock:
            self._blocks += 1
            if self._blocks == 1:
                self._write(_AT_ONCE)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._blocks -= 1
            if self._blocks == 0:
                self._write(_WHENEVER)

    def _write(self, latency: bytes) -> None:
        if self.file is not None:
            with suppress(OSError):
                os.write(self.file, latency)


def _leave_to_parent() -> None:
    """Close a child's copy of the file, which would keep asking for the parent or take back what it asks."""
    if _request.cache_info().currsize and (file := _request().file) is not None:
        os.close(file)
    _request.cache_clear()


@cache
def _request() -> _Request:
    """Return the request of this process, made when it is first needed."""
    if not read_switch(AWAKE_VARIABLE, default=True):
        return _Request(None)
    try:
        return _Request(os.open(LATENCY_FILE, os.O_WRONLY))
    except OSError:
        return _Request(None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)

"""What a child made by `fork` may do: drivers' threads stay in the parent, what they hold does not.

A child that calls such a driver waits for ever: in a run, where it frees memory, and at its end. So a child
of a process that has loaded drivers uses none of them, releases nothing of theirs, and ends without them.
Where no driver was loaded before the fork, the child loads its own.
"""

import ctypes
import os
import threading
import weakref
from collections.abc import Collection
from typing import Any

from codl.errors import DeviceError
from codl.machine import split_units

_SURVIVORS = frozenset({"intel"})
"""Drivers that a child can go on with, as long as no thread was at work with them when it was made.

Intel's threads take part in what a waiting thread does; without them it does all of it.
"""


class _State:
    """What this process knows of its drivers."""

    loaded: frozenset[tuple[str, str]] = frozenset()
    """Names of devices with their drivers."""
    lost: frozenset[str] = frozenset()
    """Devices that the parent opened and this process must not use."""


_STATE = _State()
_owners: "weakref.WeakSet[Any]" = weakref.WeakSet()
_locks: "weakref.WeakSet[Any]" = weakref.WeakSet()


def note_loaded(devices: Collection[tuple[str, str]]) -> None:
    """Remember that drivers are in this process.

    Args:
        devices: Names of devices with their drivers.
    """
    _STATE.loaded = frozenset(devices)


def keep_in_children(owner: Any) -> None:
    """Let no child release an object, or what it holds: a driver's, or threads that it would wait for."""
    _owners.add(owner)


def make_lock() -> Any:
    """Return a lock that is free in a child, even if the parent held it."""
    return _register_lock(threading.Lock())


def make_rlock() -> Any:
    """Return a reentrant lock that is free in a child, even if the parent held it."""
    return _register_lock(threading.RLock())


def _register_lock(lock: Any) -> Any:
    _locks.add(lock)
    return lock


def is_lost(device: str) -> bool:
    """Return whether a device was opened by a parent of this process and cannot be used here."""
    return bool(_STATE.lost) and split_units(device)[0] in _STATE.lost


def check_not_lost(devices: Collection[str]) -> None:
    """Return when none of these devices stayed in the parent of this process.

    Raises:
        DeviceError: One did.
    """
    if lost := sorted(filter(is_lost, devices)):
        names = ", ".join(lost)
        raise DeviceError(
            f"{names}: got a process made by fork after its parent had loaded OpenCL drivers, whose threads "
            "it lacks; expected a process of its own: start it with multiprocessing's method 'spawn' or "
            "'forkserver' (multiprocessing.set_start_method), or fork before anything uses devices"
        )


def _mark_child() -> None:
    _end_at_once()
    was_busy = any(_is_held(lock) for lock in list(_locks))
    for lock in list(_locks):
        lock._at_fork_reinit()
    spared = frozenset() if was_busy else _SURVIVORS
    _STATE.lost |= {name for name, driver in _STATE.loaded if driver not in spared}
    kept = list(_owners)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))  # for ever: the end of Python frees it neither


def _is_held(lock: Any) -> bool:
    if not lock.acquire(blocking=False):
        return True
    lock.release()
    return bool(getattr(lock, "_is_owned", bool)())


def _end_at_once() -> None:
    """End before the parent's exit handlers, in which drivers and ONNX Runtime wait for their threads."""
    if _LIBC is None or not hasattr(_LIBC, "on_exit"):
        return
    _LIBC.on_exit(_LIBC._exit, None)  # the last to be called of those that the child registers
    _LIBC.__cxa_atexit(_LIBC.fflush, None, None)


_LIBC = ctypes.CDLL(None) if os.name == "posix" else None
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_child)

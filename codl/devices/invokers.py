"""Python code that pyopencl makes for each kernel's arguments: kept in memory, not in files of its own.

pyopencl keeps it, pickled, below the home folder. Where that cannot be written no kernel could be made, on a
full disk one might fail later, and what is read back can run code that another put there.
"""

from importlib import import_module
from typing import Any

import pyopencl as cl

_SWITCH, _CACHE = "_PYOPENCL_NO_CACHE", "invoker_cache"


class _Memory(dict[Any, Any]):
    """A cache of one process, as pyopencl uses its own."""

    def store_if_not_present(self, key: Any, value: Any) -> None:
        """Keep a value."""
        self.setdefault(key, value)


def keep_invokers_in_memory() -> None:
    """Let pyopencl open no file for what it makes of kernels; a client's own programs are cached as usual."""
    before = getattr(cl, _SWITCH, None)
    if before is None:  # a version that does otherwise
        return
    setattr(cl, _SWITCH, True)
    try:
        invoker = import_module("pyopencl.invoker")  # opens its files when it is imported
    finally:
        setattr(cl, _SWITCH, before)
    setattr(invoker, _CACHE, _Memory())

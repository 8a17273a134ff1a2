"""Faults at the boundaries with foreign code: any call of pyopencl or ONNX Runtime may be made to fail."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import onnxruntime
import pyopencl as cl
import pytest

_DRIVER_CALLS = (
    (cl, "enqueue_nd_range_kernel"),
    (cl, "enqueue_copy"),
    (cl, "enqueue_map_buffer"),
    (cl, "enqueue_fill_buffer"),
    (cl, "create_image"),
    (cl, "Buffer"),
    (cl, "Kernel"),
    (cl, "LocalMemory"),
    (cl.Kernel, "set_args"),
    (cl.Kernel, "set_arg"),
    (cl.Program, "build"),
    (cl.Program, "get_info"),
    (cl.CommandQueue, "finish"),
    (cl.CommandQueue, "flush"),
    (cl.MemoryMap, "release"),
    (onnxruntime.InferenceSession, "__init__"),
    (onnxruntime.InferenceSession, "run"),
)


def _make_driver_error(kind: type[Exception]) -> Callable[[], Exception]:
    record = cl._cl._ErrorRecord(msg="injected", code=cl.status_code.OUT_OF_RESOURCES, routine="clInjected")
    return lambda: kind(record)


FAULTS: dict[str, Callable[[], BaseException]] = {
    "logic": _make_driver_error(cl.LogicError),
    "runtime": _make_driver_error(cl.RuntimeError),
    "device memory": _make_driver_error(cl.MemoryError),
    "host memory": MemoryError,
    "c++": lambda: RuntimeError("injected"),
    "argument": lambda: OverflowError("injected"),
    "file": lambda: OSError(28, "injected"),
    "interrupt": KeyboardInterrupt,
}
"""What calls raise, by name: pyopencl's own, Python's for C++, those of its files, and Ctrl-C."""


class Faults:
    """Counts calls of foreign code, and lets chosen ones of them fail: before they do anything, or after."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        """What was called in the last watched block."""
        self._is_watched = False
        self._places: frozenset[int] = frozenset()
        self._make: Callable[[], BaseException] = RuntimeError
        self._is_late = False
        self._thread = threading.local()
        """Whether it is inside such a call: those that pyopencl makes itself do not count."""
        for owner, name in _DRIVER_CALLS:
            patch.setattr(owner, name, self._wrap(f"{owner.__name__}.{name}", getattr(owner, name)))

    def _wrap(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def count(*args: Any, **kwargs: Any) -> Any:
            if not self._is_watched or getattr(self._thread, "is_inside", False):
                return call(*args, **kwargs)
            place = len(self.calls)
            self.calls.append(name)
            fails = place in self._places
            if fails and not self._is_late:
                raise self._make()
            self._thread.is_inside = True
            try:
                result = call(*args, **kwargs)
            finally:
                self._thread.is_inside = False
            if fails:
                raise self._make()
            return result

        return count

    @contextmanager
    def watched(self, *places: int, fault: str = "c++", is_late: bool = False) -> Iterator[None]:
        """Count the block's calls; those at ``places`` fail.

        Args:
            places: Which of its calls fail, the first one is 0.
            fault: One of `FAULTS`.
            is_late: Whether they do first what they were called for.
        """
        self.calls, self._places = [], frozenset(places)
        self._make, self._is_late, self._is_watched = FAULTS[fault], is_late, True
        try:
            yield
        finally:
            self._is_watched = False

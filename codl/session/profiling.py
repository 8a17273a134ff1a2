"""The trace file of a session, with the keys that readers of onnxruntime's profiles expect."""

import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from codl.devices.forks import make_lock
from codl.errors import InputError
from codl.executor.trace import Event, EventKind, Trace
from codl.ir.graph import Graph, Tensor
from codl.outputs import write_output
from codl.values import HOST_PROVIDER, name_provider

_MOST_EVENTS = 1_000_000
"""Later ones are dropped, as onnxruntime drops them."""
_NODES = (EventKind.LAUNCH, EventKind.HOST)
_CATEGORIES = {
    EventKind.LAUNCH: "Node",
    EventKind.PUBLISH: "Copy",
    EventKind.READ: "Copy",
    EventKind.WRITE: "Copy",
    EventKind.MAP: "Copy",
    EventKind.UNMAP: "Copy",
    EventKind.WAIT: "Wait",
    EventKind.MEET: "Wait",
    EventKind.HOST: "Node",
}


class Profiler:
    """Collects what a session does and writes it to a file once.

    Args:
        prefix: How the file's name begins; date, time and `.json` are added.

    Raises:
        InputError: There is no such folder.
    """

    def __init__(self, prefix: str) -> None:
        self._path = Path(f"{prefix}_{datetime.now().strftime('%Y-%m-%d_%H-%M-%S_%f')[:-3]}.json")
        if not self._path.parent.is_dir():
            raise InputError(f"profile_file_prefix: got {prefix!r}, expected a name in a folder that exists")
        self.start_ns = time.monotonic_ns()
        """The zero of all times in the file, on the clock of `time.monotonic_ns`."""
        self._events: list[dict[str, Any]] = []
        self._lock = make_lock()
        self._is_written, self._process = False, os.getpid()

    @contextmanager
    def record(self, name: str) -> Iterator[None]:
        """Add an event of the session around the block; one that fails leaves none."""
        begin_us = self._now_us()
        yield
        duration_us = self._now_us() - begin_us
        self._add("Session", name, begin_us, duration_us, thread=threading.get_native_id(), args={})

    def add_trace(self, trace: Trace, graph: Graph) -> None:
        """Add the events of a run: one for each node and device, and one for each copy and wait."""
        lead_us = trace.begin_us - self.start_ns * 1e-3
        devices = {name: number for number, name in enumerate(sorted({e.device for e in trace.events}), 1)}
        for events in _group(trace.events):
            first = events[0]
            self._add(
                _CATEGORIES[first.kind],
                _name_event(first),
                lead_us + first.start_us,
                max(e.start_us + e.duration_us for e in events) - first.start_us,
                thread=devices[first.device],
                args=_describe(first, graph),
            )

    def _now_us(self) -> float:
        return (time.monotonic_ns() - self.start_ns) * 1e-3

    def _add(
        self,
        category: str,
        name: str,
        start_us: float,
        duration_us: float,
        *,
        thread: int,
        args: dict[str, Any],
    ) -> None:
        with self._lock:
            if self._is_written or len(self._events) >= _MOST_EVENTS:
                return
            self._events.append(
                {
                    "cat": category,
                    "pid": os.getpid(),
                    "tid": thread,
                    "dur": round(duration_us),
                    "ts": round(start_us),
                    "ph": "X",
                    "name": name,
                    "args": args,
                }
            )

    def finish(self) -> str:
        """Write the file and return its path; empty when it was written before.

        Raises:
            InputError: The file cannot be written.
        """
        with self._lock:
            if self._is_written or self._process != os.getpid():  # a child leaves the file to its parent
                return ""
            self._is_written = True
            try:
                write_output(self._path, json.dumps(self._events))
            except OSError as error:
                raise InputError(
                    f"{self._path}: got {error.strerror}, expected a file that can be written"
                ) from error
            self._events.clear()
            return str(self._path)


def _group(events: Sequence[Event]) -> list[list[Event]]:
    """Return the launches of one node on one device together, everything else alone."""
    groups: dict[Any, list[Event]] = {}
    for index, event in enumerate(events):
        key = (event.name, event.device) if event.kind is EventKind.LAUNCH else index
        groups.setdefault(key, []).append(event)
    return list(groups.values())


def _name_event(event: Event) -> str:
    if event.kind in _NODES:
        return f"{event.name}_kernel_time"
    return f"{event.name}_{event.kind}" if event.name else str(event.kind)


def _describe(event: Event, graph: Graph) -> dict[str, Any]:
    is_host = event.kind is EventKind.HOST
    provider = {"provider": HOST_PROVIDER if is_host else name_provider(event.device)}
    if event.kind not in _NODES:
        return provider
    node = graph.nodes_by_name[event.name]
    return {
        **provider,
        "op_name": node.kind,
        "node_index": str(graph.positions[node.name]),
        "input_type_shape": [_describe_tensor(graph.tensors[name]) for name in node.inputs],
        "output_type_shape": [_describe_tensor(graph.tensors[node.output])],
    }


def _describe_tensor(tensor: Tensor) -> dict[str, list[int]]:
    return {tensor.type.removeprefix("tensor(").removesuffix(")"): list(tensor.shape)}

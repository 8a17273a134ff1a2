"""Running an executable: feeds in, prepared calls one after the other, outputs out."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from codl.devices.memory import Storage
from codl.devices.opencl import Device
from codl.ir.graph import FloatArray, Graph
from codl.plan.steps import Plan


class Executable:
    """A plan with every buffer, argument, work size and meeting point fixed. One run at a time."""

    def __init__(
        self,
        *,
        graph: Graph,
        plan: Plan,
        devices: Sequence[Device],
        script: tuple[Callable[[], object], ...],
        hosts: Mapping[str, Storage],
        storages: Sequence[tuple[int, Storage]],
        keep: tuple[Any, ...],
        launch_count: int,
    ) -> None:
        self.graph, self.plan, self.devices = graph, plan, tuple(devices)
        self.launch_count = launch_count
        """Kernels enqueued by one run, over all devices."""
        self._script = script
        self._inputs = {name: hosts[name].view() for name in graph.inputs}
        self._outputs = {name: hosts[name].view() for name in graph.outputs}
        self._storages = tuple(storages)
        self._hosts = tuple(hosts.values())
        self._keep = keep

    def run(self, feeds: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
        """Return the graph's outputs by name, each an array of the caller's own.

        Args:
            feeds: One float32 array for each graph input, shapes already checked.
        """
        for name, view in self._inputs.items():
            np.copyto(view, feeds[name])
        for call in self._script:
            call()
        return {name: np.array(view, order="C") for name, view in self._outputs.items()}

    def poison(self, value: float) -> None:
        """Fill all memory of activations with ``value``; a run that reads what it did not write shows it."""
        for host in self._hosts:
            if host.host is not None:
                host.host.fill(value)
        for device, storage in self._storages:
            if storage.buffer is not None:
                self.devices[device].fill(storage.buffer, value)
        for opened in self.devices:
            opened.finish()

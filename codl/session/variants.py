"""A model made ready to run for certain shapes of its inputs."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Event
from typing import Any

import numpy as np

from codl.devices.boundary import enough_memory
from codl.devices.opencl import open_devices
from codl.errors import HostError
from codl.executor.compile import compile_plan
from codl.executor.host import HostSessions
from codl.executor.run import Executable
from codl.executor.trace import Trace
from codl.executor.weights import Weights
from codl.frontend import LoadedModel
from codl.ir.graph import Graph
from codl.limits import Limits
from codl.plan.steps import Plan
from codl.session.request import PlanRequest
from codl.session.shared import Shared
from codl.session.verify import find_fastest
from codl.values import find_dtype, is_tensor_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A model compiled for certain shapes, and perhaps for other values of its initializers."""

    executable: Executable
    tensors: Mapping[str, str]
    """Name of a model's output -> the graph's tensor."""

    @property
    def graph(self) -> Graph:
        """The network for these shapes."""
        return self.executable.graph

    @property
    def plan(self) -> Plan:
        """The plan that runs."""
        return self.executable.plan

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return the model's outputs by name."""
        return self._rename(self.executable.run(feeds))

    def run_traced(self, feeds: Mapping[str, Any]) -> tuple[dict[str, Any], Trace]:
        """Return what `run` returns, and what happened when."""
        outputs, trace = self.executable.run_traced(feeds)
        return self._rename(outputs), trace

    def warm_up(self) -> None:
        """Run once on zeros, if that can be: drivers compile then what they put off to a first launch."""
        inputs = [self.graph.tensors[name] for name in self.graph.inputs]
        if all(is_tensor_type(tensor.type) for tensor in inputs):
            with suppress(HostError):  # a step of the host that cannot compute with zeros
                zeros = {one.name: np.zeros(one.shape, find_dtype(one.type)) for one in inputs}
                self.executable.run(zeros)

    def _rename(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: values[tensor] for name, tensor in self.tensors.items()}


@enough_memory("session")
def compile_variant(
    model: LoadedModel,
    *,
    request: PlanRequest,
    is_verified: bool,
    is_profiled: bool,
    host_threads: int,
    limits: Limits,
    shared: Shared | None = None,
    stop: Event | None = None,
) -> Variant:
    """Return a model planned and compiled.

    Args:
        model: The model for certain shapes.
        request: Which plan to make.
        is_verified: Measure the plan and its devices alone, and keep the fastest.
        is_profiled: Compile for queues that keep times, so that runs can be traced.
        host_threads: Threads of what ONNX Runtime computes on the CPU, 0 for its default.
        limits: Bounds on what the model may ask for.
        shared: What variants of the same model have in common; None where there is only one.
        stop: As in `build_programs`.

    Raises:
        ModelError: The model is broken, or has an operator that neither codl nor ONNX Runtime has.
        PlanError: The plan asked for is none for this model.
        DeviceError: A device refused.
    """
    weights = Weights(model.graph, None if shared is None else shared.weights)
    graph, most_bytes = weights.graph, limits.planned_bytes
    asked = request if shared is None else shared.kernels.prefer(graph, request)
    plans = asked.rank(graph)
    plan = plans[0]
    hosts = HostSessions(graph, threads=host_threads)
    databases = asked.find_databases(plan.devices)
    if is_verified and request.plan is None:
        plan = find_fastest(
            graph,
            plans,
            hosts=hosts,
            databases=databases,
            shared=None if shared is None else shared.weights,
            most_bytes=most_bytes,
        )
    devices = open_devices(plan.devices, precision=plan.precision)
    if is_profiled:
        devices = tuple(device.with_profiling() for device in devices)
    names = [argument.name for argument in model.outputs]
    return Variant(
        executable=compile_plan(
            graph,
            plan,
            devices,
            weights=weights,
            hosts=hosts,
            databases=databases,
            most_bytes=most_bytes,
            stop=stop,
        ),
        tensors=dict(zip(names, graph.outputs, strict=True)),
    )

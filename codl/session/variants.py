"""A model made ready to run: once for each set of shapes that it was lately fed."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from codl.catalog.stored import load_databases
from codl.devices.boundary import enough_memory
from codl.devices.opencl import open_devices
from codl.executor.compile import compile_plan
from codl.executor.host import HostSessions
from codl.executor.run import Executable
from codl.executor.trace import Trace
from codl.frontend import Source, load_source
from codl.frontend.binding import Shapes, Values
from codl.ir.graph import Graph
from codl.plan.steps import Plan
from codl.session.feeds import Feeds
from codl.session.planning import PlanRequest
from codl.session.verify import find_fastest

MOST_VARIANTS = 4
"""Kept at a time; each holds its own packed weights and activations."""
_DIGEST_BYTES = 16


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

    def _rename(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: values[tensor] for name, tensor in self.tensors.items()}


@enough_memory("session")
def compile_variant(
    source: Source,
    shapes: Shapes,
    initializers: Values,
    *,
    request: PlanRequest,
    is_verified: bool,
    is_profiled: bool,
    host_threads: int,
) -> Variant:
    """Return a model loaded, planned and compiled.

    Args:
        source: The model as declared.
        shapes: Shape of every input.
        initializers: What takes the place of initializers.
        request: Which plan to make.
        is_verified: Measure the plan and its devices alone, and keep the fastest.
        is_profiled: Compile for queues that keep times, so that runs can be traced.
        host_threads: Threads of what ONNX Runtime computes on the CPU, 0 for its default.

    Raises:
        ModelError: The model is broken, or has an operator that nobody here knows.
        PlanError: The plan asked for is none for this model.
        DeviceError: A device refused.
    """
    model = load_source(source, shapes=shapes, initializers=initializers)
    plans = request.rank(model.graph)
    plan = plans[0]
    most_bytes = source.limits.planned_bytes
    hosts = HostSessions(model.graph, threads=host_threads)
    if is_verified and request.plan is None:
        plan = find_fastest(model.graph, plans, hosts=hosts, most_bytes=most_bytes)
    devices = open_devices(plan.devices)
    if is_profiled:
        devices = tuple(device.with_profiling() for device in devices)
    names = [argument.name for argument in model.outputs]
    return Variant(
        executable=compile_plan(
            model.graph,
            plan,
            devices,
            hosts=hosts,
            databases=load_databases(device.info for device in devices),
            most_bytes=most_bytes,
        ),
        tensors=dict(zip(names, model.graph.outputs, strict=True)),
    )


class Variants:
    """The variants of one model that were used last.

    Args:
        build: Returns a new variant for shapes of the inputs and values of initializers.
        most: Variants kept; the one that was not used for longest goes first.
    """

    def __init__(self, build: Callable[[Shapes, Values], Variant], *, most: int = MOST_VARIANTS) -> None:
        self._build: Callable[[Shapes, Values], Variant] | None = build
        self._most = most
        self._kept: OrderedDict[Any, Variant] = OrderedDict()

    def __len__(self) -> int:
        """Return how many variants are kept."""
        return len(self._kept)

    def seal(self) -> None:
        """Forget how to make more: a model with nothing left open is not needed as it was read."""
        self._build = None

    def find(self, feeds: Feeds) -> Variant:
        """Return the variant for these feeds, made now if none of the kept ones will do."""
        shapes = {
            name: np.shape(value) if isinstance(value, np.ndarray) else ()
            for name, value in feeds.inputs.items()
        }
        return self.get(shapes, feeds.initializers)

    def get(self, shapes: Shapes, initializers: Values) -> Variant:
        """Return the variant for shapes of the inputs and values of initializers."""
        key = (*shapes.values(), *((name, _digest(value)) for name, value in initializers.items()))
        variant = self._kept.get(key)
        if variant is not None:
            self._kept.move_to_end(key)
            return variant
        assert self._build is not None, "sealed, and asked for other shapes than it has"
        while len(self._kept) >= self._most:
            self._kept.popitem(last=False)
        variant = self._kept[key] = self._build(shapes, initializers)
        return variant


def _digest(value: np.ndarray[Any, Any]) -> tuple[tuple[int, ...], bytes]:
    """Return what tells an array from every other: users may write into the same one between runs."""
    digest = hashlib.blake2b(np.asarray(value, order="C").tobytes(), digest_size=_DIGEST_BYTES)
    return value.shape, digest.digest()

"""How exactness is judged: all tensors published, memory poisoned, operators alone on the judge's inputs."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import onnx

from codl.catalog.choose import NO_DATABASES, Databases
from codl.devices.opencl import Device
from codl.executor.compile import compile_plan
from codl.executor.host import HostSessions
from codl.executor.weights import Weights
from codl.frontend import load_graph
from codl.ir.graph import Graph, Node
from codl.ir.ops import HostCall
from codl.ir.regions import find_splittable_axes
from codl.plan.sharing import Sharing
from codl.plan.single import plan_host
from codl.plan.steps import Chain, Cut, Plan, Run, Step
from tests.oracle import (
    NETWORK_TOLERANCE,
    OPERATOR_TOLERANCE,
    FloatArray,
    random_feeds,
    relative_error,
    run_reference,
)

POISONS = (float("nan"), 3e38)
_CHOSEN = os.environ.get("CODL_TEST_DEVICES", "")
DEVICES = tuple(_CHOSEN.split(",")) if "," in _CHOSEN else ("intel-cpu", "pocl-cpu")
"""What networks are split over: two or more devices that CODL_TEST_DEVICES names, or the emulated pair."""

ARRANGEMENTS: dict[str, tuple[Sharing, tuple[int, ...]]] = {
    "coherent": (Sharing.COHERENT, ()),
    "mapped": (Sharing.MAPPED, ()),
    "copied": (Sharing.COPIED, ()),
    "first discrete": (Sharing.COHERENT, (0,)),
    "last discrete": (Sharing.COHERENT, (-1,)),
}
"""How unified devices share, and which of the devices are taken to have memory of their own."""


@dataclass(frozen=True)
class Case:
    """A network with inputs and what ONNX Runtime computes from them."""

    model: onnx.ModelProto

    @cached_property
    def plain_graph(self) -> Graph:
        """The network as it is: intermediates share memory."""
        return load_graph(self.model.SerializeToString())

    @cached_property
    def graph(self) -> Graph:
        """The network with every intermediate as an output."""
        return replace(self.plain_graph, outputs=tuple(node.output for node in self.plain_graph.nodes))

    @cached_property
    def feeds(self) -> dict[str, Any]:
        return random_feeds(self.model)

    @cached_property
    def reference(self) -> dict[str, Any]:
        """ONNX Runtime's values; tensors that only codl has (partial moments) are missing."""
        return run_reference(self.model, self.feeds, self.graph.outputs)

    @cached_property
    def weights(self) -> Weights:
        return Weights(self.graph)

    @cached_property
    def hosts(self) -> HostSessions:
        return HostSessions(self.graph, threads=1)

    def find_errors(
        self,
        plan: Plan,
        devices: Sequence[Device],
        *,
        graph: Graph | None = None,
        sharing: Sharing | None = None,
        databases: Databases = NO_DATABASES,
    ) -> Iterator[str]:
        """Yield a sentence for each tensor that is wrong, or that differs between two kinds of poison.

        Args:
            plan: A plan of `graph`.
            devices: Its devices.
            graph: The network with the outputs to look at; by default all intermediates.
            sharing: How unified devices share memory; by default as they usually do.
            databases: What is known of the best kernels, by device name.
        """
        executable = compile_plan(
            graph or self.graph,
            plan,
            devices,
            weights=self.weights,
            hosts=self.hosts,
            sharing=sharing,
            databases=databases,
        )
        results = []
        for poison in POISONS:
            executable.poison(poison)
            results.append(executable.run(self.feeds))
        for name, value in results[0].items():
            if to_bytes(value) != to_bytes(results[1][name]):
                yield f"{name}: the two poisons differ, so something was read before it was written"
            if isinstance(value, np.ndarray) and name in self.reference:
                error = relative_error(value, self.reference[name])
                if not error <= NETWORK_TOLERANCE:
                    yield f"{name}: got relative error {error:.2e}, expected at most {NETWORK_TOLERANCE}"


def to_bytes(value: Any) -> Any:
    """Return what is equal for equal bits: of an array, or of a list of arrays."""
    return value.tobytes() if isinstance(value, np.ndarray) else [to_bytes(item) for item in value]


def declare_discrete(devices: Sequence[Device], *indices: int) -> tuple[Device, ...]:
    """Return the same devices, those at ``indices`` taken to have memory of their own; -1 is the last one."""
    chosen = {index % len(devices) for index in indices}
    return tuple(
        device.with_facts(is_unified=False) if index in chosen else device
        for index, device in enumerate(devices)
    )


def cut_every_node(graph: Graph, devices: tuple[str, ...], axis: int, position: int | None) -> Plan:
    """Return the plan that cuts each node alone along ``axis``, at ``position`` or in the middle.

    A negative position counts from the end; nodes without the axis run whole.
    """
    steps: list[Step] = []
    for node in graph.nodes:
        if isinstance(node.op, HostCall):
            steps.extend(plan_host(node, graph))
            continue
        length = dict(enumerate(graph.shape(node.output))).get(axis, 0)
        if axis not in find_splittable_axes(node, graph):
            steps.append(Run(node=node.name, device=devices[len(steps) % len(devices)]))
            continue
        bound = length // 2 if position is None else position if position >= 0 else length + position
        bound = max(0, min(length, bound))
        rest = (length,) * (len(devices) - 2)
        cut = Cut(tensor=node.output, axis=axis, bounds=(0, bound, *rest, length))
        steps.append(Chain(nodes=(node.name,), axis=axis, cuts=(cut,)))
    return Plan(devices=devices, steps=tuple(steps), planner="test", fingerprint=graph.fingerprint)


def operator_alone(node: Node, graph: Graph) -> Graph:
    """Return a graph of one node: its activations become graph inputs."""
    names = (*node.inputs, node.output)
    return Graph(
        name=node.name,
        nodes=(node,),
        inputs=graph.activations(node),
        outputs=(node.output,),
        tensors={name: graph.tensors[name] for name in names},
        constants={name: graph.constants[name] for name in names if name in graph.constants},
    )


def find_operator_errors(
    case: Case, node: Node, devices: Sequence[Device], positions: Sequence[int]
) -> Iterator[str]:
    """Yield a sentence for each cut of one operator that is inexact or not bit-equal to the whole.

    The operator is fed ONNX Runtime's own intermediates. Each device's slice must
    equal, bit for bit, the same rows of what that device computes whole.
    """
    graph = operator_alone(node, case.graph)
    if any(name not in case.reference and name not in case.feeds for name in (*graph.inputs, node.output)):
        return
    feeds = {name: case.feeds.get(name, case.reference.get(name)) for name in graph.inputs}
    given = {name: value for name, value in feeds.items() if value is not None}
    names = tuple(device.info.name for device in devices)
    weights = Weights(graph)
    wholes: list[FloatArray] = []
    for name, device in zip(names, devices, strict=True):
        plan = Plan(devices=(name,), steps=(Run(node=node.name, device=name),))
        value = compile_plan(graph, plan, (device,), weights=weights).run(given)[node.output]
        error = relative_error(value, case.reference[node.output])
        if not error <= OPERATOR_TOLERANCE:
            yield f"{node.name} ({node.kind}) on {name}: got relative error {error:.2e}"
        wholes.append(value)
    for axis in find_splittable_axes(node, graph):
        length = graph.shape(node.output)[axis]
        for position in sorted({max(0, min(length, p)) for p in (length // 2, *positions, length)}):
            rest = (length,) * (len(devices) - 2)
            cut = Cut(tensor=node.output, axis=axis, bounds=(0, position, *rest, length))
            plan = Plan(devices=names, steps=(Chain(nodes=(node.name,), axis=axis, cuts=(cut,)),))
            executable = compile_plan(graph, plan, devices, weights=weights)
            executable.poison(POISONS[0])
            value = executable.run(given)[node.output]
            parts = np.split(value, list(cut.bounds[1:-1]), axis=axis)
            for name, part, whole, low, high in zip(
                names, parts, wholes, cut.bounds, cut.bounds[1:], strict=False
            ):
                expected = np.take(whole, np.arange(low, high), axis=axis)
                if part.tobytes() != expected.tobytes():
                    yield f"{node.name} ({node.kind}) cut {axis}:{cut.bounds}: {name} differs from the whole"


def unique_nodes(graph: Graph) -> tuple[Node, ...]:
    """Return one node for each distinct operator, shapes and epilogue; host calls are no operators."""
    found: dict[object, Node] = {}
    for node in graph.nodes:
        if isinstance(node.op, HostCall):
            continue
        key = (node.op, node.epilogue, *(graph.shape(name) for name in (*node.inputs, node.output)))
        found.setdefault(key, node)
    return tuple(found.values())

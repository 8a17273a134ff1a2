"""The shapes that matter: each kind of node of some networks once, the heaviest first."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import numpy as np

from codl.assets import profiles_dir
from codl.catalog.layers import load_layers
from codl.catalog.shape_key import ShapeKey, make_shape_key
from codl.ir.graph import FLOAT_BYTES, FloatArray, Graph, Node
from codl.ir.ops import HostCall

_BYTE_FLOPS = 8.0
"""Floating-point operations that take as long as moving a byte; good enough to tell heavy from light."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A node to tune, alone in its graph; constants may be left out until it is its turn."""

    key: ShapeKey
    graph: Graph
    count: int = 1
    """How often the networks have it."""

    @property
    def node(self) -> Node:
        """The one node."""
        return self.graph.nodes[0]

    @property
    def weight(self) -> float:
        """Estimate of the work that all nodes of this shape mean together, in floating-point operations."""
        return self.count * estimate_flops(self.node, self.graph)

    def with_constants(self) -> Graph:
        """Return the graph, with random values for constants that it lacks."""
        rng = np.random.default_rng(0)
        values = {
            name: rng.uniform(-1.0, 1.0, value.shape).astype(np.float32) if _is_left_out(value) else value
            for name, value in self.graph.constants.items()
        }
        return replace(self.graph, constants=values)


def find_shapes(graphs: Iterable[Graph]) -> tuple[Shape, ...]:
    """Return each shape of some networks once, the heaviest first; operators of the host are left out."""
    return _gather(
        Shape(key=make_shape_key(node, graph), graph=isolate(node, graph))
        for graph in graphs
        for node in graph.nodes
        if not isinstance(node.op, HostCall)
    )


def _gather(shapes: Iterable[Shape]) -> tuple[Shape, ...]:
    """Return each shape once, counted as often as it comes, the heaviest first."""
    found: dict[ShapeKey, Shape] = {}
    for shape in shapes:
        known = found.get(shape.key)
        found[shape.key] = shape if known is None else replace(known, count=known.count + shape.count)
    return tuple(sorted(found.values(), key=lambda shape: (-shape.weight, str(shape.key))))


def isolate(node: Node, graph: Graph) -> Graph:
    """Return the graph of one node of a network."""
    names = dict.fromkeys((*node.inputs, node.output))
    return Graph(
        name=node.name,
        nodes=(node,),
        inputs=graph.activations(node),
        outputs=(node.output,),
        tensors={name: graph.tensors[name] for name in names},
        constants={name: graph.constants[name] for name in names if name in graph.constants},
    )


def estimate_flops(node: Node, graph: Graph) -> float:
    """Return an estimate of a node's work in floating-point operations, the same for every kernel."""
    sizes = {name: prod(graph.shape(name)) for name in (*node.inputs, node.output)}
    moved = FLOAT_BYTES * sum(sizes.values())
    products = 0.0
    if len(node.inputs) > 1 and node.inputs[1] in graph.constants:
        weight = graph.shape(node.inputs[1])
        if len(weight) > 1:
            products = 2.0 * sizes[node.output] * prod(weight) / max(weight[0], weight[-1])
    return products + _BYTE_FLOPS * moved


def workload_path() -> Path:
    """Return the file of the layers whose shapes are tuned when no model is named."""
    return profiles_dir() / "workloads" / "layers.json"


def read_workload(path: Path) -> tuple[Shape, ...]:
    """Return the shapes of a file of layers, the heaviest first.

    Raises:
        ProfileError: It cannot be read, or holds no layers.
    """
    layers = [(layer, layer.make_graph()) for layer in load_layers(path)]
    return _gather(
        Shape(
            key=make_shape_key(graph.nodes[0], graph),
            graph=graph,
            count=max(1, sum(layer.uses.values())),
        )
        for layer, graph in layers
    )


def _is_left_out(value: FloatArray) -> bool:
    """Return whether a constant is an array without memory, whose values are not needed."""
    return value.ndim > 0 and not any(value.strides)

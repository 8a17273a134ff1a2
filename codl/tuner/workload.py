"""The shapes that matter: each kind of node of some networks once, the heaviest first."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import numpy as np

from codl.assets import profiles_dir
from codl.catalog.shape_key import ShapeKey, make_shape_key
from codl.errors import ModelError, ProfileError
from codl.frontend.graph_text import format_graph, parse_graph
from codl.ir.check import check_graph
from codl.ir.graph import FLOAT_BYTES, FloatArray, Graph, Node
from codl.ir.ops import HostCall

SCHEMA = 1
_BYTE_FLOPS = 8.0
"""Floating-point operations that take as long as moving a byte; good enough to tell heavy from light."""
_MOST_BYTES = 64 << 20
_MOST_ELEMENTS = 1 << 30


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
    """Return each shape of some networks once, the heaviest first; what the host computes has no kernels."""
    found: dict[ShapeKey, Shape] = {}
    for graph in graphs:
        for node in graph.nodes:
            if isinstance(node.op, HostCall):
                continue
            key = make_shape_key(node, graph)
            known = found.get(key)
            found[key] = (
                Shape(key=key, graph=isolate(node, graph))
                if known is None
                else replace(known, count=known.count + 1)
            )
    return sort_shapes(found.values())


def sort_shapes(shapes: Iterable[Shape]) -> tuple[Shape, ...]:
    """Return shapes with the heaviest first."""
    return tuple(sorted(shapes, key=lambda shape: (-shape.weight, str(shape.key))))


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
    """Return about how much work a node is, whatever computes it, in floating-point operations."""
    sizes = {name: prod(graph.shape(name)) for name in (*node.inputs, node.output)}
    moved = FLOAT_BYTES * sum(sizes.values())
    products = 0.0
    if len(node.inputs) > 1 and node.inputs[1] in graph.constants:
        weight = graph.shape(node.inputs[1])
        products = 2.0 * sizes[node.output] * prod(weight) / max(weight[0], weight[-1], 1)
    return products + _BYTE_FLOPS * moved


def workload_path() -> Path:
    """Return where the shapes lie that are tuned when no model is named."""
    return profiles_dir() / "workloads" / "kernels.json"


def format_workload(shapes: Sequence[Shape]) -> str:
    """Return shapes as the text of a workload, without the values of their constants."""
    named = [(shape.count, _rename(shape.graph)) for shape in shapes]
    lines = ",\n  ".join(
        json.dumps(
            {
                "count": count,
                "constants": sorted(graph.constants),
                "graph": json.loads(format_graph(graph)),
            },
            separators=(",", ":"),
        )
        for count, graph in named
    )
    return f'{{\n "schema": {SCHEMA},\n "shapes": [\n  {lines}\n ]\n}}\n'


def read_workload(path: Path) -> tuple[Shape, ...]:
    """Return the shapes in a workload file.

    Raises:
        ProfileError: It cannot be read, or is none.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError(f"more than {_MOST_BYTES} bytes")
        values = json.loads(path.read_text(encoding="utf-8"))
        if values["schema"] != SCHEMA:
            raise ValueError(f"schema {values['schema']!r}, not {SCHEMA}")
        return sort_shapes(_read_shape(item) for item in values["shapes"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError, ModelError) as error:
        raise ProfileError(
            f"{path}: got {type(error).__name__} {error}, expected a workload; reinstall codl, or name models"
        ) from error


def _rename(graph: Graph) -> Graph:
    """Return a graph of one node with short names."""
    (node,) = graph.nodes
    short = {name: f"in{place}" for place, name in enumerate(dict.fromkeys(node.inputs))}
    short[node.output] = "out"
    return Graph(
        name="shape",
        nodes=(replace(node, name="node", inputs=tuple(short[name] for name in node.inputs), output="out"),),
        inputs=tuple(short[name] for name in graph.inputs),
        outputs=("out",),
        tensors={short[name]: replace(one, name=short[name]) for name, one in graph.tensors.items()},
        constants={short[name]: value for name, value in graph.constants.items()},
    )


def _leave_out(shape: tuple[int, ...]) -> FloatArray:
    """Return an array of this shape that takes no memory: a constant whose values nobody has asked for."""
    return np.broadcast_to(np.zeros((), np.float32), shape)


def _is_left_out(value: FloatArray) -> bool:
    return value.ndim > 0 and not any(value.strides)


def _read_shape(item: Mapping[str, object]) -> Shape:
    names, count = item["constants"], item["count"]
    if not isinstance(names, list) or type(count) is not int:
        raise ValueError("constants are no list, or count is no number")
    bare = parse_graph(json.dumps(item["graph"]), {})
    if len(bare.nodes) != 1:
        raise ValueError(f"{len(bare.nodes)} nodes, not 1")
    if any(prod(tensor.shape) > _MOST_ELEMENTS for tensor in bare.tensors.values()):
        raise ValueError(f"a tensor of more than {_MOST_ELEMENTS} elements")
    graph = replace(bare, constants={name: _leave_out(bare.shape(name)) for name in names})
    check_graph(graph)
    return Shape(key=make_shape_key(graph.nodes[0], graph), graph=graph, count=count)

"""Layers of real networks as data: an operator with its shapes, no weights, and the networks that use it.

A layer may also be several operators that one launch computes, each read by the next one alone.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from codl.errors import ProfileError
from codl.files import read_text
from codl.ir import ops
from codl.ir.graph import NO_EPILOGUE, FloatArray, Graph, Node, Shape, Tensor
from codl.ir.ops import Epilogue, HostCall, Op

SCHEMA = 1
OUTPUT = "y"
_CLASSES: Mapping[str, type] = {
    name: found
    for name, found in vars(ops).items()
    if isinstance(found, type) and (is_dataclass(found) or issubclass(found, StrEnum))
}
_POOL = 1 << 20
"""Random weights that are drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One operator: what it is, of which shapes, which of its inputs are constants."""

    op: Op
    epilogue: Epilogue = NO_EPILOGUE
    inputs: tuple[Shape, ...]
    """Shapes, in the operator's order."""
    constants: tuple[int, ...] = ()
    """Which of the inputs are constants."""
    output: Shape
    before: tuple["Layer", ...] = ()
    """Operators that the same launch computes: the output of each is the next one's first input."""
    uses: Mapping[str, int] = field(default_factory=dict, hash=False, compare=False)
    """Network -> how often the layer stands in it."""

    @property
    def key(self) -> str:
        """Text by which the layer is known: equal for equal layers, whichever networks use them.

        JSON in the order of names, without spaces.
        """
        parts = []
        if self.before:
            parts.append(f'"before":[{",".join([one.key for one in self.before])}]')
        if self.constants:
            parts.append(f'"constants":{_write(self.constants)}')
        if self.epilogue != NO_EPILOGUE:
            parts.append(f'"epilogue":{_write_known(self.epilogue)}')
        inputs = ",".join(map(_write, self.inputs))
        parts.append(f'"inputs":[{inputs}],"op":{_write_known(self.op)},"output":{_write(self.output)}')
        return f"{{{','.join(parts)}}}"

    def make_graph(self) -> Graph:
        """Return a graph of this operator, with those before it; constants are zeros that take no memory."""
        nodes: list[Node] = []
        inputs: list[str] = []
        shapes: dict[str, Shape] = {}
        constants: dict[str, FloatArray] = {}
        for number, layer in enumerate((*self.before, self)):
            end = "" if layer is self else f"_{number}"
            names = [f"x{place}{end}" for place in range(len(layer.inputs))]
            if nodes:
                names[0] = nodes[-1].output
            for place, (name, shape) in enumerate(zip(names, layer.inputs, strict=True)):
                shapes[name] = shape
                if place in layer.constants:
                    constants[name] = np.broadcast_to(np.float32(0), shape)
                elif place or not nodes:
                    inputs.append(name)
            node = Node(
                name=f"layer{end}",
                op=layer.op,
                inputs=tuple(names),
                output=f"{OUTPUT}{end}",
                epilogue=layer.epilogue,
            )
            shapes[node.output] = layer.output
            nodes.append(node)
        return Graph(
            name="layer",
            nodes=tuple(nodes),
            inputs=tuple(inputs),
            outputs=(OUTPUT,),
            tensors={name: Tensor(name=name, shape=shape) for name, shape in shapes.items()},
            constants=constants,
        )


def list_layers(networks: Iterable[tuple[str, Graph]]) -> tuple[Layer, ...]:
    """Return the distinct layers of some networks, each with how often it stands in each of them."""
    return count_uses(
        (name, read_node(node, graph))
        for name, graph in networks
        for node in graph.nodes
        if not isinstance(node.op, HostCall)  # no kernel of ours
    )


def count_uses(layers: Iterable[tuple[str, Layer]]) -> tuple[Layer, ...]:
    """Return the distinct ones of some layers, each given with the name of a network that it stands in."""
    found: dict[str, Layer] = {}
    for name, layer in layers:
        known = found.setdefault(layer.key, layer)
        found[layer.key] = replace(known, uses={**known.uses, name: known.uses.get(name, 0) + 1})
    return tuple(found.values())


def list_before(node: Node, graph: Graph, count: int) -> tuple[Node, ...] | None:
    """Return the ``count`` nodes before one, each the first input of the next; None if there are fewer."""
    found: list[Node] = []
    while len(found) < count:
        last = found[0] if found else node
        producer = graph.producers.get(last.inputs[0]) if last.inputs else None
        if producer is None:
            return None
        found.insert(0, producer)
    return tuple(found)


def read_node(node: Node, graph: Graph, before: Sequence[Node] = ()) -> Layer:
    """Return a node of a network as a layer.

    Args:
        node: The node.
        graph: Where its shapes are found.
        before: Nodes that the same launch computes, as `list_before` returns them.
    """
    return Layer(
        before=tuple(read_node(one, graph) for one in before),
        op=node.op,
        epilogue=node.epilogue,
        inputs=tuple(graph.shape(name) for name in node.inputs),
        constants=tuple(place for place, name in enumerate(node.inputs) if name in graph.constants),
        output=graph.shape(node.output),
    )


def fill_constants(graph: Graph) -> dict[str, FloatArray]:
    """Return random weights for a layer's constants."""
    return {
        name: draw_values(outline.size).reshape(outline.shape) for name, outline in graph.constants.items()
    }


def draw_values(count: int) -> FloatArray:
    """Return random values from a pool that repeats: drawing new ones takes longer than using them."""
    return np.resize(_draw_pool(), count)


@cache
def _draw_pool() -> FloatArray:
    return np.random.default_rng(0).uniform(-0.1, 0.1, _POOL).astype(np.float32)


def format_layers(layers: Iterable[Layer]) -> str:
    """Return layers as the text of a workload file, one a line."""
    lines = [json.dumps({**json.loads(layer.key), "uses": dict(layer.uses)}) for layer in layers]
    body = ",\n  ".join(lines)
    return f'{{"schema": {SCHEMA}, "layers": [\n  {body}\n]}}\n'


def load_layers(path: Path) -> tuple[Layer, ...]:
    """Return the layers of a workload file.

    Raises:
        ProfileError: The file cannot be read or holds no layers.
    """
    try:
        told = json.loads(read_text(path))
        if told["schema"] != SCHEMA:
            raise ValueError(f"schema {told['schema']!r}, expected {SCHEMA}")
        return tuple(parse_layer(item) for item in told["layers"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ProfileError(
            f"{path}: got {type(error).__name__} {error}, expected the layers of a workload; "
            "make it again with tools/make_workload.py"
        ) from error


def parse_layer(told: Mapping[str, Any]) -> Layer:
    """Return the layer that `format_layers` wrote.

    Raises:
        ValueError, KeyError, TypeError: It wrote no such thing.
    """
    return Layer(
        op=_decode(told["op"]),
        epilogue=_decode(told["epilogue"]) if "epilogue" in told else Epilogue(),
        inputs=tuple(tuple(map(int, shape)) for shape in told["inputs"]),
        constants=tuple(map(int, told.get("constants", ()))),
        output=tuple(map(int, told["output"])),
        before=tuple(map(parse_layer, told.get("before", ()))),
        uses=dict(told.get("uses", {})),
    )


def _write(numbers: Sequence[int]) -> str:
    return str(list(numbers)).replace(" ", "")


@lru_cache(maxsize=1024)
def _write_known(value: Op | Epilogue) -> str:
    """Return an operator or epilogue as `Layer.key` tells it; few of a network are different."""
    return json.dumps(_encode(value), separators=(",", ":"), sort_keys=True)


def _encode(value: Any) -> Any:
    """Return JSON: an object of one key for values of a class, with the fields that are not the default."""
    if isinstance(value, StrEnum):
        return {type(value).__name__: value.value}
    if is_dataclass(value) and not isinstance(value, type):
        told = {one.name: getattr(value, one.name) for one in fields(value)}
        changed = {one.name for one in fields(value) if told[one.name] != _default(one)}
        return {type(value).__name__: {name: _encode(told[name]) for name in told if name in changed}}
    return list(map(_encode, value)) if isinstance(value, tuple) else value


def _default(one: Any) -> Any:
    return one.default_factory() if one.default_factory is not MISSING else one.default


def _decode(told: Any) -> Any:
    if isinstance(told, list):
        return tuple(_decode(item) for item in told)
    if not isinstance(told, dict):
        return told
    ((name, content),) = told.items()
    found = _CLASSES[name]
    if issubclass(found, StrEnum):
        return found(content)
    return found(**{key: _decode(item) for key, item in content.items()})

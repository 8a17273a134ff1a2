"""Which nodes are alike: the operator's class, which must be equal, and its sizes, which may be near."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cached_property
from math import inf, log2, prod
from typing import Any

from codl.ir.graph import Graph, Node
from codl.ir.ops import ChannelShuffle, Conv2d, ConvTranspose2d, MatMul, Unary

_IMMATERIAL = frozenset({"pads", "has_bias", "groups"})
"""Attributes that do not change which kernel is best; groups are a convolution's size, factors are data."""


@dataclass(frozen=True, kw_only=True)
class ShapeKey:
    """What the choice of a kernel may depend on, names of tensors and values left out."""

    kind: str
    """Operator, such as `Conv2d`."""
    traits: tuple[tuple[str, str], ...]
    """Attributes by name, sorted: nodes with other ones are never alike."""
    sizes: tuple[tuple[str, int], ...]
    """Sizes by name, in the operator's order."""

    @cached_property
    def family(self) -> tuple[str, tuple[tuple[str, str], ...], tuple[str, ...]]:
        """What must be equal for a distance to exist."""
        return self.kind, self.traits, tuple(name for name, _ in self.sizes)

    def distance(self, other: "ShapeKey") -> float:
        """Return the sum over all sizes of the doublings between the two; infinite for another class."""
        if self.family != other.family:
            return inf
        pairs = zip(self.sizes, other.sizes, strict=True)
        return sum(abs(log2(max(1, mine)) - log2(max(1, theirs))) for (_, mine), (_, theirs) in pairs)

    def __str__(self) -> str:
        """Return kind, traits and sizes in one line."""
        named = (f"{name}={value}" for name, value in (*self.traits, *self.sizes))
        return " ".join((self.kind, *named))


def find_class(node: Node, graph: Graph) -> Hashable:
    """Return what the operators of a class have in common: equal slices of them take equally long."""
    operands = tuple((graph.shape(name), name in graph.constants) for name in node.inputs)
    return node.op, node.epilogue, operands, graph.shape(node.output)


def make_shape_key(node: Node, graph: Graph) -> ShapeKey:
    """Return the key of a node."""
    op = node.op
    traits = {
        field.name: _format(value)
        for field in fields(op)
        if field.name not in _IMMATERIAL and not isinstance(value := getattr(op, field.name), float)
    }
    match op:
        case Conv2d() | ConvTranspose2d():
            traits["grouping"] = _find_grouping(op, node, graph)
            sizes = _window_sizes(op, node, graph)
        case ChannelShuffle():
            traits["groups"] = str(op.groups)
            sizes = _plain_sizes(node, graph)
        case MatMul():
            traits["right"] = "constant" if node.inputs[1] in graph.constants else "computed"
            traits["rank"] = str(len(graph.shape(node.output)))
            *batch, rows, columns = graph.shape(node.output)
            depth = graph.shape(node.inputs[0])[-1]
            sizes = {"B": prod(batch), "M": rows, "K": depth, "N": columns}
        case Unary():
            traits["activation"] = node.epilogue.activation.kind.value
            sizes = _plain_sizes(node, graph)
        case _:
            sizes = _plain_sizes(node, graph)
    return ShapeKey(kind=node.kind, traits=tuple(sorted(traits.items())), sizes=tuple(sizes.items()))


def _find_grouping(op: Conv2d | ConvTranspose2d, node: Node, graph: Graph) -> str:
    if op.groups == 1:
        return "dense"
    return "depthwise" if op.groups == graph.shape(node.inputs[0])[1] else "grouped"


def _window_sizes(op: Conv2d | ConvTranspose2d, node: Node, graph: Graph) -> Mapping[str, int]:
    images, inputs, _, _ = graph.shape(node.inputs[0])
    _, outputs, height, width = graph.shape(node.output)
    return {"N": images, "IC": inputs, "OC": outputs, "OH": height, "OW": width, "G": op.groups}


def _plain_sizes(node: Node, graph: Graph) -> Mapping[str, int]:
    own = node.inputs[:-1] if node.residual else node.inputs
    return {
        f"{label}{axis}": length
        for label, name in (*((f"in{place}.", name) for place, name in enumerate(own)), ("out.", node.output))
        for axis, length in enumerate(graph.shape(name))
    }


def _format(value: Any) -> str:
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple):
        return "x".join(map(_format, value))
    return str(value)

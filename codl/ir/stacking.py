"""Operators of one sort side by side, as one: what describes many boxes of one describes boxes of them all.

Sizes that differ between the operators are arrays with one entry a box; functions that only do arithmetic
with sizes need not know.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from codl.ir.boxes import Boxes
from codl.ir.graph import Graph, Node, Shape, Tensor
from codl.ir.ops import Affine, Concat, Conv2d, Pool2d, Unary

_STACKED = (Affine, Concat, Conv2d, Pool2d, Unary)
"""Operators whose region rules do nothing but arithmetic with sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Several operators as one."""

    node: Node
    """The first of them; of epilogues it tells only whether they add a tensor."""
    graph: Graph
    """Knows its tensors alone: with the sizes of all, an entry a box where they differ."""


def find_stacked_sort(node: Node, graph: Graph) -> Hashable | None:
    """Return what operators must have in common to be stacked; None for those that cannot be.

    What is done to results may differ, but for whether a tensor is added: that is one more input.
    """
    if not isinstance(node.op, _STACKED):
        return None
    names, constants = node.inputs, graph.constants
    operands = tuple([(names.index(name), name in constants, len(graph.shape(name))) for name in names])
    return node.op, node.residual is not None, operands


def stack_nodes(nodes: Sequence[Node], graph: Graph, counts: Sequence[int]) -> Stack:
    """Return operators of one sort as one.

    Args:
        nodes: At least one.
        graph: The network.
        counts: Boxes of each.
    """
    first = nodes[0]
    if len(nodes) == 1:
        return Stack(node=first, graph=graph)
    tensors = {}
    for place, name in enumerate((*first.inputs, first.output)):
        shapes = [graph.shape((*node.inputs, node.output)[place]) for node in nodes]
        sizes = tuple([_repeat(lengths, counts) for lengths in zip(*shapes, strict=True)])
        tensors[name] = Tensor(name=name, shape=cast(Shape, sizes))
    constants = {name: graph.constants[name] for name in first.inputs if name in graph.constants}
    inputs = graph.activations(first)
    seen = replace(
        graph, nodes=(first,), inputs=inputs, outputs=(first.output,), tensors=tensors, constants=constants
    )
    return Stack(node=first, graph=seen)


def join_boxes(parts: Sequence[Boxes]) -> Boxes:
    """Return boxes of several tensors of one rank, one tensor's after the other's."""
    if len(parts) == 1:
        return parts[0]
    return Boxes(
        np.concatenate([boxes.begin for boxes in parts]), np.concatenate([boxes.end for boxes in parts])
    )


def repeat_all(known: Sequence[Mapping[str, int]], counts: Sequence[int]) -> Mapping[str, int]:
    """Return named values of several operators with an entry a box of what differs between them.

    Args:
        known: By operator, values of the same names.
        counts: Boxes of each.
    """
    if all(one == known[0] for one in known):
        return known[0]
    return {name: _repeat([one[name] for one in known], counts) for name in known[0]}


def _repeat(values: Sequence[int], counts: Sequence[int]) -> Any:
    first = values[0]
    return first if all(value == first for value in values) else np.repeat(values, counts)

"""Several operators of one sort stacked as one: code for many boxes of one then serves boxes of all.

Sizes that differ between the operators are arrays with one entry for each box; functions that only do
arithmetic with sizes work on them unchanged.
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
    """The first of them; epilogues of the others may differ, except in whether they add a tensor."""
    graph: Graph
    """Holds the node's tensors only; sizes that differ between the operators have one entry for each box."""


def find_stacked_sort(node: Node, graph: Graph) -> Hashable | None:
    """Return what operators must have in common to be stacked; None for those that cannot be.

    Epilogues may differ, except in whether they add a tensor, which is one more input.
    """
    if not isinstance(node.op, _STACKED):
        return None
    names, constants = node.inputs, graph.constants
    operands = tuple([(names.index(name), name in constants, len(graph.shape(name))) for name in names])
    return node.op, node.residual is not None, operands


def stack_nodes(nodes: Sequence[Node], graph: Graph, counts: Sequence[int]) -> Stack:
    """Return operators of one sort as one; ``counts`` are the boxes of each."""
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
    """Return named values of operators; where they differ, an entry for each of their ``counts`` of boxes."""
    if all(one == known[0] for one in known):
        return known[0]
    return {name: _repeat([one[name] for one in known], counts) for name in known[0]}


def _repeat(values: Sequence[int], counts: Sequence[int]) -> Any:
    first = values[0]
    return first if all(value == first for value in values) else np.repeat(values, counts)

"""Which input boxes an output box needs: the one question that slices, chains and transfers ask.

The rules of the operators (`codl.ir.ops`) work on arrays of boxes only: a
single region is an array of one. Zero padding is clipped away there; real
neighbour rows that a slice needs are its halo, and are part of the answer.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from codl.ir.boxes import Boxes, IntArray, Region
from codl.ir.graph import Graph, Node
from codl.ir.ops import ResidualOrder
from codl.ir.ops.windows import input_window
from codl.ir.stacking import Stack, find_stacked_sort, join_boxes, stack_nodes

__all__ = [
    "Boxes",
    "IntArray",
    "OutputBoxes",
    "Region",
    "find_splittable_axes",
    "input_boxes",
    "input_regions",
    "input_window",
]


@dataclass(frozen=True, slots=True)
class OutputBoxes(Boxes):
    """Boxes of one node's output with the input boxes that they need, computed once for all callers."""

    node: Node
    graph: Graph
    needs: tuple[Boxes, ...]
    """As `input_boxes` returns them."""

    @classmethod
    def find(cls, node: Node, graph: Graph, out: Boxes) -> "OutputBoxes":
        """Return boxes of a node's output together with what they need."""
        return cls(out.begin, out.end, node, graph, input_boxes(node, graph, out))

    @classmethod
    def find_all(cls, nodes: Sequence[Node], graph: Graph, outs: Sequence[Boxes]) -> list["OutputBoxes"]:
        """Return what `find` returns for each of distinct nodes; those of one sort are computed together."""
        sorts: dict[Hashable, list[int]] = {}
        for place, node in enumerate(nodes):
            sorts.setdefault(find_stacked_sort(node, graph) or (node.name,), []).append(place)
        found: dict[int, OutputBoxes] = {}
        for places in sorts.values():
            counts = [outs[place].count for place in places]
            stack = stack_nodes([nodes[place] for place in places], graph, counts)
            needs = input_boxes(stack.node, stack.graph, join_boxes([outs[place] for place in places]))
            start = 0
            for place, count in zip(places, counts, strict=True):
                part, out = slice(start, start + count), outs[place]
                start = part.stop
                mine = needs if len(places) == 1 else _take(needs, part)
                found[place] = cls(out.begin, out.end, nodes[place], graph, mine)
        return [found[place] for place in range(len(nodes))]

    @classmethod
    def join(cls, parts: Sequence["OutputBoxes"], stack: Stack) -> "OutputBoxes":
        """Return boxes of several nodes as boxes of the stack made of these nodes."""
        out = join_boxes(parts)
        needs = tuple([join_boxes(boxes) for boxes in zip(*(part.needs for part in parts), strict=True)])
        return cls(out.begin, out.end, stack.node, stack.graph, needs)


def _take(needs: Sequence[Boxes], part: slice) -> tuple[Boxes, ...]:
    return tuple([Boxes(boxes.begin[part], boxes.end[part]) for boxes in needs])


def input_boxes(node: Node, graph: Graph, out: Boxes) -> tuple[Boxes, ...]:
    """Return, for each input of ``node``, the boxes it needs to compute the output boxes ``out``.

    Args:
        node: The operator with its epilogue.
        graph: Where the shapes of the node's tensors are found.
        out: Boxes [count, rank of the output]. An empty one needs nothing.

    Returns:
        One `Boxes` of equal count for each input, in the node's order, constants
        included. Where the exact need is not a box, a box around it: not always the
        smallest, since gaps between dilated taps and inside reshaped tails count as needed.
    """
    if isinstance(out, OutputBoxes) and out.node is node and out.graph is graph:
        return out.needs
    shapes = tuple(graph.shape(name) for name in node.inputs)
    has_residual = node.epilogue.residual is not ResidualOrder.NONE
    own = shapes[:-1] if has_residual else shapes
    needs = node.op.find_needs(own, graph.shape(node.output), out)
    if has_residual:
        needs = (*needs, out)
    empty = out.is_empty[:, None]
    if not empty.any():
        return needs
    return tuple(Boxes(np.where(empty, 0, b.begin), np.where(empty, 0, b.end)) for b in needs)


def input_regions(node: Node, graph: Graph, out: Region) -> tuple[Region, ...]:
    """Return what `input_boxes` says about a single output region."""
    return tuple(boxes.region(0) for boxes in input_boxes(node, graph, Boxes.of([out])))


def find_splittable_axes(node: Node, graph: Graph) -> tuple[int, ...]:
    """Return the output axes along which a cut saves work: some input shrinks with the output.

    Cutting along another axis would be correct too, but every device would read
    and compute from all of the input.
    """
    shape = graph.shape(node.output)
    whole = Region.whole(shape)
    full = sum(r.size for r in input_regions(node, graph, whole))
    axes = []
    for axis, length in enumerate(shape):
        if length < 2:
            continue
        part = sum(r.size for r in input_regions(node, graph, whole.cut(axis, 0, 1)))
        if part < full:
            axes.append(axis)
    return tuple(axes)

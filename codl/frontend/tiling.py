"""Which convolutions may be computed in tiles of several rows and columns by minimal filtering (Winograd)."""

from dataclasses import replace

from codl.ir.graph import Graph, Node
from codl.ir.ops import Conv2d, Pair

_LEAST_CHANNELS = 16
"""Input and output channels below which the transforms cost more than the products they save."""
_SIDES = ((20, 4), (10, 2))
"""Least side of the output image, side of the tiles: large ones save more, and widen the halo of every cut.

Source:
    An image of 14 x 14 fills 49 tiles of side 2, but 16 of side 4 by three quarters. In a chain of 3 x 3
    convolutions a cut grows by one row a layer without tiles, by a whole tile with them.
"""


def mark_tiles(graph: Graph) -> Graph:
    """Return the same network whose convolutions say in which tiles they may be computed."""
    return replace(graph, nodes=tuple(_mark(node, graph) for node in graph.nodes))


def _mark(node: Node, graph: Graph) -> Node:
    op = node.op
    if not isinstance(op, Conv2d) or not _is_simple(op, node, graph):
        return node
    return replace(node, op=replace(op, tile=_choose_tile(graph.shape(node.output)[2:])))


def _is_simple(op: Conv2d, node: Node, graph: Graph) -> bool:
    channels = min(graph.shape(node.inputs[0])[1], graph.shape(node.output)[1])
    is_three_by_three = op.kernel == (3, 3) and op.stride == op.dilation == (1, 1)
    is_constant = all(name in graph.constants for name in node.inputs[1 : 3 if op.has_bias else 2])
    return is_three_by_three and op.groups == 1 and is_constant and channels >= _LEAST_CHANNELS


def _choose_tile(image: tuple[int, ...]) -> Pair:
    side = next((side for least, side in _SIDES if min(image) >= least), 1)
    return side, side

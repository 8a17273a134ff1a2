"""Which convolutions may be computed in tiles of several rows and columns by minimal filtering (Winograd)."""

from dataclasses import replace

from codl.ir.graph import Graph, Node
from codl.ir.ops import Conv2d, Pair

_LEAST_CHANNELS = 16
"""Input and output channels below which the transforms cost more than the products they save."""
_LARGE, _SMALL = 4, 2
"""Sides of tiles: large ones save more products, and widen the halo of every cut more."""
_LEAST_FOR_LARGE, _LEAST_FOR_SMALL = 12, 7
"""Least sides of the output image, for large tiles and for small ones. A device may still take smaller tiles.

Source:
    An image of 14 x 14 fills 49 small tiles, but 16 large ones by three quarters. In a chain of 3 x 3
    convolutions a cut grows by one row a layer without tiles, by a whole tile with them.
"""


def mark_tiles(graph: Graph) -> Graph:
    """Return the same network whose convolutions say in which tiles they may be computed."""
    return replace(graph, nodes=tuple(_mark(node, graph) for node in graph.nodes))


def _mark(node: Node, graph: Graph) -> Node:
    op = node.op
    if not isinstance(op, Conv2d) or not _is_simple(op, node, graph):
        return node
    return replace(node, op=replace(op, tile=_choose_tile(node, graph)))


def _is_simple(op: Conv2d, node: Node, graph: Graph) -> bool:
    channels = min(graph.shape(node.inputs[0])[1], graph.shape(node.output)[1])
    is_three_by_three = op.kernel == (3, 3) and op.stride == op.dilation == (1, 1)
    is_constant = all(name in graph.constants for name in node.inputs[1 : 3 if op.has_bias else 2])
    return is_three_by_three and op.groups == 1 and is_constant and channels >= _LEAST_CHANNELS


def _choose_tile(node: Node, graph: Graph) -> Pair:
    least = min(graph.shape(node.output)[2:])
    if least >= _LEAST_FOR_LARGE:
        return _LARGE, _LARGE
    return (_SMALL, _SMALL) if least >= _LEAST_FOR_SMALL else (1, 1)

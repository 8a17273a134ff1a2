"""Which convolutions may be computed in tiles of several rows and columns by minimal filtering (Winograd)."""

from dataclasses import replace
from math import prod

from codl.ir.graph import Graph, Node
from codl.ir.ops import Conv2d, Pair

_LEAST_CHANNELS = 16
"""Input channels below which the transforms cost more than the products they save; output channels, too, for
windows of 3 x 3.
"""
_LEAST_KERNEL = 3
"""Least side of a window that is computed so."""
_LARGE, _THREE, _SMALL = 4, 3, 2
"""Sides of tiles: large ones save more products, and widen the halo of every cut more. Those of 3 go with
parts of the window of 4 x 4, the others with parts of 3 x 3.
"""
_POINTS = 6
"""Points of a line in tiles of 3 and of 4."""
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
    return replace(node, op=replace(op, tile=_choose_tile(op, node, graph)))


def _is_simple(op: Conv2d, node: Node, graph: Graph) -> bool:
    inputs, outputs = graph.shape(node.inputs[0])[1], graph.shape(node.output)[1]
    is_wide = min(op.kernel) >= _LEAST_KERNEL and op.stride == op.dilation == (1, 1)
    is_deep = inputs >= _LEAST_CHANNELS and (outputs >= _LEAST_CHANNELS or _is_large(op))
    is_constant = all(name in graph.constants for name in node.inputs[1 : 3 if op.has_bias else 2])
    return is_wide and is_deep and is_constant and op.groups == 1


def _is_large(op: Conv2d) -> bool:
    """Return whether the window is larger than 3 x 3: it saves more products, on small images, too."""
    return max(op.kernel) > _LEAST_KERNEL


def _choose_tile(op: Conv2d, node: Node, graph: Graph) -> Pair:
    least = min(graph.shape(node.output)[2:])
    if least < _LEAST_FOR_SMALL:
        return 1, 1
    if least < _LEAST_FOR_LARGE and not _is_large(op):
        return _SMALL, _SMALL
    side = min((_LARGE, _THREE), key=lambda tile: _count_products(op, tile))
    return side, side


def _count_products(op: Conv2d, tile: int) -> float:
    """Return the products of an output and a channel: of all parts of the window, whole or filled up."""
    part = _POINTS + 1 - tile
    return prod(-(-side // part) * _POINTS / tile for side in op.kernel)

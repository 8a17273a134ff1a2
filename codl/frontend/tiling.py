"""Which convolutions may be computed in tiles of several rows and columns by minimal filtering (Winograd)."""

from dataclasses import replace
from math import prod

from codl.ir.graph import FloatArray, Graph, Node
from codl.ir.ops import Conv2d, Pair

_LARGEST = 1e30
"""Magnitude below which weights may be transformed; NaN is not below it."""
_LEAST_CHANNELS = 16
"""Input channels below which the transforms cost more than the products they save; output channels, too, for
windows of 3 x 3.
"""
_MOST_FEW = 4
"""Input channels up to which the windows of all phases and parts together fill vectors."""
_LEAST_KERNEL = 3
"""Least side of a window that is computed in tiles."""
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
    if not _is_moderate(graph.constants[node.inputs[1]]):
        return node
    return replace(node, op=replace(op, tile=_choose_tile(op, node, graph)))


def _is_simple(op: Conv2d, node: Node, graph: Graph) -> bool:
    inputs, outputs = graph.shape(node.inputs[0])[1], graph.shape(node.output)[1]
    weights = node.inputs[1 : 3 if op.has_bias else 2]
    is_constant = all(name in graph.constants for name in weights)
    if not is_constant or op.groups != 1 or op.dilation != (1, 1) or min(op.kernel) < _LEAST_KERNEL:
        return False
    if inputs <= _MOST_FEW:
        return outputs >= _LEAST_CHANNELS and _saves_half(op)
    return op.stride == (1, 1) and inputs >= _LEAST_CHANNELS and (outputs >= _LEAST_CHANNELS or _is_large(op))


def _is_moderate(weight: FloatArray) -> bool:
    """Return whether transforms stay finite: a NaN would reach all outputs of a tile."""
    return bool(weight.min() > -_LARGEST and weight.max() < _LARGEST)


def _saves_half(op: Conv2d) -> bool:
    """Return whether tiles need at most half of the products of a window larger than 3 x 3."""
    return _is_large(op) and 2 * min(_count_products(op, tile) for tile in (_LARGE, _THREE)) <= prod(
        op.kernel
    )


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
    """Return the products of an output and a channel: of all parts of the window, whole or filled up.

    Taps of one phase, those that a stride reaches from it, are parts of their own.
    """
    part = _POINTS + 1 - tile
    sides = zip(op.kernel, op.stride, strict=True)
    return prod(stride * -(-kernel // (stride * part)) * _POINTS / tile for kernel, stride in sides)

"""Which input elements a box of an operator's output depends on, one element at a time."""

from collections.abc import Iterator
from itertools import product

from codl.ir.graph import Graph, Node
from codl.ir.regions import Region
from tests.ir import random_attention, random_moves, random_nodes, random_reductions
from tests.ir.random_nodes import Index

_READS = random_attention.READS | random_nodes.READS | random_moves.READS | random_reductions.READS


def find_needs(node: Node, graph: Graph, out: Region) -> list[set[Index]]:
    """Return, for each input of ``node``, the elements that the output box ``out`` depends on."""
    shapes = [graph.shape(name) for name in node.inputs]
    needs: list[set[Index]] = [set() for _ in shapes]
    own = shapes[:-1] if node.residual else shapes
    read = _READS[type(node.op)]
    for index in elements(out):
        for position, element in read(node.op, own, graph.shape(node.output), index):
            needs[position].add(element)
        if node.residual:
            needs[-1].add(index)
    return needs


def elements(region: Region) -> Iterator[Index]:
    """Yield the elements of a box."""
    yield from product(*(range(b, e) for b, e in zip(region.begin, region.end, strict=True)))


def bounding_box(found: set[Index], rank: int) -> Region:
    """Return the smallest box around some elements, an empty one around none."""
    if not found:
        return Region((0,) * rank, (0,) * rank)
    columns = list(zip(*found, strict=True))
    return Region(tuple(min(c) for c in columns), tuple(max(c) + 1 for c in columns))

"""Slices that tests of box kernels cut from an output: edges, middles, and a box inside on every axis."""

from codl.ir.graph import Shape
from codl.ir.regions import Region
from tests.kernels.harness import cut

EDGES = {"lt": 3, "eq": 4, "div": 8, "gt": 9}
"""Lengths by how they compare with four lanes."""


def slices_of(shape: Shape) -> list[Region]:
    """Return cuts along each axis and, where there is room, a box that touches no edge."""
    slices = [
        region
        for axis, length in enumerate(shape)
        for region in cut(shape, axis, sorted({1, length // 2, length - 1}))
    ]
    inner = Region.whole(shape)
    for axis, length in enumerate(shape):
        if length > 2:
            inner = inner.cut(axis, 1, length - 1)
    return [*slices, inner]

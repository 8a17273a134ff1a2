"""Slices that tests of box kernels cut from an output: edges, middles, and a box inside on every axis."""

import pytest

from codl.ir.graph import Shape
from codl.ir.regions import Region
from tests.kernels.harness import cut

EDGES = {"lt": 3, "eq": 4, "div": 8, "gt": 9}
"""Lengths by how they compare with four lanes."""
_SHAPES: dict[str, Shape] = {
    "vector": (21,),
    "matrix": (3, 130),
    "sequence": (4, 5, 33),
    "image": (2, 20, 3, 5),
    "few-channels": (1, 3, 4, 6),
    "one-pixel": (2, 37, 1, 1),
    "windows": (1, 3, 4, 40),
}
EVERY_AXIS = [
    pytest.param(shape, axis, id=f"{name}-{axis}")
    for name, shape in _SHAPES.items()
    for axis in range(len(shape))
]
"""Shapes, each with each of its axes, for kernels over whole axes."""


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

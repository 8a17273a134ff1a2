"""A part of the workload that is measured in seconds."""

from math import prod

from codl.catalog.layers import Layer
from codl.profiler.workload import load_workload

KINDS = {"Unary", "Pool2d"}


def small_layers() -> tuple[Layer, ...]:
    """Return the small layers of two kinds of operators."""
    return tuple(
        layer
        for layer in load_workload()
        if type(layer.op).__name__ in KINDS and prod(layer.output) < 100_000
    )

"""Constants that come from memory, in networks whose constants no cache holds from one run to the next."""

from collections.abc import Mapping

import numpy as np

from codl.catalog.spec import LaunchBatch
from codl.ir.graph import FLOAT_BYTES, Graph
from codl.ir.ops import Conv2d
from codl.latency.amounts.traffic import Amounts, count_constants, count_groups, imbalance
from codl.machine import DeviceInfo

_PACES = {"2B": 2.0, "4B": 4.0, "8B": 8.0}
"""Bytes that memory delivers while a core computes one product of vectors, as in `tiles`."""
_WINDOW = 3
"""Rows or columns of a window that minimal filtering takes at once; larger ones it takes part by part."""


def find_far_share(constant_bytes: float, cache_bytes: float) -> float:
    """Return which share of a network's constants comes from memory in each run, in [0, 1].

    A run walks through all of them in the same order. A least-recently-used cache that is a little too small
    drops each line just before it is wanted; caches that drop others keep some.

    Args:
        constant_bytes: What the network walks through.
        cache_bytes: What the shared cache holds; 0 where no such cache is known.
    """
    if cache_bytes <= 0:
        return 0.0
    return min(max(constant_bytes / cache_bytes - 1, 0.0), 1.0)


def count_network_constants(graph: Graph) -> float:
    """Return about how many bytes of constants a run of a network reads, as kernels keep them.

    Filters are transformed for minimal filtering: windows of three become as many points as a cell has
    outputs, and two.
    """
    floats = 0.0
    for node in graph.nodes:
        growth = 1.0
        if isinstance(node.op, Conv2d):
            for tile in node.op.tile:
                growth *= (tile + _WINDOW - 1) / _WINDOW if tile > 1 else 1.0
        for name in node.inputs:
            if name in graph.constants:
                floats += growth * float(np.prod(graph.shape(name)))
    return floats * FLOAT_BYTES


def list_far(
    batch: LaunchBatch, amounts: Mapping[str, Amounts], far_share: float, info: DeviceInfo
) -> dict[str, Amounts]:
    """Return by name the bytes of constants that a launch reads from memory, [count] each.

    All of them, and those that are not there yet when the products of what is there are done.

    Args:
        batch: The launch.
        amounts: What it does; `products` among them where tiles are known.
        far_share: Share of its constants that no cache holds.
        info: The device.
    """
    constants = count_constants(batch)
    if far_share <= 0 or not np.any(constants):
        return {}
    found = {"far_constants": far_share * constants * imbalance(count_groups(batch), info)}
    products = amounts.get("products")
    if products is not None:
        for name, pace in _PACES.items():
            found[f"far_paced_{name}"] = far_share * np.maximum(constants - pace * products, 0)
    return found

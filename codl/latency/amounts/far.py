"""Constants that come from memory, in networks whose constants no cache holds from one run to the next."""

from collections.abc import Mapping
from math import prod

import numpy as np

from codl.catalog.spec import LaunchBatch
from codl.ir.graph import FLOAT_BYTES, Graph
from codl.ir.ops import Conv2d
from codl.latency.amounts.tiles import PACES
from codl.latency.amounts.traffic import Amounts, count_constants, count_groups, imbalance, miss_share
from codl.machine import DeviceInfo

_WINDOW = 3
"""Rows or columns of a window that minimal filtering takes at once; larger ones it takes part by part."""


def find_far_share(constant_bytes: float, cache_bytes: int) -> float:
    """Return which share of a network's constants comes from memory in each run, in [0, 1].

    A run walks through all of them in the same order, as `miss_share` says.

    Args:
        constant_bytes: What the network walks through.
        cache_bytes: What the shared cache holds; 0 where no such cache is known.
    """
    if cache_bytes <= 0:
        return 0.0
    return float(miss_share(np.array([constant_bytes]), cache_bytes)[0])


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
                floats += growth * prod(graph.shape(name))
    return floats * FLOAT_BYTES


def list_far(
    batch: LaunchBatch, amounts: Mapping[str, Amounts], far_share: float, info: DeviceInfo
) -> dict[str, Amounts]:
    """Return by name what a launch takes for constants that come from memory, [count] each.

    Waiting for the first of them; the bytes of all of them, and of those that are not there yet when the
    products of what is there are done.

    Args:
        batch: The launch.
        amounts: What it does; `products` and `paced_` bytes among them where tiles are known.
        far_share: Share of its constants that no cache holds.
        info: The device.

    Source of the first:
        Launches of 2 to 12 us on a Zen 4, which take 4 us longer when their constants, 1 to 10 KiB, are far:
        with it 0.89 and 0.84 of slices of depthwise convolutions are predicted within 10 %, without it 0.55
        and 0.75 (Intel's driver, PoCL).
    """
    if far_share <= 0:
        return {}
    constants = count_constants(batch)
    if not np.any(constants):
        return {}
    found = {
        "far_launches": far_share * (constants > 0).astype(np.float64),
        "far_constants": far_share * constants * imbalance(count_groups(batch), info),
    }
    for name, pace in PACES.items():
        paced = amounts.get(f"paced_{name}")
        if paced is not None:
            found[f"far_paced_{name}"] = far_share * (paced - pace * amounts["products"])
    return found

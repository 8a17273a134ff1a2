"""How work-groups that share a GPU's compute unit share its time.

A compute unit keeps many work-groups at once. One alone takes what its own chain of instructions takes; more
of them fill its waits, until its units for arithmetic and memory are busy. So a wave of `r` groups takes a
time that rises with `r`, faster from some numbers on: with four schedulers a unit, from four, and so on.
Groups beyond what it keeps wait for the next wave.
"""

from collections.abc import Mapping
from itertools import pairwise
from math import prod

import numpy as np

from codl.catalog.spec import LaunchBatch
from codl.latency.amounts.traffic import Amounts
from codl.machine import DeviceInfo, DeviceKind

_STEPS = (1, 4, 8, 16, 32)
"""Work-groups on a compute unit from which on one more may cost another time; the last is what it keeps.

Source: CUDA programming guide, compute capability 9.0: four schedulers, 32 resident blocks a multiprocessor.
"""
_NEVER_ALONE = ("launches", "woken", "far_", "beyond_")
"""Names of amounts that no work-group has alone begin so."""


def split_waves(
    batch: LaunchBatch, amounts: Mapping[str, Amounts], info: DeviceInfo
) -> Mapping[str, Amounts]:
    """Return by name what one work-group does, times waves, and times the groups that share its unit.

    Args:
        batch: The launch.
        amounts: What the busiest compute unit does, [count] each; what no group does alone is left out.
        info: The device; others than GPUs work on one group a unit at a time, so nothing is returned.
    """
    if info.kind is not DeviceKind.GPU:
        return {}
    size = prod(batch.local_size)
    groups = batch.global_size.prod(axis=1) / size
    shared = groups * -(-size // info.work_group_multiple) / info.units
    """Groups of one warp each, or as many as the larger ones count for, on each unit."""
    per_unit = np.maximum(np.ceil(groups / info.units), 1)
    waves, rest = np.ceil(shared / _STEPS[-1]), shared % _STEPS[-1]
    full = np.floor(shared / _STEPS[-1])
    names = [name for name in amounts if not name.startswith(_NEVER_ALONE)]
    alone = np.stack([amounts[name] for name in names]) / per_unit
    weights = {"1": waves}
    for low, high in pairwise(_STEPS):
        weights[f"{high}"] = full * (high - low) + np.clip(rest - low, 0, high - low)
    return {
        f"{name}@{step}": row
        for step, weight in weights.items()
        for name, row in zip(names, alone * weight, strict=True)
    }

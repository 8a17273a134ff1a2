"""Bytes that a launch moves: of which tensors, by the busiest unit, from beyond caches of which sizes."""

from collections.abc import Mapping
from functools import reduce
from math import prod

import numpy as np
import numpy.typing as npt

from codl.catalog.spec import LaunchBatch, ceil_div
from codl.ir.graph import FLOAT_BYTES
from codl.ir.ops import ActivationKind, Epilogue, ResidualOrder
from codl.latency.amounts.epilogues import Epilogues
from codl.machine import DeviceInfo

Amounts = npt.NDArray[np.float64]
LINE_FLOATS = 16
"""Of a line of a cache."""
TOTAL_KNEES = {"1MiB": 1 << 20, "4MiB": 1 << 22, "8MiB": 1 << 23, "16MiB": 1 << 24}
"""Bytes from which on each further one costs more: translations of addresses, shared caches and memory."""
CACHE_KNEES = {
    "512KiB": 1 << 19,
    "1MiB": 1 << 20,
    "2MiB": 1 << 21,
    "4MiB": 1 << 22,
    "8MiB": 1 << 23,
    "16MiB": 1 << 24,
}
"""Sizes of caches that may still hold what the launch before has written.

Source: second-level caches of present cores (0.5 to 2 MiB) and a share of third-level ones.
"""
_TOTAL_SIZES, _CACHE_SIZES = (np.array(list(knees.values()))[:, None] for knees in (TOTAL_KNEES, CACHE_KNEES))
_EXPENSIVE = (ActivationKind.SIGMOID, ActivationKind.TANH, ActivationKind.ELU)
"""Activations that take an exponential."""


def miss_share(footprint: Amounts, cache_bytes: int) -> Amounts:
    """Return the share of accesses that a cache misses, [count], when a footprint is walked in order.

    A least-recently-used cache that is a little too small drops each line just before it is wanted: nothing
    is missed while all fits, everything from twice that on.

    Args:
        footprint: Bytes that are walked between two uses of the same one, [count].
        cache_bytes: Size of the cache.
    """
    return np.asarray(np.minimum(np.maximum(footprint / cache_bytes - 1, 0), 1))


def miss_shares(footprint: Amounts) -> Amounts:
    """Return what `miss_share` does for each of the sizes of `CACHE_KNEES`, [size, count]."""
    return np.asarray(np.minimum(np.maximum(footprint / _CACHE_SIZES - 1, 0), 1))


def count_groups(batch: LaunchBatch) -> Amounts:
    """Return the work-groups of each launch, [count]."""
    return np.asarray(reduce(np.multiply, batch.global_size.T) / prod(batch.local_size))


def imbalance(groups: Amounts, info: DeviceInfo) -> Amounts:
    """Return what the busiest unit does over what it would with all units equally busy, [count]."""
    return np.ceil(groups / info.units) * info.units / np.maximum(groups, 1)


def list_traffic(batch: LaunchBatch, epilogues: Epilogues, info: DeviceInfo) -> Mapping[str, Amounts]:
    """Return by name the bytes that one launch moves, [count] each.

    `read` and `written` are all of them. `inputs`, `constants`, `residual` and `outputs` are weighted by how
    busy the busiest unit is: a launch of one work-group has one core's bandwidth. Inputs and outputs come
    from far when a unit's share of them all leaves its cache.
    """
    read, written = batch.read_bytes.astype(np.float64), batch.written_bytes.astype(np.float64)
    groups = count_groups(batch)
    busy = imbalance(groups, info)
    constants = np.minimum(count_constants(batch), read)
    is_added, is_expensive = epilogues.find(_has_residual), epilogues.find(_is_expensive)
    residual = np.where(is_added, written, 0.0)
    inputs = np.maximum(read - constants - residual, 0)
    found = {"read": read, "written": written, "inputs": inputs * busy, "outputs": written * busy}
    if batch.panel_begin is not None and "steps" in batch.units:
        found["constants"] = constants * busy
    if np.any(is_added):
        found["residual"] = residual * busy
    if np.any(is_expensive):
        found["exponentials"] = np.where(is_expensive, written / FLOAT_BYTES, 0.0)
    share = (inputs + residual + written) / info.units
    missed = busy * miss_shares(share)
    far = zip(CACHE_KNEES, (inputs + residual) * missed, written * missed, strict=True)
    for name, far_inputs, far_outputs in far:
        found[f"far_inputs_{name}"], found[f"far_outputs_{name}"] = far_inputs, far_outputs
    beyond = np.maximum(read + written - _TOTAL_SIZES, 0)
    found.update({f"beyond_{name}": row for name, row in zip(TOTAL_KNEES, beyond, strict=True)})
    return found


def _has_residual(epilogue: Epilogue) -> bool:
    return epilogue.residual is not ResidualOrder.NONE


def _is_expensive(epilogue: Epilogue) -> bool:
    return epilogue.activation.kind in _EXPENSIVE


def count_constants(batch: LaunchBatch) -> Amounts:
    """Return the bytes of packed constants that the tiles of a launch read, each counted once, [count]."""
    if batch.panel_begin is None or batch.panel_end is None or "steps" not in batch.units:
        return np.zeros(len(batch.global_size))
    if batch.constant_bytes is not None:
        return batch.constant_bytes.astype(np.float64)
    panel = batch.panel_floats * float(FLOAT_BYTES)
    return np.asarray((batch.panel_end - batch.panel_begin) * panel)


def count_panels(batch: LaunchBatch) -> tuple[Amounts, Amounts]:
    """Return the panels of channels of a launch, and how many of them a work-group walks, [count] each."""
    across = np.maximum(batch.global_size[:, 1], 1)
    if batch.panel_begin is None or batch.panel_end is None:
        return across.astype(np.float64), np.ones(len(across))
    panels = np.maximum(batch.panel_end - batch.panel_begin, 1)
    item_panels = batch.scalars.get("item_panels", ceil_div(panels, across))
    return panels.astype(np.float64), np.minimum(item_panels, panels).astype(np.float64)

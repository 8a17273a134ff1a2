"""Features of launches: amounts of work that are read off a launch description.

Every feature adds time, so coefficients are times and never negative. Amounts are those of the
busiest compute unit, since a launch lasts as long as that one works. The launches of one candidate are added
up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from codl.catalog.spec import LaunchBatch, Parameters, TensorArg
from codl.ir.graph import FLOAT_BYTES
from codl.ir.ops import FUNCTIONS, Epilogue, ResidualOrder
from codl.latency.epilogues import PLAIN, Epilogues
from codl.machine import DeviceInfo, DeviceKind

VERSION = 1
"""Of the features: it goes up when one of them comes, goes or means something else."""
FLOPS = "flops"
FEATURES = (
    "launches",
    "woken",
    FLOPS,
    "inputs",
    "constants",
    "outputs",
    "residuals",
    "exponentials",
    "far_constants",
    "items",
    "lines",
    "strided",
    "products",
    "stores",
    "transforms",
    "chain_products",
    "chain_items",
)
"""Names of the features, in the order of their columns."""
MEMORY_FEATURES = ("inputs", "constants", "outputs", "residuals", "far_constants")
"""Features in bytes: their time is the memory's."""
_RESIDENT_GROUPS = 32
"""Work-groups of one warp that a GPU's compute unit holds at once.

Source: CUDA programming guide, compute capability 9.0.
"""
_PLACES = {name: place for place, name in enumerate(FEATURES)}
_UNITS = {
    "items": "items",
    "walks": "items",
    "transforms": "transforms",
    "outputs": "transforms",
    "filters": "transforms",
}
"""Unit counts of launch descriptions -> the feature that they add to."""

Floats = npt.NDArray[np.float64]
FloatMatrix = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """The work of many candidates."""

    values: FloatMatrix
    """[count, features], in the order of `FEATURES`."""
    moved_bytes: Floats
    """Read and written, [count]."""
    launches: Floats
    """Launches that do something, [count]."""


def extract_features(
    batches: Sequence[LaunchBatch],
    parameters: Parameters,
    info: DeviceInfo,
    *,
    epilogues: Epilogues = PLAIN,
    far_share: float = 0.0,
) -> Features:
    """Return the features of candidates that several launches compute one after the other.

    Args:
        batches: Launch descriptions, at least one.
        parameters: What the kernel is built with; an entry a candidate where they differ.
        info: The device.
        epilogues: What operators do to their results.
        far_share: Share of the constants that comes from memory and not from a cache, in [0, 1].
    """
    count = len(batches[0].global_size)
    columns = np.zeros((len(FEATURES), count))
    moved = np.zeros(count)
    for batch in batches:
        is_active = find_active(batch)
        amounts = _Amounts(columns=np.zeros_like(columns))
        _add_traffic(amounts, batch, info, epilogues, far_share)
        _add_work(amounts, batch, parameters, info)
        columns += np.where(is_active, amounts.columns, 0.0)
        moved += np.where(is_active, batch.read_bytes + batch.written_bytes, 0)
    return Features(values=columns.T, moved_bytes=moved, launches=columns[_PLACES["launches"]].copy())


def find_active(batch: LaunchBatch) -> npt.NDArray[np.bool_]:
    """Return which candidates a launch does something for, [count]."""
    return np.asarray(reduce(np.logical_and, (batch.global_size > 0).T))


@dataclass(frozen=True, slots=True)
class _Amounts:
    """The columns of one launch, [feature, count]."""

    columns: FloatMatrix

    def add(self, name: str, amount: Any) -> None:
        self.columns[_PLACES[name]] += amount


def _add_traffic(
    amounts: _Amounts, batch: LaunchBatch, info: DeviceInfo, epilogues: Epilogues, far_share: float
) -> None:
    """Add bytes and arithmetic, each unit's share of them, times how much more the busiest one does."""
    groups = count_groups(batch)
    share = np.ceil(groups / info.units) / np.maximum(groups, 1)
    constants = np.minimum(count_constants(batch), batch.read_bytes)
    residuals = np.where(epilogues.find(_has_residual), batch.written_bytes, 0)
    inputs = np.maximum(batch.read_bytes - constants - residuals, 0)
    amounts.add("launches", 1.0)
    amounts.add("woken", np.minimum(groups, info.units) - 1)
    amounts.add(FLOPS, batch.flops * share)
    amounts.add("inputs", inputs * share)
    amounts.add("constants", constants * share)
    amounts.add("outputs", batch.written_bytes * share)
    amounts.add("residuals", residuals * share)
    amounts.add("far_constants", constants * share * far_share)
    exponentials = np.where(epilogues.find(_is_expensive), batch.written_bytes / FLOAT_BYTES, 0.0)
    amounts.add("exponentials", exponentials * share)


def _add_work(amounts: _Amounts, batch: LaunchBatch, parameters: Parameters, info: DeviceInfo) -> None:
    """Add what work-items do: lines of a box, products of register tiles, transforms of minimal filtering.

    Operands whose values do not lie one after the other are read value by value: for each step of a tile a
    value of each of its channels. On a GPU a wave of work-groups also takes as long as one of them needs for
    its own chain of steps.
    """
    units, scalars, nothing = batch.units, batch.scalars, np.zeros(1)
    for name, amount in units.items():
        if name in _UNITS:
            amounts.add(_UNITS[name], amount)
    if {"item_rows", "item_channels"} <= set(scalars) and "items" in units:
        amounts.add("lines", units["items"] * scalars["item_rows"])
    rows, vectors, channels = _find_tile(parameters)
    products = units.get("steps", nothing) * rows * vectors
    amounts.add("products", products)
    amounts.add("stores", units.get("tiles", nothing) * rows * vectors)
    groups = count_groups(batch)
    if any(map(_is_strided, batch.tensors)):
        values = batch.written_bytes / FLOAT_BYTES * np.ceil(groups / info.units) / np.maximum(groups, 1)
        amounts.add("strided", units["steps"] * channels if "steps" in units else values)
    if info.kind is DeviceKind.GPU:
        warps = -(-prod(batch.local_size) // info.work_group_multiple)
        waves = np.ceil(groups * warps / info.units / _RESIDENT_GROUPS)
        each = waves / np.maximum(np.ceil(groups / info.units), 1)
        amounts.add("chain_products", products * each)
        amounts.add("chain_items", units.get("vectors", units.get("items", nothing)) * each)


def _find_tile(parameters: Parameters) -> tuple[Any, Any, Any]:
    """Return the rows, vectors and channels of a register tile; 1 each without one."""
    if not {"MR", "VECTOR"} <= set(parameters):
        return 1, 1, 1
    if "VECTORS" in parameters:
        return parameters["MR"], parameters["VECTORS"], parameters["VECTORS"] * parameters["VECTOR"]
    return parameters["MR"], parameters["NR"] // parameters["VECTOR"], parameters["NR"]


def count_groups(batch: LaunchBatch) -> Floats:
    """Return the work-groups of each launch, [count]."""
    return np.asarray(reduce(np.multiply, batch.global_size.T) / prod(batch.local_size))


def count_constants(batch: LaunchBatch) -> Floats:
    """Return the bytes of packed constants that the tiles of a launch read, each counted once, [count]."""
    if batch.panel_begin is None or batch.panel_end is None or "steps" not in batch.units:
        return np.zeros(len(batch.global_size))
    if batch.constant_bytes is not None:
        return batch.constant_bytes.astype(np.float64)
    panel = batch.panel_floats * float(FLOAT_BYTES)
    return np.asarray((batch.panel_end - batch.panel_begin) * panel)


def _has_residual(epilogue: Epilogue) -> bool:
    return epilogue.residual is not ResidualOrder.NONE


def _is_expensive(epilogue: Epilogue) -> bool:
    return FUNCTIONS[epilogue.activation.kind].is_expensive


def _is_strided(arg: TensorArg) -> bool:
    """Return whether neighbours along the innermost kernel dimension are no neighbours in memory.

    Image tensors lie in memory with their channels innermost, others in ONNX order.
    """
    channel = arg.dims[3]
    if channel is None:
        return False
    axis, multiple = channel
    rank = len(arg.origin)
    return multiple != 1 or axis != (1 if rank == 4 else rank - 1)

"""What a launch's time depends on, as a matrix: unit counts of the catalog and what physics adds to them.

Everything is derived from the launch description that the executor enqueues, so nothing is counted twice. All
features are amounts of work that take time, so that their coefficients are times and never negative.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from codl.catalog.spec import LaunchBatch, Parameters, TensorArg
from codl.ir.ops import Epilogue
from codl.latency.amounts.crossing import Crossing, list_crossing
from codl.latency.amounts.lines import list_lines
from codl.latency.amounts.taps import list_taps
from codl.latency.amounts.tiles import list_tiles
from codl.latency.amounts.traffic import list_traffic
from codl.latency.amounts.waves import split_waves
from codl.latency.amounts.work import count_items, count_work
from codl.machine import DeviceInfo

FloatMatrix = np.ndarray[Any, np.dtype[np.float64]]
FLOPS = "flops"
"""Arithmetic: all that simulated profiles know of; measured ones have no such feature."""
_LAUNCHES = "launches"
_PLAIN = Epilogue()


class Counting(StrEnum):
    """What a model means by the work of the busiest compute unit."""

    ITEMS = "items"
    """Its work-items, as if all of them were full: so count profiles that say nothing of it."""
    WORK = "work"
    """What there is to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Amounts of work of many candidates."""

    names: tuple[str, ...]
    values: FloatMatrix
    """[count, names]"""
    moved_bytes: npt.NDArray[np.float64]
    """Read and written, [count]."""
    flops: npt.NDArray[np.float64]
    """[count]"""

    def select(self, names: Sequence[str]) -> FloatMatrix:
        """Return the columns of these names, zeros for those that no launch has."""
        places = {name: place for place, name in enumerate(self.names)}
        chosen = np.zeros((len(self.values), len(names)))
        known = [column for column, name in enumerate(names) if name in places]
        chosen[:, known] = self.values[:, [places[names[column]] for column in known]]
        if FLOPS in names:
            chosen[:, names.index(FLOPS)] = self.flops
        return chosen


def extract_features(
    batches: Sequence[LaunchBatch],
    parameters: Parameters,
    info: DeviceInfo,
    *,
    epilogue: Epilogue = _PLAIN,
    crossing: Crossing | None = None,
    counting: Counting = Counting.WORK,
    wanted: Container[str] | None = None,
) -> Features:
    """Return the features of candidates that several launches compute one after the other.

    Args:
        batches: What a row describes; launches of different entry points, or of different sorts of work, have
            features of their own, and so have those that do not walk along memory.
        parameters: What the row is built with.
        info: The device.
        epilogue: What the operator does to its results.
        crossing: How far apart their data lie; None for what is computed whole.
        counting: As the model counts that is asked.
        wanted: Names of features that some model asks for; others may be left out. All by default.
    """
    totals = count_totals(batches)
    entries, works = {batch.entry for batch in batches}, {tuple(batch.units) for batch in batches}
    found: dict[str, npt.NDArray[np.float64]] = {}
    for batch in batches:
        is_active = (batch.global_size > 0).all(axis=1)
        stage = [batch.entry] if len(entries) > 1 else []
        stage += list(batch.units)[:1] if len(works) > 1 else []
        stage += ["strided"] if any(map(_is_strided, batch.tensors)) else []
        prefix = "".join(f"{part}." for part in stage)
        amounts = _list_amounts(batch, parameters, info, epilogue, counting)
        if wanted is not None:  # launches tell of which sort they are
            amounts = {
                name: amount
                for name, amount in amounts.items()
                if name == _LAUNCHES or prefix + name in wanted
            }
        active = np.where(is_active, np.stack(list(amounts.values())), 0.0)
        for name, amount in zip(amounts, active, strict=True):
            key = prefix + name
            found[key] = found[key] + amount if key in found else amount
    if crossing is not None:
        crossed = list_crossing(crossing)
        found |= {name: amount for name, amount in crossed.items() if wanted is None or name in wanted}
    names = tuple(found)
    return replace(totals, names=names, values=np.stack(list(found.values()), axis=1)) if names else totals


def count_totals(batches: Sequence[LaunchBatch]) -> Features:
    """Return bytes and arithmetic of candidates that several launches compute, and no other feature."""
    count = len(batches[0].global_size) if batches else 0
    moved, flops = np.zeros(count), np.zeros(count)
    for batch in batches:
        is_active = (batch.global_size > 0).all(axis=1)
        moved += np.where(is_active, batch.read_bytes + batch.written_bytes, 0)
        flops += np.where(is_active, batch.flops, 0)
    return Features(names=(), values=np.zeros((count, 0)), moved_bytes=moved, flops=flops)


def stage_of(name: str) -> str:
    """Return which launches a feature is of: what stands before its name, empty for plain ones."""
    return name.rpartition(".")[0]


def is_special(name: str) -> bool:
    """Return whether a feature is of one program, or one sort of results, beside another that is of all."""
    return " " in name


def _list_amounts(
    batch: LaunchBatch, parameters: Parameters, info: DeviceInfo, epilogue: Epilogue, counting: Counting
) -> Mapping[str, Any]:
    """Return by name what one launch does, [count] each."""
    work = count_work(batch, parameters) if counting is Counting.WORK else count_items(batch)
    groups = batch.global_size.prod(axis=1) / prod(batch.local_size)
    amounts: dict[str, Any] = {_LAUNCHES: np.ones(len(groups)), **list_traffic(batch, epilogue, info)}
    if info.units > 1:
        amounts["woken"] = np.minimum(groups, info.units) - 1
    amounts |= work.units
    if {"item_rows", "item_channels"} <= set(batch.scalars) and "items" in batch.units:
        amounts |= list_lines(batch, work, parameters, epilogue)
    if {"MR", "VECTOR"} <= set(parameters) and {"steps", "tiles"} <= set(batch.units):
        amounts |= list_tiles(batch, work, parameters, epilogue)
        amounts |= list_taps(batch, work.units, parameters)
    return {**amounts, **split_waves(batch, amounts, info)}


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

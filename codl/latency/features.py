"""What a launch's time depends on, as a matrix: unit counts of the catalog and what physics adds to them.

Everything is derived from the launch description that the executor enqueues, so nothing is counted twice. All
features are amounts of work that take time, so that their coefficients are times and never negative.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from codl.catalog.spec import LaunchBatch, Parameters, TensorArg
from codl.latency.amounts.crossing import Crossing, list_apart, list_crossing
from codl.latency.amounts.epilogues import PLAIN, Epilogues
from codl.latency.amounts.far import list_far
from codl.latency.amounts.halos import list_halos
from codl.latency.amounts.lines import list_lines
from codl.latency.amounts.taps import list_taps
from codl.latency.amounts.tiles import list_tiles
from codl.latency.amounts.traffic import count_groups, list_traffic
from codl.latency.amounts.waves import split_waves
from codl.latency.amounts.work import count_items, count_work
from codl.machine import DeviceInfo

FloatMatrix = np.ndarray[Any, np.dtype[np.float64]]
FLOPS = "flops"
"""Arithmetic: all that simulated profiles know of; measured ones have no such feature."""
_LAUNCHES = "launches"


class Counting(StrEnum):
    """What a model means by the work of the busiest compute unit."""

    ITEMS = "items"
    """Its work-items, as if all of them were full: so count profiles that say nothing of it."""
    WORK = "work"
    """What there is to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Amounts of work of many candidates."""

    columns: Mapping[str, npt.NDArray[np.float64]]
    """By name, [count]."""
    moved_bytes: npt.NDArray[np.float64]
    """Read and written, [count]."""
    flops: npt.NDArray[np.float64]
    """[count]"""

    @property
    def names(self) -> tuple[str, ...]:
        """All but `FLOPS`."""
        return tuple(self.columns)

    @property
    def values(self) -> FloatMatrix:
        """All columns side by side, [count, names]."""
        return self.select(self.names)

    def find(self, name: str) -> npt.NDArray[np.float64] | None:
        """Return a column, [count], or None where no launch has it."""
        return self.flops if name == FLOPS else self.columns.get(name)

    def select(self, names: Sequence[str]) -> FloatMatrix:
        """Return the columns of these names, zeros for those that no launch has."""
        chosen = np.zeros((len(self.flops), len(names)))
        for place, name in enumerate(names):
            column = self.find(name)
            if column is not None:
                chosen[:, place] = column
        return chosen


def extract_features(
    batches: Sequence[LaunchBatch],
    parameters: Parameters,
    info: DeviceInfo,
    *,
    epilogues: Epilogues = PLAIN,
    crossing: Crossing | None = None,
    counting: Counting = Counting.WORK,
    far_share: float = 0.0,
    wanted: Container[str] | None = None,
) -> Features:
    """Return the features of candidates that several launches compute one after the other.

    Args:
        batches: What a row describes; launches of different entry points, or of different sorts of work, have
            features of their own, and so have those that do not walk along memory.
        parameters: What the row is built with.
        info: The device.
        epilogues: What operators do to their results.
        crossing: How far apart their data lie; None for what is computed whole.
        counting: As the model counts that is asked.
        far_share: Share of their constants that comes from memory.
        wanted: Names of features that some model asks for; others may be left out. All by default.
    """
    totals = count_totals(batches)
    entries, works = {batch.entry for batch in batches}, {tuple(batch.units) for batch in batches}
    found: dict[str, npt.NDArray[np.float64]] = {}
    for batch in batches:
        is_active = find_active(batch)
        stage = [batch.entry] if len(entries) > 1 else []
        stage += list(batch.units)[:1] if len(works) > 1 else []
        stage += ["strided"] if any(map(_is_strided, batch.tensors)) else []
        prefix = "".join(f"{part}." for part in stage)
        is_all = bool(is_active.all())
        amounts = _list_amounts(batch, parameters, info, epilogues, counting)
        if crossing is not None:
            amounts |= list_apart(crossing, amounts)
        for name, amount in (amounts | list_far(batch, amounts, far_share, info)).items():
            key = prefix + name
            if wanted is None or name == _LAUNCHES or key in wanted:  # launches tell of which sort they are
                active = amount if is_all else np.where(is_active, amount, 0.0)
                found[key] = found[key] + active if key in found else active
    if crossing is not None:
        crossed = list_crossing(crossing)
        found |= {name: amount for name, amount in crossed.items() if wanted is None or name in wanted}
    return replace(totals, columns=found)


def count_totals(batches: Sequence[LaunchBatch]) -> Features:
    """Return bytes and arithmetic of candidates that several launches compute, and no other feature."""
    count = len(batches[0].global_size) if batches else 0
    moved, flops = np.zeros(count), np.zeros(count)
    for batch in batches:
        is_active = find_active(batch)
        moved += np.where(is_active, batch.read_bytes + batch.written_bytes, 0)
        flops += np.where(is_active, batch.flops, 0)
    return Features(columns={}, moved_bytes=moved, flops=flops)


def find_active(batch: LaunchBatch) -> npt.NDArray[np.bool_]:
    """Return which candidates a launch does something for, [count]."""
    return np.asarray(reduce(np.logical_and, (batch.global_size > 0).T))


def stage_of(name: str) -> str:
    """Return which launches a feature is of: what stands before its name, empty for plain ones."""
    return name.rpartition(".")[0]


def is_special(name: str) -> bool:
    """Return whether a feature is of one program, or one sort of results, beside another that is of all."""
    return " " in name


def _list_amounts(
    batch: LaunchBatch, parameters: Parameters, info: DeviceInfo, epilogues: Epilogues, counting: Counting
) -> dict[str, Any]:
    """Return by name what one launch does, [count] each."""
    work = count_work(batch, parameters, info) if counting is Counting.WORK else count_items(batch)
    groups = count_groups(batch)
    amounts: dict[str, Any] = {_LAUNCHES: np.ones(len(groups)), **list_traffic(batch, epilogues, info)}
    amounts |= list_halos(batch, amounts["inputs"], info)
    if info.units > 1:
        amounts["woken"] = np.minimum(groups, info.units) - 1
    amounts |= work.units
    if {"item_rows", "item_channels"} <= set(batch.scalars) and "items" in batch.units:
        amounts |= list_lines(batch, work, parameters, epilogues)
    if {"MR", "VECTOR"} <= set(parameters) and {"steps", "tiles"} <= set(batch.units):
        amounts |= list_tiles(batch, work, parameters, epilogues)
        amounts |= list_taps(batch, work.units, parameters, info)
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

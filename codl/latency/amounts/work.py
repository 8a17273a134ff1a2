"""What the busiest compute unit does: the last work-item of a launch may have less to do than the others."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from codl.catalog.spec import LaunchBatch, Parameters, Scalar
from codl.ir.boxes import IntArray
from codl.latency.amounts.traffic import Amounts
from codl.machine import DeviceInfo

_UNCUT = ("items", "walks")
"""Units of which a work-item that has little to do counts as much as another one."""
_OF_ROWS = ("mapped", "gathered", "taps")
"""Units that are done once for all channels of a work-item."""
_TINY = 1e-9
"""What sums of shares may be off by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What the busiest compute unit does, for many candidates."""

    units: Mapping[str, Amounts]
    """By name, [count]."""
    rows: Amounts
    """Share of the rows, or pixels, of its work-items that there are, [count], in (0, 1]."""


def count_items(batch: LaunchBatch) -> Work:
    """Return the work of a launch as if all of its work-items were full."""
    units = {name: values.astype(np.float64) for name, values in batch.units.items()}
    return Work(units=units, rows=np.ones(len(batch.global_size)))


def count_work(batch: LaunchBatch, parameters: Parameters, info: DeviceInfo) -> Work:
    """Return the work that there is: with few work-items, the last one is much of what is said to be done.

    Args:
        batch: The launch.
        parameters: What its kernel is built with.
        info: The device.
    """
    rows, channels = _find_parts(batch, parameters)
    both, of_rows = rows.share * channels.share, rows.share
    if info.units > 1:
        images = np.maximum(batch.global_size[:, 2], 1)
        both = of_rows = _share_busiest(rows, channels, images, info.units)
        if np.any(channels.share < 1):
            of_rows = _share_busiest(rows, _Parts(channels.items, np.ones(1)), images, info.units)
    shares = {**dict.fromkeys(_UNCUT, np.ones(1)), **dict.fromkeys(_OF_ROWS, of_rows)}
    units = {name: np.asarray(values * shares.get(name, both)) for name, values in batch.units.items()}
    return Work(units=units, rows=of_rows)


@dataclass(frozen=True, slots=True)
class _Parts:
    """How a launch is cut along an axis, all but the last part of the same size, [count] each."""

    items: Amounts
    """Parts of it."""
    share: Amounts
    """What there is, in so many of the size of the others."""

    @property
    def full(self) -> Amounts:
        """Parts that are not smaller than others."""
        last = self.share * self.items - (self.items - 1)
        return np.asarray(self.items - (last < 1 - _TINY))


def _share_busiest(rows: _Parts, channels: _Parts, images: IntArray, units: int) -> Amounts:
    """Return what the busiest unit does, in what it would if all work-items that it may get were full.

    Units take the next item when they are done with one, small ones as a rule at last. These are taken to be
    of the same size.

    Source:
        185 and 235 slices of convolutions in blocks, both cores of a Zen 4, Intel's driver and PoCL: 0.91 and
        0.83 are predicted within 10 %, 0.86 and 0.80 where each unit has its share of small items.
    """
    every = rows.items * channels.items * images
    full = rows.full * channels.full * images
    small = every - full
    size = (every * rows.share * channels.share - full) / np.maximum(small, 1)
    size = np.clip(np.where(small > 0, size, 1.0), _TINY, 1.0)
    level, idle = np.ceil(full / units), -full % units
    """Full items of the busiest units; others have one less."""
    filling = np.ceil(1 / size - _TINY)
    """Small items after which the others are as late, or later."""
    rest = np.maximum(small - idle * filling, 0)
    is_late = (idle > 0) & (small > idle * np.floor(1 / size + _TINY))
    late = level - 1 + size * (filling + np.ceil(np.maximum(rest - units + idle, 0) / units))
    most = np.maximum(level + size * np.ceil(rest / units), np.where(is_late, late, 0.0))
    return np.asarray(most / np.ceil(every / units))


def _find_parts(batch: LaunchBatch, parameters: Parameters) -> tuple[_Parts, _Parts]:
    """Return how the rows, and the channels, of a launch are cut."""
    scalars, groups = batch.scalars, np.maximum(batch.global_size, 1)
    if {"item_rows", "item_channels"} <= set(scalars):  # kernels/common/runs.h
        rows = scalars["n_count"] * scalars["h_count"] * scalars["w_count"]
        return (
            _Parts(groups[:, 1], _divide(rows, groups[:, 1] * scalars["item_rows"])),
            _Parts(groups[:, 0], _divide(scalars["c_count"], groups[:, 0] * scalars["item_channels"])),
        )
    whole = np.ones(len(groups))
    first, second = (groups[:, axis] for axis in range(2))
    if "stage" in scalars:  # stages of minimal filtering count what there is themselves
        return _Parts(first, whole), _Parts(second, whole)
    return (
        _Parts(first, _find_rows(batch, parameters, first, whole)),
        _Parts(second, _find_panels(batch, second, whole)),
    )


def _find_rows(batch: LaunchBatch, parameters: Parameters, groups: IntArray, whole: Amounts) -> Amounts:
    """Return the share of the tiles, or rows of outputs, of work-items along a launch's first axis."""
    scalars = batch.scalars
    if "row_end" not in scalars:
        return whole
    rows = scalars["row_end"] - scalars["row_begin"]
    if "pool_row_end" in scalars:
        return _divide(scalars["pool_row_end"] - scalars["pool_row_begin"], groups * scalars["item_rows"])
    if "item_rows" in scalars:
        return _divide(rows, groups * scalars["item_rows"])
    pixels = rows * (scalars["col_end"] - scalars["col_begin"]) if "col_end" in scalars else rows
    if "item_tiles" in scalars:
        return _divide(np.ceil(pixels / parameters["MR"]), groups * scalars["item_tiles"])
    if "item_pixels" in scalars:
        full, tiles = scalars["item_pixels"], np.ceil(scalars["item_pixels"] / parameters["MR"])
        return _divide(pixels // full * tiles + np.ceil(pixels % full / parameters["MR"]), groups * tiles)
    return whole


def _find_panels(batch: LaunchBatch, groups: IntArray, whole: Amounts) -> Amounts:
    """Return the share of the panels of work-items along a launch's second axis."""
    if "item_panels" not in batch.scalars or batch.panel_begin is None or batch.panel_end is None:
        return whole
    return _divide(batch.panel_end - batch.panel_begin, groups * batch.scalars["item_panels"])


def _divide(part: Scalar | Amounts, of: Scalar | Amounts) -> Amounts:
    return np.asarray(np.minimum(part / np.maximum(of, 1), 1.0))

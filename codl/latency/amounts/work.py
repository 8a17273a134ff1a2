"""What the busiest compute unit does: the last work-item of a launch may have less to do than the others."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from codl.catalog.spec import LaunchBatch, Parameters, Scalar
from codl.ir.boxes import IntArray
from codl.latency.amounts.traffic import Amounts

_UNCUT = ("items", "walks")
"""Units of which a work-item that has little to do counts as much as another one."""
_OF_ROWS = ("mapped", "gathered", "taps")
"""Units that are done once for all channels of a work-item."""


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


def count_work(batch: LaunchBatch, parameters: Parameters) -> Work:
    """Return the work that there is: with few work-items, the last one is much of what is said to be done.

    Of several units each is taken to have its share of partial items.

    Args:
        batch: The launch.
        parameters: What its kernel is built with.
    """
    rows, channels = _find_shares(batch, parameters)
    both = rows * channels
    shares = {**dict.fromkeys(_UNCUT, np.ones(1)), **dict.fromkeys(_OF_ROWS, rows)}
    units = {name: np.asarray(values * shares.get(name, both)) for name, values in batch.units.items()}
    return Work(units=units, rows=rows)


def _find_shares(batch: LaunchBatch, parameters: Parameters) -> tuple[Amounts, Amounts]:
    """Return the share of the rows, and of the channels, of a launch's work-items that there are, [count]."""
    scalars, groups = batch.scalars, np.maximum(batch.global_size, 1)
    if {"item_rows", "item_channels"} <= set(scalars):  # kernels/common/runs.h
        rows = scalars["n_count"] * scalars["h_count"] * scalars["w_count"]
        return (
            _divide(rows, groups[:, 1] * scalars["item_rows"]),
            _divide(scalars["c_count"], groups[:, 0] * scalars["item_channels"]),
        )
    whole = np.ones(len(groups))
    if "stage" in scalars:  # stages of minimal filtering share out what they have evenly
        return whole, whole
    return _find_rows(batch, parameters, groups[:, 0], whole), _find_panels(batch, groups[:, 1], whole)


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

"""What kernels do that walk boxes line by line (kernels/common/runs.h)."""

from collections.abc import Mapping

import numpy as np

from codl.catalog.rows.shuffle import TURNED
from codl.catalog.spec import LaunchBatch, Parameters
from codl.latency.amounts.epilogues import Epilogues
from codl.latency.amounts.pooling import list_pooling
from codl.latency.amounts.tiles import split_programs
from codl.latency.amounts.traffic import LINE_FLOATS, Amounts
from codl.latency.amounts.work import Work

_LANES = 8
"""Of kernels without a parameter for them."""
_LONGEST_PATTERN = 16
"""Channels up to which operands that repeat are spread out first, as kernels/common/pattern.h says."""


def list_lines(
    batch: LaunchBatch, work: Work, parameters: Parameters, epilogues: Epilogues
) -> Mapping[str, Amounts]:
    """Return by name what the busiest compute unit walks, [count] each.

    Lines shorter than a vector go value by value. Vectors take longer with some activations and programs than
    with others.

    Args:
        batch: A launch over boxes; it counts items and, where it works on them, vectors.
        work: What the busiest compute unit does.
        parameters: What the kernel is built with.
        epilogues: What is done to results.
    """
    rows, channels = (batch.scalars[name].astype(np.float64) for name in ("item_rows", "item_channels"))
    lanes = parameters.get("VECTOR", _LANES)
    lines, is_short = work.units["items"] * work.rows * rows, channels < lanes
    found = {
        "lines": lines,
        "short_lines": lines * is_short,
        "cut_lines": lines * (channels % LINE_FLOATS > 0),
    }
    if {"src_channels", "dst_channels"} <= set(batch.scalars):  # kernels/layout/reshape_gather__buffer.cl
        found["segments"] = lines * np.maximum(channels / np.maximum(batch.scalars["src_channels"], 1), 1)
    if "GROUPS" in parameters:
        found |= _list_turns(batch, lines, channels, parameters["GROUPS"])
    if _is_repeating(batch):
        found["repeating_lines"] = np.where(channels > _LONGEST_PATTERN, lines, 0.0)
    vectors = work.units.get("vectors")
    if vectors is not None:
        steps = vectors / np.maximum(lines * np.ceil(channels / lanes), 1)
        found["short_values"] = lines * channels * steps * is_short
        found |= split_programs("vectors", vectors, parameters)
        for kind, is_kind in epilogues.split_kinds().items():
            found[f"vectors {kind}"] = np.where(is_kind, vectors, 0.0)
        if "below" in batch.scalars:
            found["side_vectors"] = _count_sides(batch, lines, channels, lanes)
        found |= list_pooling(batch, lines, parameters)
        if "is_inner" in batch.scalars:
            found |= _list_sums(batch, lines * channels, lanes, vectors, found["short_values"])
    return found


def _list_turns(batch: LaunchBatch, lines: Amounts, channels: Amounts, groups: int) -> Mapping[str, Amounts]:
    """Return what lines of shuffled channels take besides: places turned at once, and values one by one.

    Lines that begin with a whole group and consist of whole turns ask nothing else.

    Args:
        batch: A launch of kernels/layout/layout_shuffle__buffer.cl.
        lines: That the busiest compute unit walks, [count].
        channels: Of a line, [count].
        groups: Of channels.
    """
    length = TURNED * groups
    before = np.minimum(-batch.scalars["c_begin"] % groups, channels)
    behind = (channels - before) % groups
    whole = channels - before - behind
    turns = np.where(whole >= length, np.ceil(whole / length), 0.0)
    return {
        "turns": lines * turns,
        "uneven_lines": lines * (turns * length != channels),
        "lone_values": lines * (before + behind),
        "lone_groups": lines * np.where(turns > 0, 0.0, whole / groups),
    }


def _is_repeating(batch: LaunchBatch) -> bool:
    """Return whether an operand has one value a channel for many pixels: lines of others do not join then."""
    is_wide = batch.tensors[0].dims[2] is not None
    return is_wide and any(arg.dims[2] is None and arg.dims[3] is not None for arg in batch.tensors)


def _count_sides(batch: LaunchBatch, lines: Amounts, channels: Amounts, lanes: int) -> Amounts:
    """Return the vectors whose windows reach beyond the first or the last channel, [count].

    Args:
        batch: A launch of kernels/normalize/response_norm_window__buffer.cl.
        lines: That the busiest compute unit walks, [count].
        channels: Of a line, [count].
        lanes: Of a vector.
    """
    scalars = batch.scalars
    begin, parts = scalars["c_begin"], np.maximum(np.ceil(scalars["c_count"] / np.maximum(channels, 1)), 1)
    at_begin = begin < scalars["below"]
    at_end = begin + scalars["c_count"] + scalars["above"] > scalars["channels"]
    sides = (at_begin.astype(np.float64) + at_end) / parts
    return np.asarray(lines * np.minimum(sides, np.ceil(channels / lanes)) * (channels >= lanes))


def _list_sums(
    batch: LaunchBatch, sums: Amounts, lanes: int, vectors: Amounts, short_values: Amounts
) -> Mapping[str, Amounts]:
    """Return what means take: along the innermost axis a sum is folded at its end, along others it is not.

    Args:
        batch: A launch of kernels/reduce/reduce_mean__buffer.cl.
        sums: Results of the busiest compute unit, [count].
        lanes: Of a vector.
        vectors: What it would add if all sums went by vectors of results, [count].
        short_values: What it adds where results are fewer than a vector's, [count].
    """
    scalars = batch.scalars
    is_inner, inner = scalars["is_inner"] > 0, scalars["length_c"]
    lines = sums * is_inner * scalars["length_n"] * scalars["length_h"] * scalars["length_w"]
    is_short = short_values > 0
    return {
        "folded_sums": sums * is_inner,
        "folded_vectors": lines * (inner // lanes),
        "folded_values": lines * (inner % lanes),
        "summed_vectors": np.where(is_inner | is_short, 0.0, vectors),
        "summed_values": np.where(is_inner, 0.0, short_values),
    }

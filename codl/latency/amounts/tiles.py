"""What register tiles do: products, what they load for them, and how they store."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from codl.catalog.epilogue import PLAIN_ACTIVATIONS
from codl.catalog.spec import LaunchBatch, Parameters, Scalar
from codl.catalog.winograd_tile import points_of
from codl.ir.graph import FLOAT_BYTES
from codl.ir.ops import Epilogue, ResidualOrder
from codl.latency.amounts.epilogues import Epilogues
from codl.latency.amounts.traffic import Amounts, count_constants, count_panels, miss_share
from codl.latency.amounts.work import Work

_REUSE_KNEES = {"32KiB": 1 << 15, "512KiB": 1 << 19, "2MiB": 1 << 21}
"""Sizes of caches that may hold the constants that a tile reads until the next one reads them again."""
PACES = {"2B": 2.0, "4B": 4.0, "8B": 8.0}
"""Bytes that memory delivers while a core computes one product of vectors.

Source: present CPUs, 10 to 20 GB/s beside 3 to 7 products a nanosecond.
"""
_BY_LANES = ("products", "gathers", "transforms_back")
"""Amounts of vectors that take longer the wider they are, on units that are narrower."""
_WIDE = (8, 16)
_NO_END = 1 << 40
_MOST_VALUE = 1 << 12
"""No parameter has a larger value."""


def split_programs(name: str, amounts: Amounts, parameters: Parameters) -> Mapping[str, Amounts]:
    """Return amounts by name and what the kernel is built with: features that only one program has.

    Args:
        name: Of the amounts.
        amounts: [count]
        parameters: What the kernel is built with; an entry a candidate of what differs between them.
    """
    known = sorted(parameters.items())
    varying = [np.asarray(value) for _, value in known if np.ndim(value)]
    if not varying:
        return {f"{name} {_name_program(known)}": amounts}
    code = varying[0]
    for value in varying[1:]:
        code = code * _MOST_VALUE + value
    _, firsts, owners = np.unique(code, return_index=True, return_inverse=True)
    found = {}
    for number, first in enumerate(firsts.tolist()):
        program = [(key, int(np.broadcast_to(value, owners.shape)[first])) for key, value in known]
        found[f"{name} {_name_program(program)}"] = np.where(owners == number, amounts, 0.0)
    return found


def _name_program(parameters: Sequence[tuple[str, int]]) -> str:
    return " ".join(f"{name}={value}" for name, value in parameters)


def list_tiles(
    batch: LaunchBatch, work: Work, parameters: Parameters, epilogues: Epilogues
) -> Mapping[str, Amounts]:
    """Return by name what the tiles of the busiest compute unit do, [count] each.

    Compilers make faster loops of some tiles than of others: what a program's products take beyond those of
    the fastest one is a feature of its own.

    Args:
        batch: A launch that counts steps and tiles.
        work: What the busiest compute unit does.
        parameters: Those of kernels/common/gemm_tile.h or register_tile.h.
        epilogues: What is done to results.
    """
    units = work.units
    rows, lanes = parameters["MR"], parameters["VECTOR"]
    vectors = _count_vectors(parameters)
    steps, tiles = units["steps"], units["tiles"]
    depth = steps / np.maximum(tiles, 1)
    stores = tiles * rows * vectors
    found = {
        "products": steps * rows * vectors,
        "loads": steps * (rows + vectors),
        "stores": stores,
        **_list_gathered(batch, work, depth, parameters),
        **_list_stores(batch, stores, steps * rows * vectors, parameters, epilogues),
        **_list_walked(batch, tiles, depth * (vectors * lanes * FLOAT_BYTES)),
    }
    found |= _list_paced(batch, found["products"])
    found |= _split_lanes(found, lanes)
    found |= split_programs("products", found["products"], parameters)
    if {"kernel_h", "kernel_w"} <= set(batch.scalars) and "TILE" not in parameters:
        taps = tiles * batch.scalars["kernel_h"].astype(np.float64) * batch.scalars["kernel_w"]
        found["taps"], found["tap_rows"] = taps, taps * rows
    return found


def _split_lanes(found: Mapping[str, Amounts], lanes: Any) -> Mapping[str, Amounts]:
    """Return what is done by wider vectors once more, as features of their own: they may take longer.

    Args:
        found: Amounts by name, of vectors of any width.
        lanes: Of the vectors; may have an entry a candidate.

    Source:
        A Zen 4, whose units are half as wide as its vectors of 16: with these, of slices of layers never seen
        0.12 to 0.18 more by fused and 0.08 more by staged minimal filtering are predicted within 10 %.
    """
    if not isinstance(lanes, np.ndarray):
        return {f"{name}_of_{lanes}": found[name] for name in _BY_LANES if name in found and lanes in _WIDE}
    return {
        f"{name}_of_{width}": np.where(lanes == width, found[name], 0.0)
        for name in _BY_LANES
        if name in found
        for width in _WIDE
    }


def _list_gathered(
    batch: LaunchBatch, work: Work, depth: Amounts, parameters: Parameters
) -> Mapping[str, Amounts]:
    """Return what work-items place before their products: inputs of a tile, transformed ones, a patch."""
    units = work.units
    items = units.get("items", units["tiles"]) * work.rows
    if "TILE" in parameters:  # whole vectors of channels at each point
        vectors = parameters["NR"] / parameters["VECTOR"]
        points = points_of(parameters["TILE"])
        return {
            "gathers": items * depth * (parameters["MR"] / parameters["VECTOR"]),
            "transforms_back": units["tiles"] * (parameters["MR"] * vectors * points),
        }
    found = {"gathers": items * depth * parameters["MR"]}
    if batch.local is not None:
        found["local"] = items * batch.local
    if "gathered" in units and "inputs" in batch.scalars:
        run = np.minimum(batch.scalars["inputs"], parameters.get("DEPTH", _NO_END))
        found["gathered_runs"] = units["gathered"] / np.maximum(run, 1)
    return found


def _list_walked(batch: LaunchBatch, tiles: Amounts, panel_bytes: Amounts) -> Mapping[str, Amounts]:
    """Return the bytes of constants that tiles read from beyond caches of some sizes.

    Every tile walks through its panel, and a work-item through all of its panels before it comes back to the
    first: as much as a cache holds is still there.
    """
    _, item_panels = count_panels(batch)
    distance = item_panels * panel_bytes
    if batch.local is not None:
        distance = distance + batch.local * float(FLOAT_BYTES)
    return {
        f"walked_{name}": tiles * panel_bytes * miss_share(distance, size)
        for name, size in _REUSE_KNEES.items()
    }


def _list_paced(batch: LaunchBatch, products: Amounts) -> Mapping[str, Amounts]:
    """Return the bytes that memory delivers until constants are there and products are done, [count] each.

    Both go on at once, and the slower one counts: where few tiles share each panel, that is the memory.
    """
    constants = count_constants(batch)
    return {f"paced_{name}": np.maximum(constants, paced * products) for name, paced in PACES.items()}


def _list_stores(
    batch: LaunchBatch, stores: Amounts, products: Amounts, parameters: Parameters, epilogues: Epilogues
) -> Mapping[str, Amounts]:
    """Return the vectors that leave value by value: of panels cut at their begin, or at their end.

    Kernels ask once a panel whether all of it is stored with a frequent epilogue. Where it is not, each of
    its vectors goes through memory and a function; depthwise kernels also read such a panel by values.
    """
    if not {"channel_begin", "channel_end"} <= set(batch.scalars):
        return {}
    is_plain = epilogues.find(_is_plain)
    at_begin, at_end = _share_cut(batch, parameters)
    slow, ended = np.where(is_plain, at_begin, 1.0), np.where(is_plain, at_end, 0.0)
    found = {
        "slow_stores": stores * slow,
        "ended_stores": stores * ended,
        "cut_products": products * np.minimum(at_begin + at_end, 1),
    }
    if "TILE" not in parameters and np.max(_count_vectors(parameters)) > 1:
        kept, part = _share_kept(batch, parameters, at_begin > 0, at_end > 0)
        found |= {"kept_stores": stores * kept, "part_stores": stores * part}
    return found


def _is_plain(epilogue: Epilogue) -> bool:
    return epilogue.activation.kind in PLAIN_ACTIVATIONS and epilogue.residual is not ResidualOrder.AFTER


def _share_cut(batch: LaunchBatch, parameters: Parameters) -> tuple[Amounts, Amounts]:
    """Return the share of a launch's panels that are cut at their begin, and at their end, [count] each."""
    scalars, lanes = batch.scalars, parameters["VECTOR"]
    begin, end = scalars["channel_begin"], scalars["channel_end"]
    if "TILE" in parameters:  # each vector asks for itself
        vectors = np.maximum(-(-end // lanes) - begin // lanes, 1)
        return (begin % lanes > 0) / vectors, (end % lanes > 0) / vectors
    panel = parameters["VECTORS"] * lanes if "VECTORS" in parameters else parameters["NR"]
    length = _find_length(scalars)
    begin, end = begin % length, (end - 1) % length + 1
    is_stepping_back = "VECTORS" in parameters or "channels" in scalars
    """The last vectors end with the tensor: its last panel is whole."""
    is_cut = (end % panel > 0) & ((end < length) | (not is_stepping_back))
    panels, _ = count_panels(batch)
    return (begin % panel > 0) / panels, is_cut / panels


def _share_kept(
    batch: LaunchBatch,
    parameters: Parameters,
    is_begin_cut: npt.NDArray[np.bool_],
    is_end_cut: npt.NDArray[np.bool_],
) -> tuple[Amounts, Amounts]:
    """Return the share of a launch's vectors that cut panels of several keep whole, and in part, [count].

    The former leave at once, the latter value by value; others of such a panel do not.
    """
    scalars, lanes, across = batch.scalars, parameters["VECTOR"], _count_vectors(parameters)
    length = _find_length(scalars)
    begin, end = scalars["channel_begin"] % length, (scalars["channel_end"] - 1) % length + 1
    panels, _ = count_panels(batch)
    at_begin, at_end = is_begin_cut & (begin % lanes > 0), is_end_cut & (end % lanes > 0)
    first, last = -(-begin // lanes), end // lanes
    part = at_begin.astype(np.float64) + (at_end & ~(at_begin & (begin // lanes == last)))
    part = part * (across > 1)
    is_one = (panels == 1) & (begin < end)
    behind = np.where(is_begin_cut, -first % across, 0)
    before = np.where(is_end_cut, last % across, 0)
    kept = np.where(is_one & (is_begin_cut | is_end_cut), np.maximum(last - first, 0), behind + before)
    return kept / (panels * across), part / (panels * across)


def _count_vectors(parameters: Parameters) -> Any:
    """Return the vectors of a panel; may have an entry a candidate."""
    return parameters["VECTORS"] if "VECTORS" in parameters else parameters["NR"] // parameters["VECTOR"]


def _find_length(scalars: Mapping[str, Scalar]) -> Any:
    """Return the channels after which panels begin anew, [count]; very many where a kernel does not say."""
    for name in ("group_outputs", "outputs", "channels"):
        if name in scalars:
            return scalars[name]
    return np.full(len(scalars["channel_begin"]), _NO_END)

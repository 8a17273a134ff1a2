"""What a launch's time depends on, as a matrix: unit counts of the catalog and what physics adds to them.

Everything is derived from the launch description that the executor enqueues, so nothing is counted twice. All
features are amounts of work that take time, so that their coefficients are times and never negative.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from codl.catalog.spec import LaunchBatch, Parameters, Scalar, TensorArg
from codl.ir.graph import FLOAT_BYTES
from codl.ir.ops import ActivationKind, Epilogue

FloatMatrix = np.ndarray[Any, np.dtype[np.float64]]
KNEES = {"128KiB": 1 << 17, "1MiB": 1 << 20, "4MiB": 1 << 22, "16MiB": 1 << 24}
"""Footprints at which a kernel's data may leave a cache: bytes beyond each are a feature of their own.

Source: first-level to third-level caches of present CPUs and second-level caches of GPUs lie between these.
"""
FLOPS = "flops"
"""Arithmetic: all that simulated profiles know of; measured ones have no such feature."""
_WALK_KNEES = {"512KiB": 1 << 19, "2MiB": 1 << 21}
"""Sizes of all packed constants together that a cache next to the core may hold."""
_EXPENSIVE = (ActivationKind.SIGMOID, ActivationKind.TANH, ActivationKind.ELU)
"""Activations that take an exponential."""
_PLAIN = Epilogue()
_LANES = 8
"""Of kernels without a parameter for them."""


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
        for column, name in enumerate(names):
            if name == FLOPS:
                chosen[:, column] = self.flops
            elif name in places:
                chosen[:, column] = self.values[:, places[name]]
        return chosen


def extract_features(
    batches: Sequence[LaunchBatch], parameters: Parameters, epilogue: Epilogue = _PLAIN
) -> Features:
    """Return the features of candidates that several launches compute one after the other.

    Args:
        batches: What a row describes; launches of different entry points, or of different sorts of work, have
            features of their own, and so have those that do not walk along memory.
        parameters: What the row is built with.
        epilogue: What the operator does to its results.
    """
    count = len(batches[0].global_size) if batches else 0
    entries, works = {batch.entry for batch in batches}, {tuple(batch.units) for batch in batches}
    found: dict[str, npt.NDArray[np.float64]] = {}
    moved, flops = np.zeros(count), np.zeros(count)
    for batch in batches:
        is_active = (batch.global_size > 0).all(axis=1)
        stage = [batch.entry] if len(entries) > 1 else []
        stage += list(batch.units)[:1] if len(works) > 1 else []
        stage += ["strided"] if any(map(_is_strided, batch.tensors)) else []
        prefix = "".join(f"{part}." for part in stage)
        for name, amount in _list_amounts(batch, parameters, epilogue).items():
            key = prefix + name
            found[key] = found.get(key, 0.0) + np.where(is_active, amount, 0)
        moved += np.where(is_active, batch.read_bytes + batch.written_bytes, 0)
        flops += np.where(is_active, batch.flops, 0)
    names = tuple(found)
    values = np.stack([found[name] for name in names], axis=1) if names else np.zeros((count, 0))
    return Features(names=names, values=values, moved_bytes=moved, flops=flops)


def stage_of(name: str) -> str:
    """Return which launches a feature is of: what stands before its name, empty for plain ones."""
    return name.rpartition(".")[0]


def _list_amounts(batch: LaunchBatch, parameters: Parameters, epilogue: Epilogue) -> Mapping[str, Any]:
    """Return by name what one launch does, [count] each."""
    read, written = batch.read_bytes.astype(np.float64), batch.written_bytes.astype(np.float64)
    amounts: dict[str, Any] = {"launches": np.ones(len(read)), "read": read, "written": written}
    amounts |= {name: units.astype(np.float64) for name, units in batch.units.items()}
    if epilogue.activation.kind in _EXPENSIVE:
        amounts["exponentials"] = written / FLOAT_BYTES
    amounts |= {f"beyond_{name}": np.maximum(read + written - knee, 0) for name, knee in KNEES.items()}
    if "item_rows" in batch.scalars and "items" in amounts:
        amounts["lines"] = amounts["items"] * batch.scalars["item_rows"]
        amounts |= _list_tail_amounts(amounts, batch.scalars, parameters.get("VECTOR", _LANES))
    if "MR" in parameters and "VECTOR" in parameters:
        amounts |= _list_tile_amounts(amounts, batch.scalars, parameters)
    if "tiles" in batch.units:
        amounts |= _list_panel_amounts(batch)
    return amounts


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


def _list_tile_amounts(
    amounts: Mapping[str, Any], scalars: Mapping[str, Scalar], parameters: Parameters
) -> Mapping[str, Any]:
    """Return what a register tile does in its steps: it loads vectors and multiplies them.

    Compilers make faster loops of some tiles than of others: what a tile's products take beyond those of the
    fastest one is a feature of its own.
    """
    rows, lanes = parameters["MR"], parameters["VECTOR"]
    vectors = parameters["VECTORS"] if "VECTORS" in parameters else parameters["NR"] / lanes
    found = {}
    cut = _share_cut(scalars, round(vectors * lanes))
    if "steps" in amounts:
        program = " ".join(f"{name}={value}" for name, value in sorted(parameters.items()))
        found["products"] = amounts["steps"] * rows * vectors
        found[f"products {program}"] = found["products"]
        found["loads"] = amounts["steps"] * (rows + vectors)
        found["cut_products"] = found["products"] * cut
    if {"steps", "tiles", "items"} <= set(amounts):
        depth = amounts["steps"] / np.maximum(amounts["tiles"], 1)
        found["gathers"] = amounts["items"] * depth * rows
    if "tiles" in amounts:
        found["stores"] = amounts["tiles"] * rows * vectors
        found["cut_stores"] = found["stores"] * cut
        if "TILE" in parameters:
            found["transforms_back"] = found["stores"] * (parameters["TILE"] + 2) ** 2
        if "kernel_h" in scalars and "kernel_w" in scalars:
            taps = scalars["kernel_h"].astype(np.float64) * scalars["kernel_w"]
            found["taps"] = amounts["tiles"] * taps
            found["tap_rows"] = amounts["tiles"] * taps * rows
    return found


def _list_tail_amounts(
    amounts: Mapping[str, Any], scalars: Mapping[str, Scalar], lanes: int
) -> Mapping[str, Any]:
    """Return what lines of channels cost that fill no whole vectors: their ends go value by value."""
    channels = scalars["item_channels"].astype(np.float64)
    left = channels % lanes
    walked = amounts["vectors"] / np.ceil(channels / lanes) if "vectors" in amounts else amounts["lines"]
    return {"tails": walked * left, "cut_lines": walked * (left > 0), "walked_lines": walked}


def _list_panel_amounts(batch: LaunchBatch) -> Mapping[str, Any]:
    """Return the bytes of packed constants that tiles read again from beyond caches of some sizes.

    Every tile walks through its panel. As much as a cache holds is still there from the tile before.
    """
    if batch.panel_begin is None or batch.panel_end is None:
        return {}
    panel = batch.panel_floats * FLOAT_BYTES
    total = np.maximum((batch.panel_end - batch.panel_begin) * panel, 1).astype(np.float64)
    return {
        f"walked_{name}": batch.units["tiles"] * panel * np.maximum(1 - knee / total, 0)
        for name, knee in _WALK_KNEES.items()
    }


def _share_cut(scalars: Mapping[str, Scalar], panel: int) -> Any:
    """Return the share of the panels that the region cuts: their tiles are stored value by value."""
    if not {"channel_begin", "channel_end"} <= set(scalars):
        return 0.0
    begin, end = scalars["channel_begin"], scalars["channel_end"]
    is_inner = end % scalars["group_outputs"] > 0 if "group_outputs" in scalars else end > 0
    cut = (begin % panel > 0).astype(np.float64) + ((end % panel > 0) & is_inner)
    panels = np.maximum(-(-end // panel) - begin // panel, 1)
    return np.minimum(cut / panels, 1.0)

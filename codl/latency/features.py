"""What a launch's time depends on, as a matrix: unit counts of the catalog and what physics adds to them.

Everything is derived from the launch description that the executor enqueues, so nothing is counted twice. All
features are amounts of work that take time, so that their coefficients are times and never negative.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from codl.catalog.spec import LaunchBatch, Parameters, Scalar
from codl.ir.graph import FLOAT_BYTES
from codl.ir.ops import ActivationKind, Epilogue

FloatMatrix = np.ndarray[Any, np.dtype[np.float64]]
KNEES = {"128KiB": 1 << 17, "1MiB": 1 << 20, "4MiB": 1 << 22, "16MiB": 1 << 24}
"""Footprints at which a kernel's data may leave a cache: bytes beyond each are a feature of their own.

Source: first-level to third-level caches of present CPUs and second-level caches of GPUs lie between these.
"""
FLOPS = "flops"
"""The one feature of the baseline; no predictor uses it."""
_EXPENSIVE = (ActivationKind.SIGMOID, ActivationKind.TANH, ActivationKind.ELU)
"""Activations that take an exponential."""
_PLAIN = Epilogue()
_TILE = frozenset({"MR", "NR", "VECTOR"})


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
            if name in places:
                chosen[:, column] = self.values[:, places[name]]
        return chosen


def extract_features(
    batches: Sequence[LaunchBatch], parameters: Parameters, epilogue: Epilogue = _PLAIN
) -> Features:
    """Return the features of candidates that several launches compute one after the other.

    Args:
        batches: What a row describes; launches of different entry points, or of different sorts of work, have
            features of their own.
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
        prefix = "".join(f"{part}." for part in stage)
        for name, amount in _list_amounts(batch, parameters, epilogue).items():
            key = prefix + name
            found[key] = found.get(key, 0.0) + np.where(is_active, amount, 0)
        moved += np.where(is_active, batch.read_bytes + batch.written_bytes, 0)
        flops += np.where(is_active, batch.flops, 0)
    names = tuple(found)
    values = np.stack([found[name] for name in names], axis=1) if names else np.zeros((count, 0))
    return Features(names=names, values=values, moved_bytes=moved, flops=flops)


def _list_amounts(batch: LaunchBatch, parameters: Parameters, epilogue: Epilogue) -> Mapping[str, Any]:
    """Return by name what one launch does, [count] each."""
    read, written = batch.read_bytes.astype(np.float64), batch.written_bytes.astype(np.float64)
    amounts: dict[str, Any] = {"launches": np.ones(len(read)), "read": read, "written": written}
    amounts |= {name: units.astype(np.float64) for name, units in batch.units.items()}
    if epilogue.activation.kind in _EXPENSIVE:
        amounts["exponentials"] = written / FLOAT_BYTES
    amounts |= {f"beyond_{name}": np.maximum(read + written - knee, 0) for name, knee in KNEES.items()}
    if set(parameters) >= _TILE:
        amounts |= _list_tile_amounts(amounts, batch.scalars, parameters)
    return amounts


def _list_tile_amounts(
    amounts: Mapping[str, Any], scalars: Mapping[str, Scalar], parameters: Parameters
) -> Mapping[str, Any]:
    """Return what a register tile does in its steps: it loads vectors and multiplies them."""
    rows, vectors = parameters["MR"], parameters["NR"] / parameters["VECTOR"]
    found = {}
    if "steps" in amounts:
        found["products"] = amounts["steps"] * rows * vectors
        found["loads"] = amounts["steps"] * (rows + vectors)
    if {"steps", "tiles", "items"} <= set(amounts):
        depth = amounts["steps"] / np.maximum(amounts["tiles"], 1)
        found["gathers"] = amounts["items"] * depth * rows
    if "tiles" in amounts:
        found["stores"] = amounts["tiles"] * rows * vectors
        if "TILE" in parameters:
            found["transforms_back"] = found["stores"] * (parameters["TILE"] + 2) ** 2
        if "kernel_h" in scalars and "kernel_w" in scalars:
            taps = scalars["kernel_h"].astype(np.float64) * scalars["kernel_w"]
            found["taps"] = amounts["tiles"] * taps
            found["tap_rows"] = amounts["tiles"] * taps * rows
    return found

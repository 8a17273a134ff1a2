"""What kernels do that walk boxes line by line (kernels/common/runs.h)."""

from collections.abc import Mapping

import numpy as np

from codl.catalog.spec import LaunchBatch, Parameters
from codl.ir.ops import Epilogue
from codl.latency.amounts.tiles import split_programs
from codl.latency.amounts.traffic import Amounts

_LANES = 8
"""Of kernels without a parameter for them."""
_LINE_FLOATS = 16
"""Of a line of a cache."""


def list_lines(batch: LaunchBatch, parameters: Parameters, epilogue: Epilogue) -> Mapping[str, Amounts]:
    """Return by name what the busiest compute unit walks, [count] each.

    Lines shorter than a vector go value by value. Vectors take longer with some activations and programs than
    with others.

    Args:
        batch: A launch over boxes; it counts items and, where it works on them, vectors.
        parameters: What the kernel is built with.
        epilogue: What is done to results.
    """
    units = {name: value.astype(np.float64) for name, value in batch.units.items()}
    rows, channels = (batch.scalars[name].astype(np.float64) for name in ("item_rows", "item_channels"))
    lanes = parameters.get("VECTOR", _LANES)
    lines, is_short = units["items"] * rows, channels < lanes
    found = {
        "lines": lines,
        "short_lines": lines * is_short,
        "cut_lines": lines * (channels % _LINE_FLOATS > 0),
    }
    vectors = units.get("vectors")
    if vectors is not None:
        work = vectors / np.maximum(lines * np.ceil(channels / lanes), 1)
        found["short_values"] = lines * channels * work * is_short
        found |= split_programs("vectors", vectors, parameters)
        found[f"vectors {epilogue.activation.kind}"] = vectors
    return found

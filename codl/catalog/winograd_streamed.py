"""Minimal filtering whose filters are transformed when they are read (kernels/common/winograd_streamed.h)."""

from collections.abc import Mapping

import numpy as np

from codl.catalog.gemm_tile import FEW_REGISTERS
from codl.catalog.register_tile import pack_panels
from codl.catalog.spec import Parameters, ceil_div, spread
from codl.catalog.winograd_tile import ALLOWED_WINOGRAD, fits_node, most_local_bytes, part_of, points_of
from codl.ir.graph import FLOAT_BYTES, FloatArray, Graph, Node
from codl.ir.ops import Conv2d
from codl.ir.regions import IntArray
from codl.machine import DeviceInfo

MOST_REGISTERS = FEW_REGISTERS
"""Vector registers up to which transforming filters pays.

Source:
    2 cores of a Zen 4, against staged: 14 x 14 of 256 channels 1.08 of the time with Intel's driver, 0.96
    with PoCL, 7 x 7 of 512 1.25 and 1.37.
"""
KERNEL = 3
"""Rows and columns of the largest window."""
TAPS = KERNEL**2
"""Floats of a filter and channel in memory."""
ALLOWED_STREAMED: Mapping[str, tuple[int, ...]] = {
    **ALLOWED_WINOGRAD,
    "TILE": (2, 4),
    "DEPTH": (32, 64),
}
"""Allowed values of the parameters."""
FILTER_PRODUCTS = 4
"""Products of a vector that take as long as transforming a vector of filters to one point."""
_FILTER_PADDING = 16
"""Floats behind the filters of each point (FILTER_STEP)."""
_FILTER_BYTES = 256 << 10
"""Filters at all points that stay in a core's second-level cache while inputs and products pass by."""
_PARTS = np.arange(1, 17)[:, None]
"""Work-items that may share the tiles of a panel, each of which transforms its filters again; [part, 1]."""


def fits_streamed(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters) -> bool:
    """Return whether these sizes can compute a node, and local memory holds a register tile's products."""
    return (
        isinstance(node.op, Conv2d)
        and max(node.op.kernel) <= KERNEL == part_of(parameters["TILE"])
        and fits_node(node, graph, info, parameters)
        and most_tiles(parameters, most_local_bytes(info)) >= parameters["MR"]
    )


def choose_depth(tile: int, nr: int) -> int:
    """Return the channels whose filters are transformed at a time: DEPTH."""
    *smaller, largest = ALLOWED_STREAMED["DEPTH"]
    floats = points_of(tile) * nr * largest
    return largest if floats * FLOAT_BYTES <= _FILTER_BYTES else smaller[-1]


def filter_floats(parameters: Parameters) -> int:
    """Return the local memory of a work-item's transformed filters, in floats."""
    return points_of(parameters["TILE"]) * (parameters["DEPTH"] * parameters["NR"] + _FILTER_PADDING)


def most_tiles(parameters: Parameters, local_bytes: int) -> int:
    """Return the tiles whose products local memory holds with the filters, in whole register tiles."""
    left, height = local_bytes // FLOAT_BYTES - filter_floats(parameters), parameters["MR"]
    tiles: int = np.maximum(left, 0) // (points_of(parameters["TILE"]) * parameters["NR"] * height) * height
    return tiles


def share_tiles(
    bands: IntArray, panels: IntArray, parameters: Parameters, *, local_bytes: int, units: int
) -> tuple[IntArray, IntArray]:
    """Return what leaves the busiest unit the least to do: tiles of a work-item, which takes one panel.

    Args:
        bands: Register tiles of each launch's image, [count].
        panels: Panels of all of its images, [count].
        parameters: Sizes.
        local_bytes: Local memory of a work-item.
        units: Compute units.

    Returns:
        Tiles of a work-item, and work-items of the busiest unit, each [count].
    """
    height = parameters["MR"]
    most = np.maximum(most_tiles(parameters, local_bytes) // height, 1)
    item_bands = np.minimum(ceil_div(bands, _PARTS), most)
    items = spread(ceil_div(bands, item_bands) * panels, units)
    best = np.argmin(items * (item_bands * height + FILTER_PRODUCTS), axis=0)
    places = best, np.arange(len(bands))
    return item_bands[places] * height, items[places]


def pack_taps(
    constants: Mapping[str, FloatArray], *, names: tuple[str, ...], nr: int, inputs: int
) -> FloatArray:
    """Return [ceil(OC / nr), 1 + inputs * 9, nr]: the bias, then the taps of each channel.

    Args:
        constants: By name.
        names: Of a weight [OC, IC, KH, KW], filled up with zeros to 3 x 3, and perhaps of a bias [OC].
        nr: Output channels of a panel.
        inputs: Input channels, those that the weight lacks filled up with zeros.
    """
    weight, *bias = (constants[name] for name in names)
    outputs, channels, *kernel = weight.shape
    padding = [(0, 0), (0, inputs - channels), *((0, KERNEL - side) for side in kernel)]
    taps = np.pad(weight, padding).reshape(outputs, -1)
    return pack_panels(taps, bias[0] if bias else None, groups=1, nr=nr)

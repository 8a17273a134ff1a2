"""Winograd's minimal filtering (kernels/common/winograd_tile.h): its tiles, its memory, its filters."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from codl.catalog.register_tile import pack_panels
from codl.catalog.spec import Parameters, can_fetch, ceil_div, kernel_box
from codl.ir.graph import FLOAT_BYTES, FloatArray, Graph, Node
from codl.ir.ops import Conv2d
from codl.ir.regions import Boxes, IntArray
from codl.machine import DeviceInfo

ALLOWED_WINOGRAD: Mapping[str, tuple[int, ...]] = {
    "TILE": (2, 4),
    "FETCH": (0, 1),
    "MR": (4, 5, 6, 7, 8, 9, 10, 12, 14),
    "NR": (4, 8, 16, 24, 32, 48),
    "VECTOR": (4, 8, 16),
}
"""Allowed values of the parameters; NR is 1 to 3 vectors."""
STEP_PADDING = 16
"""Floats behind each tile's transformed inputs of one point (TILE_STEP)."""
_MOST_VECTORS = 3
"""Vectors of a panel, at most."""
_CACHE_BYTES = 1 << 20
"""Most local memory that a work-group takes: what stays in a core's second-level cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """The tiles that output boxes touch, for many candidates."""

    count: IntArray
    """Tiles of each box in one image."""
    in_row: IntArray
    panel_begin: IntArray
    panel_end: IntArray
    begin: IntArray
    """[count, 4]"""
    end: IntArray

    @property
    def images(self) -> IntArray:
        """Images of each box."""
        return np.asarray(self.end[:, 0] - self.begin[:, 0])

    @property
    def panels(self) -> IntArray:
        """Panels of each box."""
        return self.panel_end - self.panel_begin


def points_of(tile: int) -> int:
    """Return the products of one tile, channel and filter."""
    return (tile + 2) ** 2


def cover(out: Boxes, parameters: Parameters) -> Tiles:
    """Return the tiles of the whole tensor's grid, and the panels, that the boxes touch."""
    tile, nr = parameters["TILE"], parameters["NR"]
    begin, end = kernel_box(out)
    rows, in_row = (ceil_div(end[:, axis], tile) - begin[:, axis] // tile for axis in (1, 2))
    return Tiles(
        count=rows * in_row,
        in_row=in_row,
        panel_begin=begin[:, 3] // nr,
        panel_end=ceil_div(end[:, 3], nr),
        begin=begin,
        end=end,
    )


def fused_floats(channels: int, parameters: Parameters) -> int:
    """Return the local memory of a work-item that keeps its tiles' inputs and products, in floats."""
    width = channels + STEP_PADDING + parameters["NR"]
    return points_of(parameters["TILE"]) * parameters["MR"] * width


def staged_floats(channels: int, tiles: Tiles, parameters: Parameters) -> IntArray:
    """Return the scratch memory of inputs and products at all points, in floats, [count]."""
    width = channels + tiles.panels * parameters["NR"] + 2 * STEP_PADDING
    padded = ceil_div(tiles.count, parameters["MR"]) * parameters["MR"]
    return np.asarray(tiles.images * points_of(parameters["TILE"]) * padded * width)


def fits_node(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters) -> bool:
    """Return whether tiles and vectors of these sizes can compute a node that some sizes can compute."""
    op = node.op
    is_on_grid = isinstance(op, Conv2d) and all(cell % parameters["TILE"] == 0 for cell in op.tile)
    lanes = parameters["VECTOR"]
    is_known = not parameters["FETCH"] or can_fetch(info)
    is_whole = graph.shape(node.inputs[0])[1] % lanes == 0 and parameters["NR"] % lanes == 0
    return is_on_grid and is_known and is_whole and parameters["NR"] <= _MOST_VECTORS * lanes


def fits_fused(inputs: int, parameters: Parameters, info: DeviceInfo) -> bool:
    """Return whether local memory holds the inputs and products of a work-item's tiles."""
    return fits_local(inputs, parameters, most_local_bytes(info))


def most_local_bytes(info: DeviceInfo) -> int:
    """Return the local memory that a work-group may take."""
    return min(info.local_memory_bytes, _CACHE_BYTES)


def fits_local(inputs: int, parameters: Parameters, local_bytes: int) -> bool:
    """Return whether the inputs and products of a work-item's tiles take at most ``local_bytes``."""
    return fused_floats(inputs, parameters) * FLOAT_BYTES <= local_bytes


def iterate_points(tile: int) -> Iterator[float]:
    """Yield the finite interpolation points in the order of the transforms."""
    yield 0.0
    for point in (1.0,) if tile == 2 else (0.5**0.5, 2.0**0.5):
        yield from (point, -point)


def filter_transform(tile: int) -> npt.NDArray[np.float64]:
    """Return the matrix [tile + 2, 3] that takes the three taps of a line to its points.

    Source:
        Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016; Toom-Cook interpolation, the
        factors of the points with the filters. With +-sqrt(1/2) and +-sqrt(2) the error of 512 channels is
        3e-6, with +-1 and +-2 it is 1e-5.
    """
    points = list(iterate_points(tile))
    rows = []
    for index, point in enumerate(points):
        others = [point - other for place, other in enumerate(points) if place != index]
        rows.append([point**power / np.prod(others) for power in range(3)])
    if tile == 2:  # the kernel's transform of inputs has the other sign there
        rows[0] = [-value for value in rows[0]]
    return np.array([*rows, [0.0, 0.0, 1.0]])


def pack_filters(weight: FloatArray, bias: FloatArray | None, *, tile: int, nr: int) -> FloatArray:
    """Return [ceil(OC / nr), 1 + points * IC, nr]: the bias, then the filters of each point.

    Args:
        weight: [OC, IC, 3, 3].
        bias: [OC]; zeros when absent.
        tile: Outputs along each side of a tile.
        nr: Channels of a panel.
    """
    matrix = filter_transform(tile)
    points = np.einsum("ia,ocab,jb->oijc", matrix, weight.astype(np.float64), matrix, optimize=True)
    return pack_panels(points.astype(np.float32).reshape(len(weight), -1), bias, groups=1, nr=nr)

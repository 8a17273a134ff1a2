"""Winograd's minimal filtering (kernels/common/winograd_tile.h): when it pays, its sizes, its filters."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from codl.catalog.register_tile import pack_panels
from codl.catalog.rows.windows import has_constant_weights
from codl.catalog.spec import Parameters, ceil_div, kernel_box
from codl.ir.graph import FLOAT_BYTES, FloatArray, Graph, Node
from codl.ir.ops import Conv2d
from codl.ir.regions import Boxes, IntArray
from codl.machine import DeviceInfo, DeviceKind

ALLOWED_WINOGRAD: Mapping[str, tuple[int, ...]] = {
    "TILE": (2, 4),
    "FETCH": (0, 32),
    "MR": (4, 6, 8, 10, 12, 14),
    "NR": (4, 8, 16, 32),
    "VECTOR": (4, 8, 16),
}
"""Allowed values of the parameters; NR is 1 or 2 vectors."""
STEP_PADDING = 16
"""Floats behind each tile's transformed inputs of one point (TILE_STEP)."""
_HEIGHTS = {4: (4, 6), 8: (4, 6), 16: (8, 10, 12, 14)}
"""By lanes of a vector, tiles of a register tile that is two vectors wide."""
_TRANSFORM_FLOPS = {2: 140, 4: 320}
"""Work of transforming one channel of a tile, in flops of the matrix product that take as long.

Source:
    Instructions of both transforms on AVX-512, at three a cycle against two fused multiply-adds.
"""
_NEAR_COST, _FAR_COST = 3, 10
"""Flops that take as long as a byte of weights takes from the shared cache, and from memory.

Source:
    2 cores of a Zen 5: 540 Gflop/s, 50 GB/s from memory.
"""
_FETCHED_BYTES = 4 << 20
"""Filters from which on they are asked for ahead: less lies in a core's own cache.

Source:
    Time without and with: 9 MB 1.1, 38 MB 1.14 on PoCL and Intel's runtime; 1.2 MB 0.9.
"""
_FETCHING_DRIVERS = ("intel", "pocl")
"""Drivers that know the compiler's way to ask for memory ahead."""
_CACHE_BYTES = 1 << 20
"""Most local memory that a work-group takes: what stays in a core's second-level cache."""
_MOST_FILTER_BYTES = 12 << 20
"""Transformed filters up to which every work-item may read all of them; larger ones leave the shared cache.

Source:
    512 x 512 channels at 28 x 28 (38 MB): 7 ms where every item reads all, 2.7 ms where each is read once.
    256 x 256 at 56 x 56 (9 MB): 2.3 ms and 3.2 ms.
"""


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


def most_staged_tiles(info: DeviceInfo, parameters: Parameters) -> int:
    """Return the tiles whose products of one panel local memory holds, in whole register tiles."""
    floats = min(info.local_memory_bytes, _CACHE_BYTES // 4) // FLOAT_BYTES
    tiles = floats // (points_of(parameters["TILE"]) * parameters["NR"])
    return tiles // parameters["MR"] * parameters["MR"]


def choose_winograd(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    """Return the parameters of the fastest minimal filtering of a node, or None where a plain sum is as fast.

    The choice is made from the work of products and transforms and the bytes of filters. It does not say how
    the work is arranged; `is_fused` does.
    """
    op = node.op
    if info.kind is not DeviceKind.CPU or not isinstance(op, Conv2d) or op.tile == (1, 1):
        return None
    if not has_constant_weights(node, graph):
        return None
    inputs, (images, outputs, *image) = graph.shape(node.inputs[0])[1], graph.shape(node.output)
    lanes = max(4, min(16, info.vector_width))
    while lanes > 4 and (outputs <= lanes // 2 or inputs % lanes):
        lanes //= 2
    if inputs % lanes:
        return None
    pairs = inputs * outputs
    best = 2 * 9 * pairs * images * image[0] * image[1] + _count_reading(9 * pairs)
    chosen: Parameters | None = None
    for tile in (side for side in (4, 2) if all(cell % side == 0 for cell in op.tile)):
        tiles = -(-image[0] // tile) * -(-image[1] // tile)
        sizes = {"TILE": tile, "NR": lanes if outputs <= lanes else 2 * lanes, "VECTOR": lanes}
        height = min(
            _fitting_heights(inputs, sizes, info), key=lambda mr: (-(-tiles // mr) * (2 * mr + 3), -mr)
        )
        filters = points_of(tile) * pairs
        work = 2 * filters * images * -(-tiles // height) * height + _count_reading(filters)
        work += _TRANSFORM_FLOPS[tile] * images * tiles * (inputs + outputs)
        if work < best:
            is_fetched = filters * FLOAT_BYTES >= _FETCHED_BYTES and info.driver in _FETCHING_DRIVERS
            best, chosen = work, {**sizes, "MR": height, "FETCH": 32 if is_fetched else 0}
    return chosen


def _count_reading(weights: int) -> int:
    """Return the work of reading so many weights, in flops that take as long."""
    size = weights * FLOAT_BYTES
    return size * (_NEAR_COST if size <= _MOST_FILTER_BYTES else _FAR_COST)


def is_fused(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters) -> bool:
    """Return whether a work-item should transform its own inputs and then read all filters."""
    inputs, outputs = graph.shape(node.inputs[0])[1], graph.shape(node.output)[1]
    filter_bytes = points_of(parameters["TILE"]) * inputs * outputs * FLOAT_BYTES
    return filter_bytes <= _MOST_FILTER_BYTES and fits_fused(inputs, parameters, info)


def _fitting_heights(inputs: int, sizes: Parameters, info: DeviceInfo) -> tuple[int, ...]:
    """Return the register tiles whose inputs and products local memory holds; all where it holds none."""
    heights = _HEIGHTS[sizes["VECTOR"]]
    return tuple(mr for mr in heights if fits_fused(inputs, {**sizes, "MR": mr}, info)) or heights


def fits_node(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters) -> bool:
    """Return whether tiles and vectors of these sizes can compute a node that some sizes can compute."""
    op = node.op
    is_on_grid = isinstance(op, Conv2d) and all(cell % parameters["TILE"] == 0 for cell in op.tile)
    lanes = parameters["VECTOR"]
    is_known = not parameters["FETCH"] or info.driver in _FETCHING_DRIVERS
    is_whole = graph.shape(node.inputs[0])[1] % lanes == 0 and parameters["NR"] % lanes == 0
    return is_on_grid and is_known and is_whole


def fits_fused(inputs: int, parameters: Parameters, info: DeviceInfo) -> bool:
    """Return whether local memory holds the inputs and products of a work-item's tiles."""
    return fused_floats(inputs, parameters) * FLOAT_BYTES <= min(info.local_memory_bytes, _CACHE_BYTES)


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

"""Winograd's minimal filtering (kernels/common/winograd_tile.h): its tiles, its memory, its filters."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from codl.catalog.register_tile import pack_panels
from codl.catalog.spec import Parameters, can_fetch, ceil_div, kernel_box
from codl.ir.graph import FLOAT_BYTES, FloatArray, Graph, Node
from codl.ir.ops import Conv2d, Pair
from codl.ir.regions import Boxes, IntArray
from codl.machine import DeviceInfo

ALLOWED_WINOGRAD: Mapping[str, tuple[int, ...]] = {
    "TILE": (2, 3, 4),
    "FETCH": (0, 1),
    "MR": (4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14),
    "NR": (4, 8, 16, 24, 32, 48),
    "VECTOR": (4, 8, 16),
}
"""Allowed values of the parameters; NR is 1 to 3 vectors."""
STEP_PADDING = 16
"""Floats behind each tile's transformed inputs of one point (TILE_STEP)."""
_MOST_FILLING = 0.1
"""Share of the input channels that may be added to have whole vectors of them."""
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
    vectors: IntArray
    """Vectors of channels that each box has some of."""
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


def part_of(tile: int) -> int:
    """Return the rows and columns of a part of the window, which is transformed by itself (PART)."""
    return 3 + (tile == 3)


def points_of(tile: int) -> int:
    """Return the products of one tile, channel and filter of a part of the window."""
    return (tile + part_of(tile) - 1) ** 2


def inputs_of(node: Node, graph: Graph, lanes: int) -> int:
    """Return the input channels, filled up to whole vectors."""
    return -(-graph.shape(node.inputs[0])[1] // lanes) * lanes


def are_filling(inputs: int, lanes: int) -> bool:
    """Return whether input channels fill vectors of so many lanes, or almost."""
    return -inputs % lanes <= _MOST_FILLING * inputs


def count_parts(op: Conv2d, tile: int) -> int:
    """Return the parts of the window: of the taps that a stride reaches from each of its phases."""
    sides = zip(op.kernel, op.stride, strict=True)
    return prod(stride * -(-kernel // (stride * part_of(tile))) for kernel, stride in sides)


def depth_of(node: Node, graph: Graph, *, tile: int, lanes: int) -> int:
    """Return the sums of one point: input channels, once for each part of the window."""
    assert isinstance(node.op, Conv2d)
    return inputs_of(node, graph, lanes) * count_parts(node.op, tile)


def taps_of(node: Node, graph: Graph) -> int:
    """Return the products of an output in a plain sum."""
    return prod(graph.shape(node.inputs[1])[1:])


def cover(out: Boxes, parameters: Parameters) -> Tiles:
    """Return the tiles of the whole tensor's grid, and the panels, that the boxes touch."""
    tile, nr, lanes = parameters["TILE"], parameters["NR"], parameters["VECTOR"]
    begin, end = kernel_box(out)
    rows, in_row = (ceil_div(end[:, axis], tile) - begin[:, axis] // tile for axis in (1, 2))
    return Tiles(
        count=rows * in_row,
        in_row=in_row,
        panel_begin=begin[:, 3] // nr,
        panel_end=ceil_div(end[:, 3], nr),
        vectors=ceil_div(end[:, 3], lanes) - begin[:, 3] // lanes,
        begin=begin,
        end=end,
    )


def fused_floats(depth: int, parameters: Parameters) -> int:
    """Return the local memory of a work-item that keeps its tiles' inputs and products, in floats."""
    width = depth + STEP_PADDING + parameters["NR"]
    return points_of(parameters["TILE"]) * parameters["MR"] * width


def staged_floats(depth: int, tiles: Tiles, parameters: Parameters) -> IntArray:
    """Return the scratch memory of inputs and products at all points, in floats, [count]."""
    width = depth + tiles.panels * parameters["NR"] + 2 * STEP_PADDING
    padded = ceil_div(tiles.count, parameters["MR"]) * parameters["MR"]
    return np.asarray(tiles.images * points_of(parameters["TILE"]) * padded * width)


def are_on_grid(op: Conv2d, tile: int) -> bool:
    """Return whether the operator may be computed in tiles of so many rows and columns."""
    return all(cell % tile == 0 for cell in op.tile)


def fits_node(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters) -> bool:
    """Return whether tiles and vectors of these sizes can compute a node that some sizes can compute."""
    op = node.op
    is_on_grid = isinstance(op, Conv2d) and are_on_grid(op, parameters["TILE"])
    lanes = parameters["VECTOR"]
    is_known = not parameters["FETCH"] or can_fetch(info)
    is_whole = are_filling(graph.shape(node.inputs[0])[1], lanes) and parameters["NR"] % lanes == 0
    return is_on_grid and is_known and is_whole and parameters["NR"] <= _MOST_VECTORS * lanes


def most_local_bytes(info: DeviceInfo) -> int:
    """Return the local memory that a work-group may take."""
    return min(info.local_memory_bytes, _CACHE_BYTES)


def fits_local(depth: int, parameters: Parameters, local_bytes: int) -> bool:
    """Return whether the inputs and products of a work-item's tiles take at most ``local_bytes``."""
    return fused_floats(depth, parameters) * FLOAT_BYTES <= local_bytes


def iterate_points(tile: int) -> Iterator[float]:
    """Yield the finite interpolation points in the order of the transforms."""
    yield 0.0
    for point in (1.0,) if tile == 2 else (0.5**0.5, 2.0**0.5):
        yield from (point, -point)


def filter_transform(tile: int) -> npt.NDArray[np.float64]:
    """Return the matrix [points of a line, taps of a part] that takes a line of taps to its points.

    Source:
        Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016; Toom-Cook interpolation, the
        factors of the points with the filters. With +-sqrt(1/2) and +-sqrt(2) the error of 512 channels is
        3e-6, with +-1 and +-2 it is 1e-5.
    """
    points = list(iterate_points(tile))
    rows = []
    for index, point in enumerate(points):
        others = [point - other for place, other in enumerate(points) if place != index]
        rows.append([point**power / np.prod(others) for power in range(part_of(tile))])
    if tile == 2:  # the kernel's transform of inputs has the other sign there
        rows[0] = [-value for value in rows[0]]
    return np.array([*rows, [*(part_of(tile) - 1) * [0.0], 1.0]])


def pack_filters(
    constants: Mapping[str, FloatArray],
    *,
    names: tuple[str, ...],
    tile: int,
    nr: int,
    inputs: int,
    stride: Pair = (1, 1),
) -> FloatArray:
    """Return [ceil(OC / nr), 1 + points * depth, nr]: the bias, then the filters of each point, part by part.

    Args:
        constants: By name.
        names: Of a weight [OC, IC, KH, KW], filled up with zeros to whole parts, and perhaps of a bias [OC].
        tile: Outputs along each side of a tile.
        nr: Output channels of a panel.
        inputs: Input channels, those that the weight lacks filled up with zeros.
        stride: Of the window; taps of one phase, every stride-th one, are parts of their own.
    """
    weight, *bias = (constants[name] for name in names)
    outputs, channels, *kernel = weight.shape
    part, (down, right) = part_of(tile), stride
    sides = ((0, -side % (part * step)) for side, step in zip(kernel, stride, strict=True))
    whole = np.pad(weight.astype(np.float64), [(0, 0), (0, inputs - channels), *sides])
    parts = whole.reshape(*whole.shape[:2], -1, part, down, whole.shape[3] // (part * right), part, right)
    matrix = filter_transform(tile)
    points = np.einsum("ia,ocyapxbq,jb->oijypxqc", matrix, parts, matrix, optimize=True)
    filters = points.astype(np.float32).reshape(outputs, -1)
    return pack_panels(filters, bias[0] if bias else None, groups=1, nr=nr)

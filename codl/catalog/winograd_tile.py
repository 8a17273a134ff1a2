"""Winograd's minimal filtering (kernels/common/winograd_tile.h): when it pays, its sizes, its filters."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import inf

import numpy as np
import numpy.typing as npt

from codl.catalog.register_tile import pack_panels
from codl.catalog.rows.windows import has_constant_weights
from codl.catalog.spec import Parameters, can_fetch, ceil_div, kernel_box
from codl.ir.graph import FLOAT_BYTES, FloatArray, Graph, Node
from codl.ir.ops import Conv2d
from codl.ir.regions import Boxes, IntArray
from codl.machine import DeviceInfo, DeviceKind

ALLOWED_WINOGRAD: Mapping[str, tuple[int, ...]] = {
    "TILE": (2, 4),
    "FETCH": (0, 1),
    "MR": (4, 6, 7, 8, 9, 10, 12, 14),
    "NR": (4, 8, 16, 32, 48),
    "VECTOR": (4, 8, 16),
}
"""Allowed values of the parameters; NR is 1 to 3 vectors."""
STEP_PADDING = 16
"""Floats behind each tile's transformed inputs of one point (TILE_STEP)."""
_HEIGHTS = {
    (4, 1): (4, 6),
    (4, 2): (4, 6),
    (8, 1): (4, 6),
    (8, 2): (4, 6),
    (16, 1): (8, 10, 12, 14),
    (16, 2): (7, 8, 10, 12, 14),
    (16, 3): (7, 8, 9),
}
"""By lanes of a vector and vectors of a panel, tiles of a register tile."""
_TRANSFORM_FLOPS = {2: 140, 4: 320}
"""Work of transforming one channel of a tile, in flops of the matrix product that take as long.

Source:
    Instructions of both transforms on AVX-512, at three a cycle against two fused multiply-adds.
"""
_READ_COST, _FAR_COST, _MOVED_COST = 1.5, 4.0, 15.0
"""Flops that take as long as reading a byte of filters, the same where every pass over them misses the shared
cache, and as moving a byte of transformed inputs or products out to memory and back.

Source:
    2 cores of an Emerald Rapids, 235 Gflop/s: 14 shapes of VGG-16, YOLOv2 and ResNet-50, fused and staged.
    There filters that miss the shared cache take 2.5; 2 cores of a Zen 5, 540 Gflop/s, read 50 GB/s.
"""
_PLAIN_COST = 1.5
"""What a product takes in a plain sum of windows, in that of one in minimal filtering.

Source:
    As above: 7 x 7 outputs of 160 to 512 channels, which take 0.7 to 0.85 of the time in tiles of 2.
"""
_FUSED_VECTORS = 2
"""Vectors of a panel up to which a fused register tile has enough tiles: each passes over all filters."""
_STEP_COST = 7
"""Work of a step of K beside its products, in products of a vector."""
_STAGED_GAIN = {1: 1.0, 2: 1.0, 3: 0.9}
"""By vectors of a panel, what a product of a staged register tile takes.

Source:
    As above: 9 x 48 takes 0.79 to 1.0 of the time of 10 x 32 on Intel's driver, 0.9 to 0.95 on PoCL.
"""
_FETCHED_BYTES = 512 << 10
"""Filters from which on they are asked for ahead: less lies in a core's own cache.

Source:
    As above, time without over that with: 0.6 MB 1.0, 1 to 10 MB 1.1, 38 MB 1.2, 67 MB up to 1.9.
"""
_CACHE_BYTES = 1 << 20
"""Most local memory that a work-group takes: what stays in a core's second-level cache."""
_MOST_MOVED = (1 << 31) - 1
"""Most floats of scratch memory: kernels count them in 32 bits."""
_MOST_FILTER_BYTES = 12 << 20
"""Transformed filters up to which passes over them stay in the shared cache."""


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


def choose_winograd(node: Node, graph: Graph, info: DeviceInfo) -> Mapping[bool, Parameters]:
    """Return the parameters of the fastest minimal filtering, fused (True) and staged, the faster first.

    Empty where a plain sum is as fast; an arrangement that local memory does not hold is left out. The choice
    is made from the work of products and transforms and the bytes that pass through caches.
    """
    op = node.op
    if info.kind is not DeviceKind.CPU or not isinstance(op, Conv2d) or op.tile == (1, 1):
        return {}
    if not has_constant_weights(node, graph):
        return {}
    inputs, (images, outputs, *image) = graph.shape(node.inputs[0])[1], graph.shape(node.output)
    lanes = max(4, min(16, info.vector_width))
    while lanes > 4 and (outputs <= lanes // 2 or inputs % lanes):
        lanes //= 2
    if inputs % lanes:
        return {}
    sides = tuple(side for side in (4, 2) if all(cell % side == 0 for cell in op.tile))
    layer = _Layer(
        lanes=lanes,
        inputs=inputs,
        outputs=outputs,
        images=images,
        image=(image[0], image[1]),
        sides=sides,
        is_fetching=can_fetch(info),
        local_bytes=min(info.local_memory_bytes, _CACHE_BYTES),
    )
    return {is_fused: dict(parameters) for is_fused, parameters in _choose_sizes(layer).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """What the sizes of minimal filtering depend on."""

    lanes: int
    inputs: int
    outputs: int
    images: int
    image: tuple[int, int]
    """Rows and columns of the output."""
    sides: tuple[int, ...]
    """Tiles that the operator may be computed in."""
    is_fetching: bool
    """Whether the device can ask for memory ahead."""
    local_bytes: int
    """Of local memory that a work-group may take."""


@lru_cache(maxsize=1024)
def _choose_sizes(layer: _Layer) -> Mapping[bool, Parameters]:
    lanes, inputs, outputs, images = layer.lanes, layer.inputs, layer.outputs, layer.images
    (rows, columns), weights = layer.image, 9 * layer.inputs * layer.outputs
    plain = 2 * weights * images * rows * columns * _PLAIN_COST + _READ_COST * FLOAT_BYTES * weights
    best: dict[bool, tuple[float, Parameters]] = {}
    for tile in layer.sides:
        tiles = -(-rows // tile) * -(-columns // tile)
        filters = points_of(tile) * inputs * outputs
        is_fetched = filters * FLOAT_BYTES >= _FETCHED_BYTES and layer.is_fetching
        transforms = _TRANSFORM_FLOPS[tile] * images * tiles * (inputs + outputs)
        for vectors, height in _iterate_sizes(lanes, outputs):
            sizes = {"MR": height, "NR": vectors * lanes, "VECTOR": lanes}
            parameters = {"TILE": tile, "FETCH": int(is_fetched), **sizes}
            blocks = images * -(-tiles // height)
            steps = points_of(tile) * inputs * blocks * -(-outputs // sizes["NR"])
            products = 2 * lanes * steps * (height * vectors + _STEP_COST)
            moved = _count_staged(filters, blocks * height, inputs + outputs, tile)
            work = {False: products * _STAGED_GAIN[vectors] + moved}
            if vectors <= _FUSED_VECTORS and _fits_bytes(inputs, parameters, layer.local_bytes):
                work[True] = products + _count_fused(filters, blocks)
            for is_fused, total in work.items():
                if total + transforms < best.get(is_fused, (plain,))[0]:
                    best[is_fused] = total + transforms, parameters
    order = sorted(best, key=lambda is_fused: (best[is_fused][0], not is_fused))
    return {is_fused: best[is_fused][1] for is_fused in order}


def _iterate_sizes(lanes: int, outputs: int) -> Iterator[tuple[int, int]]:
    """Yield vectors of a panel and tiles of a register tile; panels wider than all outputs are left out."""
    for (width, vectors), heights in _HEIGHTS.items():
        if width == lanes and (vectors == 1) == (outputs <= lanes):
            yield from ((vectors, height) for height in heights)


def _count_fused(filters: int, passes: int) -> float:
    """Return the work of reading all filters in each pass, in flops that take as long."""
    size = filters * FLOAT_BYTES
    return passes * size * (_READ_COST if size <= _MOST_FILTER_BYTES else _FAR_COST)


def _count_staged(filters: int, tiles: int, channels: int, tile: int) -> float:
    """Return the work of reading all filters once, and moving inputs and products of all points."""
    moved = points_of(tile) * tiles * (channels + 2 * STEP_PADDING)
    if moved > _MOST_MOVED:
        return inf
    return FLOAT_BYTES * (_READ_COST * filters + _MOVED_COST * moved)


def fits_node(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters) -> bool:
    """Return whether tiles and vectors of these sizes can compute a node that some sizes can compute."""
    op = node.op
    is_on_grid = isinstance(op, Conv2d) and all(cell % parameters["TILE"] == 0 for cell in op.tile)
    lanes = parameters["VECTOR"]
    is_known = not parameters["FETCH"] or can_fetch(info)
    is_whole = graph.shape(node.inputs[0])[1] % lanes == 0 and parameters["NR"] % lanes == 0
    return is_on_grid and is_known and is_whole


def fits_fused(inputs: int, parameters: Parameters, info: DeviceInfo) -> bool:
    """Return whether local memory holds the inputs and products of a work-item's tiles."""
    return _fits_bytes(inputs, parameters, min(info.local_memory_bytes, _CACHE_BYTES))


def _fits_bytes(inputs: int, parameters: Parameters, local_bytes: int) -> bool:
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

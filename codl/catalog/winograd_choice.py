"""When Winograd's minimal filtering pays, and by which sizes: the work of products, transforms and memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from codl.catalog.gemm_tile import FEW_REGISTERS
from codl.catalog.rows.windows import has_constant_weights, is_narrow
from codl.catalog.spec import Parameters, can_fetch, ceil_div
from codl.catalog.winograd_costs import FAR_MOVED_COST, FEW, MANY, MOVED_COST, READ_COST, Costs
from codl.catalog.winograd_layer import Layer, list_sizes
from codl.catalog.winograd_streamed import (
    FILTER_PRODUCTS,
    KERNEL,
    MOST_REGISTERS,
    TAPS,
    choose_depth,
    most_tiles,
    share_tiles,
)
from codl.catalog.winograd_tile import (
    STEP_PADDING,
    are_filling,
    are_on_grid,
    depth_of,
    fits_local,
    most_local_bytes,
    points_of,
    taps_of,
)
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.ops import Conv2d
from codl.ir.regions import IntArray
from codl.machine import DeviceInfo, DeviceKind


class Arrangement(StrEnum):
    """In which launches minimal filtering is computed."""

    FUSED = "fused"
    """One: a work-item transforms its inputs, and passes over all filters."""
    STREAMED = "streamed"
    """Two: inputs are transformed first; filters are transformed when they are read."""
    STAGED = "staged"
    """Three: all inputs are transformed, multiplied point by point, and transformed back."""


_ORDER = {way: place for place, way in enumerate(Arrangement)}
"""Of arrangements that take as long."""
_TRANSFORM_FLOPS = {2: 140, 3: 300, 4: 320}
"""Work of transforming one channel of a tile, in flops of the matrix product that take as long.

Source:
    Instructions of both transforms on AVX-512, at three a cycle against two fused multiply-adds.
"""
_PLAIN_COST = 1.5
"""What a product takes in a plain sum of windows, in that of one in minimal filtering.

Source:
    As above: 7 x 7 outputs of 160 to 512 channels, which take 0.7 to 0.85 of the time in tiles of 2.
"""
_FUSED_VECTORS = 2
"""Vectors of a panel up to which a fused register tile has enough tiles: each passes over all filters."""
_LEAST_STEP = 10
"""Products in flight below which a step of a register tile takes no less.

Source:
    2 cores of a Zen 3, 14 x 14 of 256 and 512 channels, staged: 4 x 16 takes 1.13 of the time of 4 x 24.
"""
_LEAST_STREAMED_STEP = {2: 10, 4: 8}
"""By sides of tiles, the same where filters are transformed when they are read.

Source:
    As above, both CPU drivers, 13 x 13 and 14 x 14 of 256 to 512 channels in tiles of 4, 4 x 16 against 6 x
    16 and 4 x 24: 0.88 to 0.99; 7 x 7 of 224 and 320 in tiles of 2: 1.02 to 1.15.
"""
_FETCHED_BYTES = 512 << 10
"""Bytes of filters from which they are prefetched: fewer lie in a core's own cache.

Source:
    As above, time without over that with: 0.6 MB 1.0, 1 to 10 MB 1.1, 38 MB 1.2, 67 MB up to 1.9.
"""
_SMALL_IMAGE = 20
"""Sides of an output image from which on tiles of 4 always pay."""
_MOST_MOVED = 1 << 27
"""Most floats of scratch memory: half a GiB, which small boards still lend at once."""
_MOST_FILTER_BYTES = 12 << 20
"""Transformed filters up to which passes over them stay in the shared cache."""


def choose_winograd(node: Node, graph: Graph, info: DeviceInfo) -> Mapping[Arrangement, Parameters]:
    """Return the parameters of the fastest minimal filtering in each arrangement, the fastest first.

    Empty where a plain sum is as fast; an arrangement that local memory does not hold is left out. The choice
    is made from the work of products and transforms and the bytes that pass through caches.
    """
    op = node.op
    if info.kind is not DeviceKind.CPU or not isinstance(op, Conv2d) or op.tile == (1, 1):
        return {}
    if not has_constant_weights(node, graph) or is_narrow(node, graph):
        return {}
    inputs, (images, outputs, *image) = graph.shape(node.inputs[0])[1], graph.shape(node.output)
    lanes = max(4, min(16, info.vector_width))
    while lanes > 4 and (outputs <= lanes // 2 or not are_filling(inputs, lanes)):
        lanes //= 2
    costs = FEW if info.vector_registers <= FEW_REGISTERS else MANY
    is_large = min(image) >= _SMALL_IMAGE or inputs * outputs <= costs.most_filters
    sides = [side for side in (4, 3, 2) if (side < 4 or is_large) and are_on_grid(op, side)]
    layer = Layer(
        lanes=lanes,
        taps=taps_of(node, graph),
        outputs=outputs,
        images=images,
        image=(image[0], image[1]),
        depths=tuple((side, depth_of(node, graph, tile=side, lanes=lanes)) for side in sides),
        costs=costs,
        may_stream=max(op.kernel) <= KERNEL and info.vector_registers <= MOST_REGISTERS,
        is_fetching=can_fetch(info),
        local_bytes=most_local_bytes(info),
        units=info.units,
    )
    return {way: dict(parameters) for way, parameters in _choose_sizes(layer).items()}


@lru_cache(maxsize=1024)
def _choose_sizes(layer: Layer) -> Mapping[Arrangement, Parameters]:
    lanes, outputs, images = layer.lanes, layer.outputs, layer.images
    (rows, columns), weights = layer.image, layer.taps * layer.outputs
    costs = layer.costs
    read = costs.far_read if weights * FLOAT_BYTES >= costs.far_bytes else READ_COST
    plain = 2 * weights * images * rows * columns * _PLAIN_COST + read * FLOAT_BYTES * weights
    best: dict[Arrangement, tuple[float, Parameters]] = {}

    def weigh(way: Arrangement, total: float, parameters: Parameters) -> None:
        if total < (best[way][0] if way in best else plain):
            best[way] = total, parameters

    streamed: list[_Amounts] = []
    for tile, depth in layer.depths:
        tiles = -(-rows // tile) * -(-columns // tile)
        points, output_vectors = points_of(tile), -(-outputs // lanes)
        filters = points * depth * outputs
        is_far = filters * FLOAT_BYTES >= _FETCHED_BYTES
        transforms = _TRANSFORM_FLOPS[tile] * images * tiles * (depth + outputs)
        reading = transforms + FLOAT_BYTES * read * filters
        for parameters in list_sizes(costs, lanes, outputs <= lanes, tile, is_far and layer.is_fetching):
            height, vectors = parameters["MR"], parameters["NR"] // lanes
            if vectors > output_vectors:
                continue
            blocks = images * -(-tiles // height)
            step = 2 * lanes * points * depth * blocks
            padded = points * blocks * height * (depth + outputs + 2 * STEP_PADDING)
            taken = (height * vectors + costs.staged_step) * costs.staged_gain[vectors]
            staged = step * taken * _count_panels(output_vectors, height, vectors)
            weigh(Arrangement.STAGED, staged + _count_moved(padded, costs) + reading, parameters)
            if vectors <= _FUSED_VECTORS and fits_local(depth, parameters, layer.local_bytes):
                taken = step * (height * vectors + costs.step) * -(-output_vectors // vectors)
                fused = taken + _count_fused(filters, blocks, costs, read)
                weigh(Arrangement.FUSED, fused + transforms, parameters)
        if layer.may_stream and is_far:  # others stay transformed in a core's own cache
            streamed.append(_Amounts(tile=tile, depth=depth, tiles=tiles, transforms=transforms))
    if streamed:
        weigh(Arrangement.STREAMED, *_choose_streamed(layer, streamed, read))
    order = sorted(best, key=lambda way: (best[way][0], _ORDER[way]))
    return {way: best[way][1] for way in order}


def _count_panels(output_vectors: int, height: int, vectors: int) -> float:
    """Return the panels of staged products that take as long: of the last one, the vectors that there are."""
    full, rest = divmod(output_vectors, vectors)
    return full + (max(height * rest, _LEAST_STEP) / (height * vectors) if rest else 0)


def _count_fused(filters: int, passes: int, costs: Costs, read: float) -> float:
    """Return the work of reading all filters in each pass, in flops that take as long."""
    size = filters * FLOAT_BYTES
    is_far = size > _MOST_FILTER_BYTES
    return size * (max(read, costs.first_read[is_far]) + (passes - 1) * costs.next_read[is_far])


def _count_moved(floats: int, costs: Costs) -> float:
    """Return the work of moving so many floats out to scratch memory and back."""
    if floats > _MOST_MOVED:
        return inf
    far = max(floats - costs.near_moved, 0)
    return FLOAT_BYTES * (MOVED_COST * (floats - far) + FAR_MOVED_COST * far)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Amounts:
    """What a layer does in tiles of some side."""

    tile: int
    depth: int
    """Sums of one point."""
    tiles: int
    """Of an image."""
    transforms: int
    """Work of transforming inputs and results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Streamed:
    """Sizes of filters that are transformed when they are read: [count] each, as arrays."""

    each: Sequence[Parameters]
    arrays: Mapping[str, Any]
    """By name."""
    vectors: IntArray
    points: IntArray
    sides: IntArray
    """Place among the sides of tiles."""
    steps: npt.NDArray[np.float64]
    """Work of a step of K, with what passes through memory for it."""


@lru_cache(maxsize=64)
def _list_streamed(
    costs: Costs, lanes: int, is_narrow: bool, tiles: tuple[int, ...], is_fetching: bool
) -> _Streamed:
    """Return the sizes that tiles of some sides may be computed in; other arguments as in `list_sizes`."""
    each = [
        {**sizes, "DEPTH": choose_depth(tile, sizes["NR"])}
        for tile in tiles
        for sizes in list_sizes(costs, lanes, is_narrow, tile, is_fetching)
    ]
    arrays: dict[str, Any] = {name: np.array([sizes[name] for sizes in each]) for name in each[0]}
    height, vectors = arrays["MR"], arrays["NR"] // lanes
    least = np.array([_LEAST_STREAMED_STEP[sizes["TILE"]] for sizes in each])
    return _Streamed(
        each=each,
        arrays=arrays,
        vectors=vectors,
        points=np.asarray(points_of(arrays["TILE"])),
        sides=np.searchsorted(-np.array(tiles), -arrays["TILE"]),
        steps=np.maximum(height * vectors, least) + 2 * height * vectors / arrays["DEPTH"] + costs.step,
    )


def _choose_streamed(layer: Layer, amounts: Sequence[_Amounts], read: float) -> tuple[float, Parameters]:
    """Return the least work of filters that are transformed when they are read, and its sizes.

    Products, transforms of filters and inputs, reading filters, and moving the inputs of all points. Infinite
    where local memory is too small. ``amounts`` are sorted by the side of tiles, the largest first.
    """
    lanes, costs, outputs = layer.lanes, layer.costs, layer.outputs
    known = _list_streamed(
        costs, lanes, outputs <= lanes, tuple([one.tile for one in amounts]), layer.is_fetching
    )
    told = np.array([(one.depth, one.tiles, one.transforms) for one in amounts])
    depths, tiles, transforms = told.take(known.sides, axis=0).T
    sizes, vectors, points = known.arrays, known.vectors, known.points
    height = sizes["MR"]
    bands, panels = ceil_div(tiles, height), -(-outputs // sizes["NR"])
    item_tiles, items = share_tiles(
        bands, layer.images * panels, sizes, local_bytes=layer.local_bytes, units=layer.units
    )
    products = item_tiles / height * known.steps + FILTER_PRODUCTS * vectors
    work = 2 * lanes * points * depths * products * items * layer.units
    work += FLOAT_BYTES * read * depths * TAPS * outputs + transforms
    moved = (points * layer.images * bands * height * depths).tolist()
    fits = (most_tiles(sizes, layer.local_bytes) >= height).tolist()
    totals = [
        us + _count_moved(floats, costs) if is_fitting else inf
        for us, floats, is_fitting in zip(work.tolist(), moved, fits, strict=True)
    ]
    least = min(totals)
    return least, known.each[totals.index(least)]

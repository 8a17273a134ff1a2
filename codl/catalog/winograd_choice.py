"""When Winograd's minimal filtering pays, and by which sizes: the work of products, transforms and memory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import inf

from codl.catalog.gemm_tile import FEW_REGISTERS
from codl.catalog.rows.windows import has_constant_weights
from codl.catalog.spec import Parameters, can_fetch
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
from codl.machine import DeviceInfo, DeviceKind

_TRANSFORM_FLOPS = {2: 140, 3: 300, 4: 320}
"""Work of transforming one channel of a tile, in flops of the matrix product that take as long.

Source:
    Instructions of both transforms on AVX-512, at three a cycle against two fused multiply-adds.
"""
_READ_COST, _MOVED_COST = 1.5, 15.0
"""Flops that take as long as reading a byte of filters once, and as moving a byte of transformed inputs or
products out to memory and back.

Source:
    2 cores of an Emerald Rapids, 235 Gflop/s: 14 shapes of VGG-16, YOLOv2 and ResNet-50, fused and staged.
    2 cores of a Zen 5, 540 Gflop/s, read 50 GB/s.
"""
_PLAIN_COST = 1.5
"""What a product takes in a plain sum of windows, in that of one in minimal filtering.

Source:
    As above: 7 x 7 outputs of 160 to 512 channels, which take 0.7 to 0.85 of the time in tiles of 2.
"""
_FUSED_VECTORS = 2
"""Vectors of a panel up to which a fused register tile has enough tiles: each passes over all filters."""
_FETCHED_BYTES = 512 << 10
"""Filters from which on they are asked for ahead: less lies in a core's own cache.

Source:
    As above, time without over that with: 0.6 MB 1.0, 1 to 10 MB 1.1, 38 MB 1.2, 67 MB up to 1.9.
"""
_SMALL_IMAGE = 20
"""Sides of an output image from which on tiles of 4 always pay."""
_MOST_MOVED = 1 << 27
"""Most floats of scratch memory: half a GiB, which small boards still lend at once."""
_MOST_FILTER_BYTES = 12 << 20
"""Transformed filters up to which passes over them stay in the shared cache."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Costs:
    """What differs between processors of many vector registers and of 16."""

    heights: Mapping[tuple[int, int], tuple[int, ...]]
    """By lanes of a vector and vectors of a panel, tiles of a register tile."""
    step: int
    """Work of a step of K beside its products, in products of a vector."""
    staged_gain: Mapping[int, float]
    """By vectors of a panel, what a product of a staged register tile takes."""
    first_read: tuple[float, float]
    """Flops that take as long as reading a byte of filters in a fused launch's first pass over them: where
    passes stay in the shared cache, and where not.
    """
    next_read: tuple[float, float]
    """The same for its other passes."""
    most_filters: float
    """Filters, inputs times outputs, up to which tiles of 4 pay on a small image.

    Source:
        14 x 14, time of tiles of 2 over that of 4: 256 x 256 filters 1.35 on 2 cores of a Zen 5, 512 x 512
        1.05 there and 1.1 to 1.2 on 2 cores of an Emerald Rapids; 13 x 13, 1024 x 1024 filters 0.9, but
        1.25 on 2 cores of a Zen 3, where products cost more.
    """


_MANY = _Costs(
    heights={
        (4, 1): (4, 6),
        (4, 2): (4, 6),
        (8, 1): (4, 6),
        (8, 2): (4, 6),
        (16, 1): (8, 10, 12, 14),
        (16, 2): (7, 8, 10, 12, 14),
        (16, 3): (7, 8, 9),
    },
    step=7,
    staged_gain={1: 1.0, 2: 1.0, 3: 0.9},
    first_read=(_READ_COST, 4.0),
    next_read=(_READ_COST, 4.0),
    most_filters=1 << 18,
)
"""Source:
    As `_READ_COST`. Staged, 9 x 48 takes 0.79 to 1.0 of the time of 10 x 32 on Intel's driver, 0.9 to 0.95 on
    PoCL. Filters that miss the shared cache take 2.5 flops on 2 cores of a Zen 5.
"""
_FEW = _Costs(
    heights={(4, 1): (4, 6), (4, 2): (4, 6), (8, 1): (4, 6), (8, 2): (4, 5, 6), (8, 3): (4,)},
    step=2,
    staged_gain={1: 1.0, 2: 1.0, 3: 1.0},
    first_read=(_READ_COST, _READ_COST),
    next_read=(_READ_COST / 2, _READ_COST / 2),
    most_filters=inf,
)
"""Source:
    2 cores of a Zen 3, both CPU drivers, 19 shapes of the benchmark networks, fused and staged, 4 x 16 to
    6 x 16 and 4 x 24. What is chosen takes 1.02 and 1.01 times as long as the best, by the other costs 1.06
    and 1.10.
"""


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
    while lanes > 4 and (outputs <= lanes // 2 or not are_filling(inputs, lanes)):
        lanes //= 2
    costs = _FEW if info.vector_registers <= FEW_REGISTERS else _MANY
    is_large = min(image) >= _SMALL_IMAGE or inputs * outputs <= costs.most_filters
    sides = [side for side in (4, 3, 2) if (side < 4 or is_large) and are_on_grid(op, side)]
    layer = _Layer(
        lanes=lanes,
        taps=taps_of(node, graph),
        outputs=outputs,
        images=images,
        image=(image[0], image[1]),
        depths=tuple((side, depth_of(node, graph, tile=side, lanes=lanes)) for side in sides),
        costs=costs,
        is_fetching=can_fetch(info),
        local_bytes=most_local_bytes(info),
    )
    return {is_fused: dict(parameters) for is_fused, parameters in _choose_sizes(layer).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """What the sizes of minimal filtering depend on."""

    lanes: int
    taps: int
    """Products of an output in a plain sum."""
    outputs: int
    images: int
    image: tuple[int, int]
    """Rows and columns of the output."""
    depths: tuple[tuple[int, int], ...]
    """Tiles that the operator may be computed in, and the sums of one point of each."""
    costs: _Costs
    is_fetching: bool
    """Whether the device can ask for memory ahead."""
    local_bytes: int
    """Of local memory that a work-group may take."""


@lru_cache(maxsize=1024)
def _choose_sizes(layer: _Layer) -> Mapping[bool, Parameters]:
    lanes, outputs, images = layer.lanes, layer.outputs, layer.images
    (rows, columns), weights = layer.image, layer.taps * layer.outputs
    plain = 2 * weights * images * rows * columns * _PLAIN_COST + _READ_COST * FLOAT_BYTES * weights
    costs = layer.costs
    best: dict[bool, tuple[float, Parameters]] = {}
    for tile, depth in layer.depths:
        tiles = -(-rows // tile) * -(-columns // tile)
        filters = points_of(tile) * depth * outputs
        is_fetched = filters * FLOAT_BYTES >= _FETCHED_BYTES and layer.is_fetching
        transforms = _TRANSFORM_FLOPS[tile] * images * tiles * (depth + outputs)
        for vectors, height in _iterate_sizes(costs, lanes, outputs):
            sizes = {"MR": height, "NR": vectors * lanes, "VECTOR": lanes}
            parameters = {"TILE": tile, "FETCH": int(is_fetched), **sizes}
            blocks = images * -(-tiles // height)
            steps = points_of(tile) * depth * blocks * -(-outputs // sizes["NR"])
            products = 2 * lanes * steps * (height * vectors + costs.step)
            moved = _count_staged(filters, blocks * height, depth + outputs, tile)
            work = {False: products * costs.staged_gain[vectors] + moved}
            if vectors <= _FUSED_VECTORS and fits_local(depth, parameters, layer.local_bytes):
                work[True] = products + _count_fused(filters, blocks, costs)
            for is_fused, total in work.items():
                if total + transforms < best.get(is_fused, (plain,))[0]:
                    best[is_fused] = total + transforms, parameters
    order = sorted(best, key=lambda is_fused: (best[is_fused][0], not is_fused))
    return {is_fused: best[is_fused][1] for is_fused in order}


def _iterate_sizes(costs: _Costs, lanes: int, outputs: int) -> Iterator[tuple[int, int]]:
    """Yield vectors of a panel and tiles of a register tile; panels wider than all outputs are left out."""
    for (width, vectors), heights in costs.heights.items():
        if width == lanes and (vectors == 1) == (outputs <= lanes):
            yield from ((vectors, height) for height in heights)


def _count_fused(filters: int, passes: int, costs: _Costs) -> float:
    """Return the work of reading all filters in each pass, in flops that take as long."""
    size = filters * FLOAT_BYTES
    is_far = size > _MOST_FILTER_BYTES
    return size * (costs.first_read[is_far] + (passes - 1) * costs.next_read[is_far])


def _count_staged(filters: int, tiles: int, channels: int, tile: int) -> float:
    """Return the work of reading all filters once, and moving inputs and products of all points."""
    moved = points_of(tile) * tiles * (channels + 2 * STEP_PADDING)
    if moved > _MOST_MOVED:
        return inf
    return FLOAT_BYTES * (_READ_COST * filters + _MOVED_COST * moved)

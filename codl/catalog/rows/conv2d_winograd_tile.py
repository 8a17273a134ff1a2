"""Convolutions of 3 x 3 on GPUs by minimal filtering; work-groups share the tiles of its products."""

from collections.abc import Mapping
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from codl.catalog.epilogue import epilogue_scalars
from codl.catalog.groups import GROUP, choose_assembly, size_grid, takes_groups
from codl.catalog.rows import conv2d_tile
from codl.catalog.rows.boxes import constants_like
from codl.catalog.rows.filtering import names_of
from codl.catalog.rows.windows import box_scalars, has_constant_weights
from codl.catalog.spec import (
    Implementation,
    LaunchBatch,
    PackedArg,
    Parameters,
    busiest_share,
    ceil_div,
    plain_arg,
    spread,
)
from codl.catalog.winograd_tile import are_on_grid, cover, pack_filters, points_of, taps_of
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.ops import Conv2d
from codl.ir.regions import Boxes, IntArray, input_boxes
from codl.machine import DeviceInfo

ENTRY = "conv2d_winograd_tile__buffer"
TILES = (2, 4)
"""Outputs along each side of a tile."""
SHAPES = ((112, 64), (56, 128))
"""Rows and channels of a tile of products (BM, BN)."""
PARTS = (1, 2, 3, 4, 5, 6, 8)
"""Into how many parts a sum may be cut."""
STEP = 16
"""BK of kernels/walk/winograd_multiply.h."""
_WINDOW = (3, 3)
_MOST_SCRATCH = 1 << 26
"""Floats of inputs and products at all points. Batches that need more are computed in slabs of images."""
_STEP_US: Mapping[tuple[int, int], float] = {(112, 64): 0.80, (56, 128): 0.82}
"""What a group takes for `STEP` steps of its tile.

Source: least squares of relative errors over 19 ways to compute the convolutions of VGG-16 on an H200
(`tools/bench_tiles.py`), as are the constants below. Their root mean square error is 5 %, and what they
choose takes at most 3 % longer than the fastest.
"""
_STORE_US = 0.05
"""What a tile takes besides."""
_STAGE_US, _UNIT_BYTES_PER_US = 2.2, 18.4e3
"""What a stage takes whatever it does, and what a unit moves of what transforms read and write."""


def _accept(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    op = node.op
    if not takes_groups(info) or not isinstance(op, Conv2d) or not has_constant_weights(node, graph):
        return None
    assembly = choose_assembly(info)
    found = [
        {"TILE": tile, "BM": rows, "BN": columns, "parts": parts, **assembly}
        for tile, (rows, columns), parts in product(TILES, SHAPES, PARTS)
    ]
    fitting = [one for one in found if _fits(node, graph, info, one)]
    if not fitting:
        return None
    best = min(fitting, key=lambda one: estimate_us(node, graph, one, units=info.units))
    plain = conv2d_tile.estimate_best_us(node, graph, info)
    return best if estimate_us(node, graph, best, units=info.units) < plain else None


def _fits(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters) -> bool:
    op, tile, parts = node.op, parameters["TILE"], parameters["parts"]
    assert isinstance(op, Conv2d)
    is_simple = op.kernel == _WINDOW and op.stride == (1, 1) and op.dilation == (1, 1) and op.groups == 1
    if not is_simple or op.tile == (1, 1) or not are_on_grid(op, tile):
        return False
    if parameters["PTX"] != choose_assembly(info)["PTX"]:
        return False
    if (parameters["BM"], parameters["BN"]) not in SHAPES:
        return False
    steps = _depth_of(node, graph) // STEP
    is_even = -(-steps // -(-steps // parts)) == parts
    return is_even and _count_most_images(node, graph, parameters) > 0


def _count_most_images(node: Node, graph: Graph, parameters: Parameters) -> int:
    """Return how many images find room in scratch memory; 0 where one is too large."""
    images = graph.shape(node.output)[0]
    return images * _MOST_SCRATCH // max(1, sum(_count_floats(node, graph, parameters)))


def _list_slabs(node: Node, graph: Graph, parameters: Parameters) -> list[tuple[int, int]]:
    """Return the first image of each slab and where it ends: as few slabs as there can be, of one size."""
    images = graph.shape(node.output)[0]
    count = -(-images // _count_most_images(node, graph, parameters))
    step = -(-images // max(1, count))
    return [(first, min(first + step, images)) for first in range(0, images, step)]


def _depth_of(node: Node, graph: Graph) -> int:
    """Return the input channels, filled up to whole steps."""
    return -(-graph.shape(node.inputs[0])[1] // STEP) * STEP


def _count_rows(node: Node, graph: Graph, tile: int) -> int:
    images, _, height, width = graph.shape(node.output)
    return images * -(-height // tile) * -(-width // tile)


def _count_floats(node: Node, graph: Graph, parameters: Parameters) -> tuple[int, int]:
    """Return the floats of all inputs and products at points."""
    tile, columns = parameters["TILE"], parameters["BN"]
    rows = points_of(tile) * _count_rows(node, graph, tile)
    channels = -(-graph.shape(node.output)[1] // columns) * columns
    return rows * _depth_of(node, graph), rows * channels * parameters["parts"]


def estimate_us(node: Node, graph: Graph, parameters: Parameters, *, units: int) -> float:
    """Return about what a convolution takes: for each slab two transforms, and waves of tiles of products."""
    return sum(
        _estimate_slab_us(node, graph, parameters, images=end - begin, units=units)
        for begin, end in _list_slabs(node, graph, parameters)
    )


def _estimate_slab_us(node: Node, graph: Graph, parameters: Parameters, *, images: int, units: int) -> float:
    tile, shape, parts = parameters["TILE"], (parameters["BM"], parameters["BN"]), parameters["parts"]
    every, outputs = graph.shape(node.output)[:2]
    rows = _count_rows(node, graph, tile) * images // every
    places = -(-rows // shape[0]) * -(-outputs // shape[1]) * points_of(tile) * parts
    waves = -(-places // max(1, units))
    steps = -(-_depth_of(node, graph) // STEP // parts)
    moved = FLOAT_BYTES * (sum(_count_floats(node, graph, parameters)) + sum(_count_ends(node, graph)))
    transforms = moved * images / every / (_UNIT_BYTES_PER_US * max(1, units))
    return 3 * _STAGE_US + transforms + waves * (steps * _STEP_US[shape] + _STORE_US)


def _count_ends(node: Node, graph: Graph) -> tuple[int, int]:
    """Return the floats of input and output."""
    return int(np.prod(graph.shape(node.inputs[0]))), int(np.prod(graph.shape(node.output)))


def _describe(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    """Return the stages of each slab, one slab after the other: they share scratch memory."""
    slabs = _list_slabs(node, graph, parameters)
    parts = (
        out.with_axis(0, *(np.clip(ends[:, 0], *slab) for ends in (out.begin, out.end))) for slab in slabs
    )
    return tuple(batch for part in parts for batch in _describe_slab(node, graph, part, info, parameters))


def _describe_slab(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    op = node.op
    assert isinstance(op, Conv2d)
    tile, parts, names = parameters["TILE"], parameters["parts"], names_of(node)
    shape, points, depth = (parameters["BM"], parameters["BN"]), points_of(tile), _depth_of(node, graph)
    tiles = cover(out, {"TILE": tile, "NR": shape[1], "VECTOR": 4})
    is_empty = out.size == 0
    rows = np.where(is_empty, 0, tiles.images * tiles.count)
    channels = tiles.end[:, 3] - tiles.begin[:, 3]
    width = tiles.panels * shape[1]
    places = ceil_div(rows, shape[0]) * tiles.panels * points * parts
    packed = PackedArg(
        key=f"{names!r}/winograd{tile}/nr{shape[1]}/ic{depth}",
        pack=partial(pack_filters, names=names, tile=tile, nr=shape[1], inputs=depth),
        panel_floats=shape[1] * (1 + points * depth),
    )
    output, x = graph.shape(node.output), graph.shape(node.inputs[0])
    inputs, products = FLOAT_BYTES * points * rows * depth, FLOAT_BYTES * points * parts * rows * width
    source = FLOAT_BYTES * input_boxes(node, graph, out)[0].size
    residual = FLOAT_BYTES * out.size if node.residual else 0 * out.size
    constants = np.where(is_empty, 0, FLOAT_BYTES * tiles.panels * shape[1] * (1 + points * depth))

    def make(stage: int, work_items: IntArray, **facts: Any) -> LaunchBatch:
        return LaunchBatch(
            entry=ENTRY,
            tensors=(
                plain_arg(node.output, output),
                plain_arg(node.inputs[0], x),
                plain_arg(node.residual or node.output, output),
            ),
            packed=(packed,),
            panel_begin=tiles.panel_begin,
            panel_end=tiles.panel_end,
            scratch=np.maximum(1, points * rows * (depth + parts * width)),
            keeps_scratch=stage > 0,
            global_size=size_grid(work_items),
            local_size=(GROUP, 1, 1),
            scalars={
                **constants_like(out, stage=stage),
                **box_scalars(tiles.begin, tiles.end),
                "panel_begin": tiles.panel_begin,
                "images": tiles.images,
                "tiles": tiles.count,
                "row_tiles": tiles.in_row,
                "panels": tiles.panels,
                **constants_like(
                    out,
                    panel_channels=shape[1],
                    points=points,
                    depth=depth,
                    parts=parts,
                    channels=x[1],
                    in_h=x[2],
                    in_w=x[3],
                    pad_h=op.pads[0],
                    pad_w=op.pads[1],
                ),
                **epilogue_scalars(node.epilogue, out.count),
            },
            **facts,
        )

    groups = ceil_div(rows * depth, GROUP), places, ceil_div(rows * channels, GROUP)
    busiest = [spread(one, info.units) for one in groups]
    return (
        make(
            0,
            groups[0],
            units={"transforms": busiest[0] * GROUP, "items": busiest[0]},
            read_bytes=source,
            written_bytes=inputs,
            flops=0 * out.size,
        ),
        make(
            1,
            groups[1],
            busiest_flops=busiest_share(
                2 * ceil_div(np.asarray(depth), parts) * shape[0] * shape[1],
                full_items=rows // shape[0] * tiles.panels * points * parts,
                units=info.units,
            ),
            units={"steps": busiest[1] * -(-depth // STEP // parts), "tiles": busiest[1]},
            read_bytes=constants + inputs,
            constant_bytes=constants,
            written_bytes=products,
            flops=2 * taps_of(node, graph) * out.size,
        ),
        make(
            2,
            groups[2],
            units={"outputs": busiest[2] * GROUP, "items": busiest[2]},
            read_bytes=products + residual,
            written_bytes=FLOAT_BYTES * out.size,
            flops=0 * out.size,
        ),
    )


IMPLEMENTATIONS: tuple[Implementation, ...] = (
    Implementation(
        name=ENTRY,
        source=f"conv2d/{ENTRY}.cl",
        allowed={"TILE": TILES, "BM": (56, 112), "BN": (64, 128), "PTX": (0, 1), "parts": PARTS},
        accepts=_accept,
        describe=_describe,
        fits=_fits,
        uses_groups=True,
    ),
)

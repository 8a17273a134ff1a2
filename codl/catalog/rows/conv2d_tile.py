"""Convolutions and products with constant matrices on GPUs: groups share a tile; sums are cut into parts."""

from collections.abc import Mapping
from functools import partial
from itertools import product
from math import prod

import numpy as np

from codl.catalog.groups import GROUP, PRECISIONS, choose_products, size_grid, takes_groups
from codl.catalog.register_tile import pack_panels
from codl.catalog.rows.boxes import constants_like
from codl.catalog.rows.linear_rows import is_pixel_product
from codl.catalog.rows.matrix_windows import as_convolution, as_image_boxes, as_product, has_many_rows
from codl.catalog.rows.windows import constant_names, has_constant_weights, launch_windows, window_scalars
from codl.catalog.spec import (
    Implementation,
    LaunchBatch,
    PackedArg,
    Parameters,
    busiest_share,
    ceil_div,
    kernel_box,
    spread,
)
from codl.ir.graph import FloatArray, Graph, Node
from codl.ir.ops import Conv2d, MatMul
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo

_STEPS = (
    {(32, 32): 32, (56, 128): 16, (64, 64): 32, (112, 64): 16, (128, 64): 16, (128, 128): 16},
    {(32, 32): 32, (64, 64): 16, (128, 64): 16, (128, 128): 8},
    {(32, 32): 32, (64, 64): 16, (128, 64): 16, (128, 128): 16},
)
"""By PRECISION and (BM, BN), BK: steps of the sum that lie in local memory together."""
TILES, UNIT_TILES = (tuple(steps) for steps in _STEPS[:2])
"""(BM, BN): all of them, and those of matrix units."""
_HALF = 2
"""PRECISION of float16, whose weights lie in pairs."""
PARTS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16)
"""Into how many parts a sum may be cut."""
_STEP_US = (
    {
        (32, 32): 0.50,
        (56, 128): 0.87,
        (64, 64): 1.03,
        (112, 64): 0.85,
        (128, 64): 0.96,
        (128, 128): 1.66,
    },
    {(32, 32): 0.35, (64, 64): 0.35, (128, 64): 0.50, (128, 128): 0.35},
    {(32, 32): 0.30, (64, 64): 0.25, (128, 64): 0.40, (128, 128): 0.50},
)
"""By PRECISION, what a group takes for BK steps of its tile.

Source: least squares of relative errors over 4701 ways to compute the 129 distinct convolutions of
ResNet-50, VGG-16, MobileNetV2, SqueezeNet and Inception v1 on an H200 (`tools/bench_tiles.py`), as are the
constants below. Their root mean square error is 8 %; what they choose takes 1.002 times as long as the
fastest, in the geometric mean, 1.07 times at worst. Steps of matrix units are estimates: they wait for
memory, of which 24 KiB are on their way in about a microsecond.
"""
_UNIT_SUMS = 1024
_START_US, _START_UNIT_US = 2.25, 0.345
"""What a tile takes besides: whatever its size, and for each `_UNIT_SUMS` of its sums."""
_CUT_US, _CUT_UNIT_US, _PART_UNIT_US = 0.98, 0.38, 0.047
"""What a part of a tile takes besides, likewise, and for each `_UNIT_SUMS` of each part that is added."""
_MOST_SCRATCH = 1 << 23
"""Floats of partial sums."""


def _accept(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    if is_pixel_product(node, graph):
        return None
    if takes_groups(info) and has_many_rows(node, graph):
        node, graph = as_convolution(node, graph)
    op = node.op
    if not takes_groups(info) or not isinstance(op, Conv2d) or not has_constant_weights(node, graph):
        return None
    if op.groups > 1 and graph.shape(node.output)[1] // op.groups < 8:
        return None
    _, tile, parts = _find_best(node, op, graph, info)
    return {"BM": tile[0], "BN": tile[1], "parts": parts, **choose_products(info)}


def estimate_best_us(node: Node, graph: Graph, info: DeviceInfo) -> float:
    """Return about what a convolution takes in the tiles that suit it best."""
    assert isinstance(node.op, Conv2d)
    return _find_best(node, node.op, graph, info)[0]


def _find_best(node: Node, op: Conv2d, graph: Graph, info: DeviceInfo) -> tuple[float, tuple[int, int], int]:
    """Return what a convolution takes in us, its tile and its parts, the fastest by the rule."""
    precision = choose_products(info)["PRECISION"]
    step_us, depth = _STEP_US[precision], prod(graph.shape(node.inputs[1])[1:])
    counts = {
        one: (_count_tiles(node, op, graph, one), -(-depth // find_step(one, precision))) for one in step_us
    }
    return min(
        (_estimate_us(*counts[tile], tile, step_us=step_us[tile], parts=parts, units=info.units), tile, parts)
        for tile, parts in product(step_us, PARTS)
        if _suits(*counts[tile], tile, parts)
    )


def _count_tiles(node: Node, op: Conv2d, graph: Graph, tile: tuple[int, int]) -> int:
    images, outputs, height, width = graph.shape(node.output)
    return -(-images * height * width // tile[0]) * op.groups * -(-outputs // op.groups // tile[1])


def find_step(tile: tuple[int, int], precision: int) -> int:
    """Return BK: steps of the sum that lie in local memory together."""
    return _STEPS[precision][tile]


def _suits(tiles: int, steps: int, tile: tuple[int, int], parts: int) -> bool:
    """Return whether every part of a sum has something to add, and partial sums need little memory."""
    used = -(-steps // -(-steps // parts))
    return parts == 1 or (used == parts and tiles * parts * prod(tile) <= _MOST_SCRATCH)


def _estimate_us(
    tiles: int, steps: int, tile: tuple[int, int], *, step_us: float, parts: int, units: int
) -> float:
    """Return about what a convolution takes: waves of tiles, each as long as its steps and its start."""
    waves = -(-tiles * parts // max(1, units))
    size = prod(tile) / _UNIT_SUMS
    start = _START_US + _START_UNIT_US * size
    if parts > 1:
        start += _CUT_US + (_CUT_UNIT_US + _PART_UNIT_US * parts) * size
    return waves * (-(-steps // parts) * step_us + start)


def _fits(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters) -> bool:
    if isinstance(node.op, MatMul):
        node, graph = as_convolution(node, graph)
    op, tile = node.op, (parameters["BM"], parameters["BN"])
    assert isinstance(op, Conv2d)
    is_right = all(parameters[name] == value for name, value in choose_products(info).items())
    if tile not in _STEPS[parameters["PRECISION"]] or not is_right:
        return False
    step = find_step(tile, parameters["PRECISION"])
    steps = -(-prod(graph.shape(node.inputs[1])[1:]) // step)
    return _suits(_count_tiles(node, op, graph, tile), steps, tile, parameters["parts"])


def _pack(
    constants: Mapping[str, FloatArray],
    *,
    names: tuple[str, ...],
    groups: int,
    nr: int,
    step: int,
    has_halves: bool,
) -> FloatArray:
    """Return [groups * ceil(OC/groups / nr), 1 + KH*KW*IC/groups, nr], zeros behind K up to whole steps.

    With halves, behind the bias, two float16 of neighbouring steps lie in each float.
    """
    weight, *bias = (constants[name] for name in names)
    matrix = weight.transpose(0, 2, 3, 1).reshape(len(weight), -1)
    padded = np.pad(matrix, ((0, 0), (0, -matrix.shape[1] % step)))
    if has_halves:
        with np.errstate(over="ignore"):
            padded = np.ascontiguousarray(padded, np.float16).view(np.float32)
    return pack_panels(padded, bias[0] if bias else None, groups=groups, nr=nr)


def _describe(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    op = node.op
    if isinstance(op, MatMul):
        convolution = as_convolution(node, graph)
        batches = _describe(*convolution, as_image_boxes(out), info, parameters)
        return tuple(as_product(batch, node, graph) for batch in batches)
    assert isinstance(op, Conv2d)
    tile, parts, names = (parameters["BM"], parameters["BN"]), parameters["parts"], constant_names(node, op)
    x, shape = graph.shape(node.inputs[0]), graph.shape(node.output)
    group_outputs, group_inputs = shape[1] // op.groups, x[1] // op.groups
    group_panels, depth = -(-group_outputs // tile[1]), op.kernel[0] * op.kernel[1] * group_inputs
    begin, end = kernel_box(out)
    extent = end - begin
    first, last = begin[:, 3], end[:, 3] - 1
    panel_begin = first // group_outputs * group_panels + first % group_outputs // tile[1]
    panel_end = last // group_outputs * group_panels + last % group_outputs // tile[1] + 1
    panels = np.where(extent[:, 3] > 0, panel_end - panel_begin, 0)
    rows = extent[:, :3].prod(axis=1)
    tiles = ceil_div(rows, tile[0]) * panels
    places = tiles * parts
    busiest = spread(places, info.units)
    has_halves, step = parameters["PRECISION"] == _HALF, find_step(tile, parameters["PRECISION"])
    steps = -(-depth // step)
    return launch_windows(
        node,
        graph,
        out,
        entry="conv2d_tile__buffer",
        packed=(
            PackedArg(
                key=f"{names!r}/ohwi/groups{op.groups}/tile{tile[1]}/{step}{'/halves' if has_halves else ''}",
                pack=partial(
                    _pack, names=names, groups=op.groups, nr=tile[1], step=step, has_halves=has_halves
                ),
                panel_floats=(1 + steps * step // (1 + has_halves)) * tile[1],
            ),
        ),
        panels=(panel_begin, panel_end),
        scratch=np.maximum(1, tiles * parts * prod(tile) if parts > 1 else 0 * tiles),
        arrivals=np.maximum(1, tiles),
        scalars={
            "images": extent[:, 0],
            "panels": panels,
            **constants_like(
                out,
                parts=parts,
                group_panels=group_panels,
                group_outputs=group_outputs,
                group_inputs=group_inputs,
            ),
            **window_scalars(node, graph, out),
        },
        global_size=size_grid(places),
        local_size=(GROUP, 1, 1),
        busiest_flops=busiest_share(
            2 * -(-depth // parts) * prod(tile), full_items=rows // tile[0] * panels * parts, units=info.units
        ),
        units={"steps": busiest * -(-steps // parts), "tiles": busiest},
        flops=2 * depth * out.size,
    )


IMPLEMENTATIONS: tuple[Implementation, ...] = (
    Implementation(
        name="conv2d_tile__buffer",
        source="conv2d/conv2d_tile__buffer.cl",
        allowed={
            "BM": (32, 56, 64, 112, 128),
            "BN": (32, 64, 128),
            "PTX": (0, 1),
            "PRECISION": PRECISIONS,
            "parts": PARTS,
        },
        accepts=_accept,
        describe=_describe,
        fits=_fits,
        uses_groups=True,
        takes_onnx_order=True,
    ),
)

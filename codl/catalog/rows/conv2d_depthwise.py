"""A row over two nodes: a depthwise convolution, and the 1x1 convolution behind it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

from codl.catalog.epilogue import activation_scalars
from codl.catalog.gemm_tile import ALLOWED_TILES, Tiles, choose_lanes, list_tiles
from codl.catalog.rows.boxes import box_in, constants_like
from codl.catalog.rows.depthwise import HEIGHTS, choose_height, pack_filters
from codl.catalog.rows.windows import (
    find_panels,
    fits_tile,
    has_constant_weights,
    launch_windows,
    pack_taps,
    take_whole,
    window_scalars,
)
from codl.catalog.spec import Batches, Parameters, busiest_share, ceil_div, define_row, kernel_dims, spread
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.ops import Conv2d, ResidualOrder
from codl.ir.regions import Boxes, IntArray, input_boxes
from codl.machine import DeviceInfo, DeviceKind

NAME = "conv2d_depthwise_pointwise__buffer"
ALLOWED_RUNS: Mapping[str, tuple[int, ...]] = {"RUN": (6, 7, 8, 10, 12, 14), **ALLOWED_TILES}
"""Allowed values of the parameters: pixels of a run of the depthwise convolution, and the tile."""
_ROW_PADDING = 16
"""ROW_PADDING of the kernel."""
_MOST_VALUE_BYTES = 128 << 10
"""Most bytes of what lies between the two: a part of a core's cache."""
_ITEM_TILES, _ITEM_ROWS = (1, 2, 3, 4), (1, 2, 4)
"""Tiles, and rows of pixels, that a work-item may take."""
_TAP_CYCLES, _RUN_CYCLES, _ITEM_CYCLES, _LAUNCH_CYCLES = 1.0, 20.0, 500.0, 20_000.0
"""Work of a tap of one vector, of a run of pixels of one vector, of a work-item, of a launch, in cycles.

Source: Emerald Rapids, Intel's driver and PoCL: pairs of MobileNetV2 and of ShuffleNet.
"""
_WEIGHT_CYCLES = 0.35
"""What a byte of the second one's weights takes longer than in a launch that prefetches them.

Source:
    Zen 4, Intel's driver, both cores, 7 x 7 outputs: 217 us instead of about 125 in two launches from 960
    channels to 160, 148 instead of 80 from 576, which is 0.4 to 0.55. In two launches up to 14 x 14 outputs
    MobileNetV2 takes 0.95 of the time, with PoCL 0.99, ShuffleNet 0.985 and 0.96; on one core 0.97 to 0.98.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What two convolutions compute for each pixel."""

    channels: int
    outputs: int
    groups: int
    """Of the second one."""
    taps: int

    @property
    def depth(self) -> int:
        """Products summed for each output of the second one."""
        return self.channels // self.groups

    @property
    def weight_cycles(self) -> float:
        """What it costs that weights of the second one are not prefetched."""
        return _WEIGHT_CYCLES * FLOAT_BYTES * self.depth * self.outputs

    def count_runs_cycles(self, runs: IntArray | int, parameters: Parameters) -> npt.NDArray[np.float64]:
        """Return what runs of pixels of the first one cost."""
        vectors = -(-self.channels // parameters["VECTOR"])
        return np.asarray(runs * vectors * (parameters["RUN"] * self.taps * _TAP_CYCLES + _RUN_CYCLES))

    def count_tile_cycles(self, tiles: Tiles) -> npt.NDArray[np.float64]:
        """Return what all outputs of a tile's pixels cost, for each sort of tile."""
        panels = self.groups * -(-self.outputs // self.groups // tiles.channels)
        return np.asarray(panels * (self.depth * tiles.step_cycles + tiles.end_cycles))


def is_pointwise(node: Node) -> bool:
    """Return whether a node is a 1x1 convolution that reads each pixel once."""
    op = node.op
    return isinstance(op, Conv2d) and op.kernel == op.stride == (1, 1) and not any(op.pads)


def find_depthwise(node: Node, graph: Graph) -> Node | None:
    """Return the depthwise convolution whose result ``node`` alone reads, if a kernel can compute both."""
    producer = graph.producers.get(node.inputs[0])
    if producer is None or producer.output in graph.outputs or not has_constant_weights(producer, graph):
        return None
    op, channels = producer.op, graph.shape(producer.output)[1]
    assert isinstance(op, Conv2d)
    if not op.groups == channels == graph.shape(producer.inputs[0])[1]:
        return None
    is_read_once = len(graph.consumers[producer.output]) == 1 == node.inputs.count(producer.output)
    is_single = producer.epilogue.residual is ResidualOrder.NONE
    return producer if is_read_once and is_single and producer.inputs[0] not in graph.constants else None


def _accept(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    """Return the tile for both convolutions, on CPUs where one launch should take less time than two."""
    op = node.op
    if info.kind is not DeviceKind.CPU or not isinstance(op, Conv2d) or not is_pointwise(node):
        return None
    first = find_depthwise(node, graph) if has_constant_weights(node, graph) else None
    if first is None:
        return None
    work = _describe_work(node, first, graph)
    images, outputs, height, width = graph.shape(node.output)
    lanes = choose_lanes(info, outputs // op.groups)
    if min(work.channels, work.outputs // work.groups) < lanes:
        return None
    tiles = list_tiles(lanes, info.vector_width, info.vector_registers)
    return _choose(work, tiles, choose_height(HEIGHTS[lanes], width), (images, height, width), info.units)


def _describe_work(node: Node, first: Node, graph: Graph) -> _Work:
    assert isinstance(node.op, Conv2d)
    assert isinstance(first.op, Conv2d)
    return _Work(
        channels=graph.shape(first.output)[1],
        outputs=graph.shape(node.output)[1],
        groups=node.op.groups,
        taps=prod(first.op.kernel),
    )


@lru_cache(maxsize=256)
def _choose(
    work: _Work, tiles: Tiles, run: int, image: tuple[int, int, int], units: int
) -> Parameters | None:
    """Return the parameters that take the fewest cycles, if these are fewer than those of two launches.

    Two launches are taken to share their work evenly among all units.
    """
    images, rows, columns = image
    pixels = images * rows * columns
    tile_cycles = work.count_tile_cycles(tiles)
    best, apart, box = None, np.inf, np.array(image)[:, None]
    for tile, cycles in zip(tiles.parameters, tile_cycles, strict=True):
        parameters = {"RUN": run, **tile}
        _, (total,) = _share(box, parameters, work=work, cycles=float(cycles), units=units)
        if best is None or total < best[0]:
            best = total, parameters
        runs = work.count_runs_cycles(images * rows * -(-columns // run), parameters)
        apart = min(apart, (-(-pixels // tile["MR"]) * cycles + float(runs)) / units + _LAUNCH_CYCLES)
    assert best is not None
    return best[1] if best[0] + work.weight_cycles < apart else None


def _share(
    box: IntArray,
    parameters: Parameters,
    *,
    work: _Work,
    cycles: float,
    units: int,
) -> tuple[IntArray, npt.NDArray[np.float64]]:
    """Return the pixels of a work-item and the cycles of the busiest unit, each [count].

    Args:
        box: [3, count] Images, rows and columns of each candidate.
        parameters: Those of the kernel.
        work: What both convolutions compute.
        cycles: Cycles of all outputs of a tile's pixels.
        units: Compute units.
    """
    images, rows, columns = box
    most = max(1, _MOST_VALUE_BYTES // FLOAT_BYTES // (work.channels + _ROW_PADDING))
    pixels, run = rows * columns, parameters["RUN"]
    sizes = np.stack(
        [np.full_like(columns, parameters["MR"] * count) for count in _ITEM_TILES]
        + [columns * count for count in _ITEM_ROWS]
    )
    sizes = np.minimum(np.minimum(sizes, pixels), most)
    runs = np.where(
        sizes % columns == 0,
        sizes // columns * ceil_div(columns, run),
        ceil_div(sizes, run) + ceil_div(sizes, columns),
    )
    items = spread(ceil_div(pixels, sizes) * images, units)
    total = items * (
        _ITEM_CYCLES + ceil_div(sizes, parameters["MR"]) * cycles + work.count_runs_cycles(runs, parameters)
    )
    best = np.argmin(total, axis=0)[None]
    return np.take_along_axis(sizes, best, 0)[0], np.take_along_axis(total, best, 0)[0]


def _describe(node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters) -> Batches:
    op, first = node.op, find_depthwise(node, graph)
    assert isinstance(op, Conv2d)
    assert first is not None
    assert isinstance(first.op, Conv2d)
    shape, lanes = graph.shape(node.output), parameters["VECTOR"]
    work = _describe_work(node, first, graph)
    group_outputs, depth, channels = shape[1] // op.groups, work.depth, work.channels
    panel, vectors = parameters["VECTORS"] * lanes, -(-channels // lanes)
    panel_begin, panel_end, group_panels = find_panels(out, group_outputs, panel)
    panels = panel_end - panel_begin
    _, extent = box_in(out, kernel_dims(4))
    tiles = list_tiles(lanes, info.vector_width, info.vector_registers)
    cycles = float(work.count_tile_cycles(tiles)[tiles.find(parameters)])
    item_pixels, _ = _share(extent[:, :3].T, parameters, work=work, cycles=cycles, units=info.units)
    pixels = extent[:, 1] * extent[:, 2]
    global_size = np.stack([ceil_div(pixels, item_pixels), np.ones_like(panels), extent[:, 0]], axis=1)
    items = spread(global_size.prod(axis=1), info.units)
    item_tiles = ceil_div(item_pixels, parameters["MR"])
    busiest = items * panels * item_tiles
    (between,) = input_boxes(node, graph, out)[:1]
    read = input_boxes(first, graph, between)[0].size
    return launch_windows(
        node,
        graph,
        out,
        entry=NAME,
        packed=(
            pack_taps(node, graph, parameters),
            take_whole(pack_filters(first, first.op, lanes), vectors),
        ),
        panels=(panel_begin, panel_end),
        scalars={
            "panels": panels,
            "item_pixels": item_pixels,
            **constants_like(out, group_panels=group_panels, group_outputs=group_outputs),
            **constants_like(out, group_inputs=depth, channels=channels),
            **window_scalars(first, graph, out),
            **activation_scalars("before", first.epilogue, out.count),
        },
        first=first,
        read=read,
        zeros=lanes,
        local=item_pixels * (channels + _ROW_PADDING),
        global_size=global_size,
        steals=True,
        busiest_flops=busiest_share(
            2 * depth * parameters["MR"] * panel * panels * item_tiles,
            full_items=pixels // item_pixels * extent[:, 0],
            units=info.units,
        ),
        units={
            "steps": busiest * depth,
            "tiles": busiest,
            "taps": items * item_pixels * vectors * work.taps,
            "items": items,
        },
        flops=2 * depth * out.size + 2 * work.taps * between.size,
    )


IMPLEMENTATIONS = (
    define_row("conv2d", NAME, _accept, _describe, allowed=ALLOWED_RUNS, fits=fits_tile, taken=1),
)

"""A row over three nodes: a 1x1 convolution, a depthwise one, and a second 1x1 convolution behind them."""

from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

from codl.catalog.epilogue import activation_scalars
from codl.catalog.gemm_tile import Tiles, choose_lanes, count_panels, is_tile, list_tiles
from codl.catalog.rows.boxes import box_in, constants_like
from codl.catalog.rows.conv2d_depthwise import ALLOWED_RUNS, find_depthwise, is_pointwise
from codl.catalog.rows.depthwise import HEIGHTS, choose_height, pack_filters
from codl.catalog.rows.windows import (
    find_panels,
    has_constant_weights,
    launch_windows,
    pack_taps,
    take_whole,
    window_scalars,
)
from codl.catalog.spec import Batches, Parameters, busiest_share, ceil_div, define_row, kernel_dims, spread
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.ops import FUNCTIONS, Conv2d, ResidualOrder
from codl.ir.regions import Boxes, IntArray, input_boxes
from codl.machine import DeviceInfo, DeviceKind

NAME = "conv2d_bottleneck__buffer"
_ROW_PADDING = 16
"""ROW_PADDING of the kernel."""
_MOST_ROW_BYTES = 512 << 10
"""Most bytes of the rows that a work-item keeps: a part of a core's second-level cache."""
_ITEM_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 14, 16, 20, 28, 32, 56)
_TAP_CYCLES, _RUN_CYCLES, _ITEM_CYCLES, _LAUNCH_CYCLES = 1.0, 20.0, 2000.0, 20_000.0
_BYTE_CYCLES = 0.1


def find_widening(node: Node, graph: Graph) -> tuple[Node, Node] | None:
    """Return the 1x1 and the depthwise convolution before ``node``, if a kernel can compute all three."""
    second = find_depthwise(node, graph)
    first = None if second is None else graph.producers.get(second.inputs[0])
    if first is None or second is None or not has_constant_weights(first, graph):
        return None
    assert isinstance(second.op, Conv2d)
    is_read_once = len(graph.consumers[first.output]) == 1 and first.output not in graph.outputs
    is_plain = all(FUNCTIONS[one.epilogue.activation.kind].is_plain for one in (first, second))
    if not _is_dense(first) or not is_read_once or not is_plain or second.op.dilation != (1, 1):
        return None
    is_single = first.epilogue.residual is ResidualOrder.NONE
    return (first, second) if is_single and first.inputs[0] not in graph.constants else None


def _is_dense(node: Node) -> bool:
    return is_pointwise(node) and isinstance(node.op, Conv2d) and node.op.groups == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What three convolutions compute."""

    inputs: int
    channels: int
    outputs: int
    image: tuple[int, int]
    """Rows and columns between the first and the second one."""
    kernel: tuple[int, int]
    stride: tuple[int, int]

    def count_wide(self, axis: int, lengths: IntArray) -> IntArray:
        """Return the rows (axis 0) or columns (1) that so many of the output need."""
        step = min(self.stride[axis], self.kernel[axis])
        return np.minimum((lengths - 1) * step + self.kernel[axis], self.image[axis])

    def count_run_cycles(self, parameters: Parameters) -> float:
        """Return what a run of pixels of the second one costs."""
        vectors = -(-self.channels // parameters["VECTOR"])
        return vectors * (parameters["RUN"] * prod(self.kernel) * _TAP_CYCLES + _RUN_CYCLES)

    def count_tile_cycles(self, tiles: Tiles) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return what a tile of the first one's pixels costs, and one of the last one's, by sort of tile."""
        first, last = (
            -(-channels // tiles.channels) * (depth * tiles.step_cycles + tiles.end_cycles)
            for channels, depth in ((self.channels, self.inputs), (self.outputs, self.channels))
        )
        return first, last

    def count_floats(self, columns: IntArray, parameters: Parameters) -> IntArray:
        """Return what a work-item keeps of a box with ``columns``."""
        columns = np.maximum(columns, parameters["RUN"])
        line = (columns - 1) * self.stride[1] + self.kernel[1]
        sums = parameters["MR"] * parameters["VECTORS"] * parameters["VECTOR"]
        return np.asarray((self.kernel[0] * line + columns) * (self.channels + _ROW_PADDING) + sums)


def _describe_work(node: Node, graph: Graph) -> _Work | None:
    found = find_widening(node, graph) if _is_dense(node) and has_constant_weights(node, graph) else None
    if found is None:
        return None
    first, second = found
    assert isinstance(second.op, Conv2d)
    _, channels, height, width = graph.shape(first.output)
    return _Work(
        inputs=graph.shape(first.inputs[0])[1],
        channels=channels,
        outputs=graph.shape(node.output)[1],
        image=(height, width),
        kernel=second.op.kernel,
        stride=second.op.stride,
    )


def _accept(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    """Return the tile for all three, on CPUs where one launch should take less time than two."""
    work = _describe_work(node, graph) if info.kind is DeviceKind.CPU else None
    if work is None:
        return None
    lanes = choose_lanes(info, work.outputs)
    images, _, height, width = graph.shape(node.output)
    if min(work.channels, work.outputs) < lanes:
        return None
    tiles = list_tiles(lanes, info.vector_width, info.vector_registers)
    found = _choose(work, tiles, choose_height(HEIGHTS[lanes], width), (images, height, width), info.units)
    return found if found is not None and _fits_local(work, width, found, info) else None


def _fits_local(work: _Work, width: int, parameters: Parameters, info: DeviceInfo) -> bool:
    kept = FLOAT_BYTES * int(work.count_floats(np.array([width]), parameters)[0])
    return kept <= min(info.local_memory_bytes, _MOST_ROW_BYTES)


@lru_cache(maxsize=256)
def _choose(
    work: _Work, tiles: Tiles, run: int, image: tuple[int, int, int], units: int
) -> Parameters | None:
    """Return the parameters that take the fewest cycles, if these are fewer than those of two launches.

    Two launches are taken to share their work evenly among all units.
    """
    images, rows, columns = image
    best, apart, box = None, np.inf, np.array(image)[:, None]
    between = images * prod(work.image)
    for index, (tile, first, last) in enumerate(
        zip(tiles.parameters, *work.count_tile_cycles(tiles), strict=True)
    ):
        parameters = {"RUN": run, **tile}
        _, (total,) = _share(box, parameters, work=work, tiles=tiles, index=index, units=units)
        if best is None or total < best[0]:
            best = total, parameters
        both = -(-between // tile["MR"]) * first + -(-images * rows * columns // tile["MR"]) * last
        runs = images * rows * -(-columns // run) * work.count_run_cycles(parameters)
        apart = min(apart, float(both) + runs)
    moved = 2 * FLOAT_BYTES * between * work.channels * _BYTE_CYCLES
    assert best is not None
    return best[1] if best[0] < (apart + moved) / units + _LAUNCH_CYCLES else None


def _share(
    box: IntArray,
    parameters: Parameters,
    *,
    work: _Work,
    tiles: Tiles,
    index: int,
    units: int,
) -> tuple[IntArray, npt.NDArray[np.float64]]:
    """Return the rows of a work-item and the cycles of the busiest unit, each [count].

    The box is images, rows and columns, [3, count].
    """
    images, rows, columns = box
    first, last = (float(cycles[index]) for cycles in work.count_tile_cycles(tiles))
    sizes = np.minimum(np.array(_ITEM_ROWS)[:, None], rows[None])
    wide_tiles = ceil_div(work.count_wide(1, columns), parameters["MR"])
    row = ceil_div(columns, parameters["RUN"]) * work.count_run_cycles(parameters)
    row = row + ceil_div(columns, parameters["MR"]) * last
    cycles = _ITEM_CYCLES + work.count_wide(0, sizes) * wide_tiles * first + sizes * row
    total = spread(ceil_div(rows, sizes) * images, units) * cycles
    best = np.argmin(total, axis=0)[None]
    return np.take_along_axis(sizes, best, 0)[0], np.take_along_axis(total, best, 0)[0]


def _fits(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters) -> bool:
    """Return whether the tile stays in registers."""
    work = _describe_work(node, graph)
    is_local = work is not None and _fits_local(work, graph.shape(node.output)[3], parameters, info)
    return is_tile(parameters, info) and is_local


def _describe(node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters) -> Batches:
    found, work = find_widening(node, graph), _describe_work(node, graph)
    assert found is not None
    assert work is not None
    first, second = found
    assert isinstance(second.op, Conv2d)
    shape, lanes = graph.shape(node.output), parameters["VECTOR"]
    panel = parameters["VECTORS"] * lanes
    panel_begin, panel_end, _ = find_panels(out, shape[1], panel)
    panels, (_, extent) = panel_end - panel_begin, box_in(out, kernel_dims(4))
    tiles = list_tiles(lanes, info.vector_width, info.vector_registers)
    index = tiles.find(parameters)
    item_rows, _ = _share(extent[:, :3].T, parameters, work=work, tiles=tiles, index=index, units=info.units)
    global_size = np.stack([ceil_div(extent[:, 1], item_rows), np.ones_like(panels), extent[:, 0]], axis=1)
    items = spread(global_size.prod(axis=1), info.units)
    (between,) = input_boxes(node, graph, out)[:1]
    (wide,) = input_boxes(second, graph, between)[:1]
    read = input_boxes(first, graph, wide)[0].size
    row_tiles = ceil_div(extent[:, 2], parameters["MR"])
    wide_tiles = ceil_div(work.count_wide(1, extent[:, 2]), parameters["MR"])
    wide_panels = count_panels(work.channels, parameters)
    wide_steps = work.count_wide(0, item_rows) * wide_tiles * wide_panels * work.inputs
    return launch_windows(
        node,
        graph,
        out,
        entry=NAME,
        packed=(
            pack_taps(node, graph, parameters),
            take_whole(pack_taps(first, graph, parameters), wide_panels),
            take_whole(pack_filters(second, second.op, lanes), -(-work.channels // lanes)),
        ),
        panels=(panel_begin, panel_end),
        scalars={
            "panels": panels,
            "item_rows": item_rows,
            **constants_like(out, outputs=shape[1], channels=work.channels, inputs=work.inputs),
            **window_scalars(second, graph, out),
            **activation_scalars("wide", first.epilogue, out.count),
            **activation_scalars("before", second.epilogue, out.count),
        },
        first=first,
        read=read,
        local=work.count_floats(extent[:, 2], parameters),
        global_size=global_size,
        busiest_flops=busiest_share(
            2 * work.channels * parameters["MR"] * panel * panels * row_tiles * item_rows,
            full_items=extent[:, 1] // item_rows * extent[:, 0],
            units=info.units,
        ),
        units={
            "steps": items * (item_rows * row_tiles * panels * work.channels + wide_steps),
            "tiles": items * item_rows * row_tiles * panels,
            "taps": items * item_rows * extent[:, 2] * -(-work.channels // lanes) * prod(work.kernel),
            "walks": items,
        },
        flops=2 * (work.channels * out.size + prod(work.kernel) * between.size + work.inputs * wide.size),
    )


IMPLEMENTATIONS = (define_row("conv2d", NAME, _accept, _describe, allowed=ALLOWED_RUNS, fits=_fits, taken=2),)

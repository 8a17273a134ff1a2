"""A row over two nodes: an affine map of channels with its activation, and the 1x1 convolution behind it."""

import numpy as np

from codl.catalog.epilogue import activation_scalars
from codl.catalog.gemm_tile import ALLOWED_TILES, choose_tile, count_panels, is_tile
from codl.catalog.rows.boxes import constants_like
from codl.catalog.rows.windows import has_constant_weights, launch_windows, pack_taps
from codl.catalog.spec import (
    Batches,
    Parameters,
    busiest_share,
    ceil_div,
    define_row,
    kernel_box,
    plain_arg,
    spread,
)
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.ops import Affine, Conv2d, ResidualOrder
from codl.ir.regions import Boxes, input_boxes
from codl.machine import DeviceInfo, DeviceKind

NAME = "conv2d_affine_pointwise__buffer"
_ROW_PADDING = 16
"""ROW_PADDING of the kernel."""
_ITEMS_PER_UNIT = 8
_LEAST_STEPS = 1024
"""Steps of K that make a work-item worth its start."""


def find_affine(node: Node, graph: Graph) -> Node | None:
    """Return the affine map whose result ``node`` alone reads, if a kernel can apply it on the way."""
    producer = graph.producers.get(node.inputs[0])
    if producer is None or not isinstance(producer.op, Affine) or producer.output in graph.outputs:
        return None
    if producer.epilogue.residual is not ResidualOrder.NONE or len(graph.consumers[producer.output]) != 1:
        return None
    is_constant = all(name in graph.constants for name in producer.inputs[1:3])
    is_read_once = node.inputs.count(producer.output) == 1
    return producer if is_constant and is_read_once and producer.inputs[0] not in graph.constants else None


def _accept(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    """Return the tile for a 1x1 convolution behind a map, on CPUs wherever there is one.

    Source:
        2 cores with AVX-512, both CPU drivers: pairs of DenseNet-121 run 0.98 to 1.41 times as fast as in
        two launches, the whole network 1.05 to 1.06 times.
    """
    op = node.op
    if not isinstance(op, Conv2d) or not has_constant_weights(node, graph):
        return None
    if op.kernel != (1, 1) or any(op.pads) or op.groups != 1 or info.kind is not DeviceKind.CPU:
        return None
    if find_affine(node, graph) is None:
        return None
    _, outputs, height, width = graph.shape(node.output)
    depth = graph.shape(node.inputs[1])[1]
    tile = choose_tile(info, rows=height * width, channels=outputs, depth=depth)
    return tile if _fits_local(tile, depth, info) else None


def _fits(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters) -> bool:
    """Return whether a tile stays in registers and its inputs in local memory."""
    return is_tile(parameters, info) and _fits_local(parameters, graph.shape(node.inputs[1])[1], info)


def _fits_local(parameters: Parameters, depth: int, info: DeviceInfo) -> bool:
    return FLOAT_BYTES * _count_local(parameters, depth) <= info.local_memory_bytes


def _count_local(parameters: Parameters, depth: int) -> int:
    """Return the floats of a tile's inputs and sums."""
    return parameters["MR"] * (depth + _ROW_PADDING + parameters["VECTORS"] * parameters["VECTOR"])


def _describe(node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters) -> Batches:
    op, affine = node.op, find_affine(node, graph)
    assert isinstance(op, Conv2d)
    assert affine is not None
    source, scale, shift = affine.inputs[:3]
    x, shape = graph.shape(source), graph.shape(node.output)
    depth, panel = x[1], parameters["VECTORS"] * parameters["VECTOR"]
    begin, end = kernel_box(out)
    extent = end - begin
    panel_begin = begin[:, 3] // panel
    panels = np.minimum(ceil_div(end[:, 3], panel), count_panels(shape[1], parameters)) - panel_begin
    tiles = ceil_div(extent[:, 1] * extent[:, 2], parameters["MR"])
    # All panels share the mapped inputs of a tile, unless there are too few tiles for all units.
    wanted = _ITEMS_PER_UNIT * info.units
    item_panels = np.clip(tiles * extent[:, 0] * panels // wanted, 1, panels)
    item_tiles = np.clip(
        np.minimum(tiles * extent[:, 0] * ceil_div(panels, item_panels) // wanted, -(-_LEAST_STEPS // depth)),
        1,
        tiles,
    )
    global_size = np.stack([ceil_div(tiles, item_tiles), ceil_div(panels, item_panels), extent[:, 0]], axis=1)
    items = spread(global_size.prod(axis=1), info.units)
    busiest = items * item_panels * item_tiles
    read = input_boxes(node, graph, out)[0].size
    return launch_windows(
        node,
        graph,
        out,
        entry=NAME,
        packed=(pack_taps(node, graph, parameters),),
        panels=(panel_begin, panel_begin + panels),
        scalars={
            "item_panels": item_panels,
            "panels": panels,
            "item_tiles": item_tiles,
            **constants_like(
                out, group_outputs=shape[1], inputs=depth, stride_h=op.stride[0], stride_w=op.stride[1]
            ),
            **activation_scalars("map", affine.epilogue, out.count),
        },
        first=affine,
        read=read,
        more=(plain_arg(scale, (depth,)), plain_arg(shift, (depth,))),
        local=np.full(out.count, _count_local(parameters, depth), np.int64),
        global_size=global_size,
        steals=True,
        busiest_flops=busiest_share(
            2 * depth * parameters["MR"] * panel * item_panels * item_tiles,
            full_items=tiles // item_tiles * extent[:, 0] * (panels // item_panels),
            units=info.units,
        ),
        units={
            "steps": busiest * depth,
            "tiles": busiest,
            "mapped": items * item_tiles * parameters["MR"] * depth,
            "items": items,
        },
        flops=2 * depth * out.size + 2 * read,
    )


IMPLEMENTATIONS = (
    define_row("conv2d", NAME, _accept, _describe, allowed=ALLOWED_TILES, fits=_fits, taken=1),
)

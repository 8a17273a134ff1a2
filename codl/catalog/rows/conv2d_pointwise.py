"""1x1 convolutions without padding: a matrix product over pixels, in groups or not."""

from collections.abc import Mapping
from math import prod

from codl.catalog.gemm_tile import ALLOWED_TILES, choose_tile, is_tile
from codl.catalog.pointwise_items import share_items
from codl.catalog.rows.boxes import constants_like
from codl.catalog.rows.windows import find_panels, has_constant_weights, launch_windows, pack_taps
from codl.catalog.spec import Batches, Parameters, can_fetch, ceil_div, define_row, kernel_box
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.ops import Conv2d
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo

ALLOWED_POINTWISE: Mapping[str, tuple[int, ...]] = {**ALLOWED_TILES, "FETCH": (0, 1)}
"""Allowed values of the parameters."""
_FETCHED_BYTES = 64 << 10
"""Bytes of weights from which the next panel is prefetched: fewer are read by the first tiles."""


def _accept(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    op = node.op
    if not isinstance(op, Conv2d) or not has_constant_weights(node, graph):
        return None
    if op.kernel != (1, 1) or any(op.pads):
        return None
    _, outputs, height, width = graph.shape(node.output)
    tile = choose_tile(
        info,
        rows=height * width,
        channels=outputs // op.groups,
        depth=graph.shape(node.inputs[1])[1],
        pitch=op.stride[1] * graph.shape(node.inputs[0])[1],
        has_residual=node.residual is not None,
    )
    return {**tile, "FETCH": _choose_fetch(node, graph, info)}


def _choose_fetch(node: Node, graph: Graph, info: DeviceInfo) -> int:
    size = FLOAT_BYTES * prod(graph.shape(node.inputs[1]))
    return int(can_fetch(info) and size >= _FETCHED_BYTES)


def _fits(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters) -> bool:
    """Return whether the tile stays in registers."""
    return parameters["FETCH"] == _choose_fetch(node, graph, info) and is_tile(parameters, info)


def _describe(node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters) -> Batches:
    op = node.op
    assert isinstance(op, Conv2d)
    x, shape = graph.shape(node.inputs[0]), graph.shape(node.output)
    group_outputs, depth = shape[1] // op.groups, x[1] // op.groups
    panel = parameters["VECTORS"] * parameters["VECTOR"]
    panel_begin, panel_end, group_panels = find_panels(out, group_outputs, panel)
    panels = panel_end - panel_begin
    begin, end = kernel_box(out)
    extent = end - begin
    tiles = ceil_div(extent[:, 1] * extent[:, 2], parameters["MR"])
    items = share_items(tiles, panels, extent[:, 0], depth=depth, info=info, parameters=parameters)
    return launch_windows(
        node,
        graph,
        out,
        entry="conv2d_pointwise__buffer",
        packed=(pack_taps(node, graph, parameters),),
        panels=(panel_begin, panel_end),
        scalars={
            "item_panels": items.panels,
            "panels": panels,
            "item_tiles": items.tiles,
            "part_tiles": items.part_tiles,
            "part_panels": items.part_panels,
            **constants_like(
                out,
                group_panels=group_panels,
                group_outputs=group_outputs,
                group_inputs=depth,
                stride_h=op.stride[0],
                stride_w=op.stride[1],
            ),
        },
        global_size=items.grid,
        steals=True,
        busiest_flops=2 * depth * parameters["MR"] * panel * items.least_tiles,
        units={
            "steps": items.busiest_tiles * depth,
            "tiles": items.busiest_tiles,
            "items": items.busiest,
        },
        flops=2 * depth * out.size,
    )


IMPLEMENTATIONS = (
    define_row(
        "conv2d",
        "conv2d_pointwise__buffer",
        _accept,
        _describe,
        allowed=ALLOWED_POINTWISE,
        fits=_fits,
        stacks=True,
    ),
)

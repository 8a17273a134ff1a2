"""1x1 convolutions without padding: a matrix product over pixels, in groups or not."""

import numpy as np

from codl.catalog.epilogue import epilogue_scalars
from codl.catalog.gemm_tile import ALLOWED_TILES, choose_tile, count_panels, is_tile, share_tiles
from codl.catalog.rows.boxes import constants_like
from codl.catalog.rows.windows import box_scalars, has_constant_weights, image_args, pack_taps
from codl.catalog.spec import (
    Implementation,
    LaunchBatch,
    Parameters,
    busiest_share,
    ceil_div,
    kernel_box,
    spread,
)
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.ops import Conv2d
from codl.ir.regions import Boxes, input_boxes
from codl.machine import DeviceInfo


def _accept(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    op = node.op
    if not isinstance(op, Conv2d) or not has_constant_weights(node, graph):
        return None
    if op.kernel != (1, 1) or any(op.pads):
        return None
    _, outputs, height, width = graph.shape(node.output)
    return choose_tile(
        info,
        rows=height * width,
        channels=outputs // op.groups,
        depth=graph.shape(node.inputs[1])[1],
    )


def _fits(node: Node, graph: Graph, info: DeviceInfo, parameters: Parameters) -> bool:
    """Return whether the tile stays in registers."""
    del node, graph
    return is_tile(parameters, info)


def _describe(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    op = node.op
    assert isinstance(op, Conv2d)
    x, shape = graph.shape(node.inputs[0]), graph.shape(node.output)
    group_outputs, depth = shape[1] // op.groups, x[1] // op.groups
    group_panels = count_panels(group_outputs, parameters)
    panel = parameters["VECTORS"] * parameters["VECTOR"]
    begin, end = kernel_box(out)
    extent = end - begin
    panel_begin, last_panel = (
        channel // group_outputs * group_panels + channel % group_outputs // panel
        for channel in (begin[:, 3], end[:, 3] - 1)
    )
    panels = last_panel + 1 - panel_begin
    tiles = ceil_div(extent[:, 1] * extent[:, 2], parameters["MR"])
    item_tiles, item_panels = share_tiles(tiles, panels, extent[:, 0], depth=depth, info=info)
    global_size = np.stack([ceil_div(tiles, item_tiles), ceil_div(panels, item_panels), extent[:, 0]], axis=1)
    items = spread(global_size.prod(axis=1), info.units)
    busiest = items * item_panels * item_tiles
    read = input_boxes(node, graph, out)[0].size
    residual = out.size if node.residual else 0
    return (
        LaunchBatch(
            entry="conv2d_pointwise__buffer",
            tensors=image_args(node, graph),
            packed=(pack_taps(node, graph, parameters),),
            panel_begin=panel_begin,
            panel_end=panel_begin + panels,
            global_size=global_size,
            scalars={
                **box_scalars(begin, end),
                "panel_begin": panel_begin,
                "item_panels": item_panels,
                "panels": panels,
                "item_tiles": item_tiles,
                **constants_like(
                    out,
                    group_panels=group_panels,
                    group_outputs=group_outputs,
                    group_inputs=depth,
                    stride_h=op.stride[0],
                    stride_w=op.stride[1],
                ),
                **epilogue_scalars(node.epilogue, out.count),
            },
            busiest_flops=busiest_share(
                2 * depth * parameters["MR"] * panel * item_panels * item_tiles,
                full_items=tiles // item_tiles * extent[:, 0] * (panels // item_panels),
                units=info.units,
            ),
            units={"steps": busiest * depth, "tiles": busiest, "items": items},
            read_bytes=FLOAT_BYTES * (read + residual + panels * panel * (1 + depth)),
            written_bytes=FLOAT_BYTES * out.size,
            flops=2 * depth * out.size,
        ),
    )


IMPLEMENTATIONS: tuple[Implementation, ...] = (
    Implementation(
        name="conv2d_pointwise__buffer",
        source="conv2d/conv2d_pointwise__buffer.cl",
        allowed=ALLOWED_TILES,
        accepts=_accept,
        fits=_fits,
        describe=_describe,
        stacks=True,
    ),
)

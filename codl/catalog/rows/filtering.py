"""What launches of minimal filtering take, however they are arranged: operands, boxes, tiles."""

from typing import Any

import numpy as np

from codl.catalog.epilogue import epilogue_scalars
from codl.catalog.rows import windows
from codl.catalog.spec import PackedArg, Parameters, Scalar, plain_arg
from codl.catalog.winograd_tile import Tiles, depth_of
from codl.ir.graph import Graph, Node
from codl.ir.ops import Conv2d


def list_operands(
    node: Node, graph: Graph, tiles: Tiles, packed: PackedArg, *, zeros: int | None = None
) -> dict[str, Any]:
    """Return the facts of a launch that say what it reads and writes.

    Padding reads ``zeros`` floats, as many as there are input channels by default.
    """
    shape, x = graph.shape(node.output), graph.shape(node.inputs[0])
    return {
        "tensors": (
            plain_arg(node.output, shape),
            plain_arg(node.inputs[0], x),
            plain_arg(node.residual or node.output, shape),
        ),
        "packed": (packed,),
        "panel_begin": tiles.panel_begin,
        "panel_end": tiles.panel_end,
        "zeros": x[1] if zeros is None else zeros,
    }


def names_of(node: Node) -> tuple[str, ...]:
    """Return the names of a convolution's constants: its weight and its bias, if it has one."""
    assert isinstance(node.op, Conv2d)
    return windows.constant_names(node, node.op)


def sums_of(node: Node, graph: Graph, parameters: Parameters) -> int:
    """Return the sums of one point in tiles and vectors of these sizes."""
    return depth_of(node, graph, tile=parameters["TILE"], lanes=parameters["VECTOR"])


def box_scalars(tiles: Tiles) -> dict[str, Scalar]:
    """Return where the box begins and ends, in the kernels' order."""
    return {**windows.box_scalars(tiles.begin, tiles.end), "panel_begin": tiles.panel_begin}


def tile_scalars(node: Node, graph: Graph, tiles: Tiles) -> dict[str, Scalar]:
    """Return the tiles of the launch and what they are computed from, in the kernels' order."""
    op = node.op
    assert isinstance(op, Conv2d)
    _, channels, height, width = graph.shape(node.inputs[0])
    count = len(tiles.count)
    fixed = {
        "channels": channels,
        "in_h": height,
        "in_w": width,
        "kernel_h": op.kernel[0],
        "kernel_w": op.kernel[1],
        "pad_h": op.pads[0],
        "pad_w": op.pads[1],
    }
    return {
        "tiles": tiles.count,
        "row_tiles": tiles.in_row,
        **{name: np.full(count, value, np.int64) for name, value in fixed.items()},
        **epilogue_scalars(node.epilogue, count),
    }

"""Pooling and functions of single elements over images of four channels a texel."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from codl.catalog.epilogue import epilogue_scalars
from codl.catalog.images import (
    MOVES,
    can_use_images,
    choose_group,
    count_blocks,
    image_arg,
    move_from_image,
    move_to_image,
    round_up,
)
from codl.catalog.rows.boxes import constants_like, has_residual, is_plain, moved_bytes
from codl.catalog.rows.pointwise import BINARY_CODES
from codl.catalog.rows.windows import box_scalars, window_scalars
from codl.catalog.spec import Batches, LaunchBatch, Parameters, define_row, kernel_box, spread
from codl.ir.graph import Graph, Node
from codl.ir.ops import Binary, Pool2d, PoolKind, Unary
from codl.ir.regions import Boxes, IntArray, input_boxes
from codl.machine import DeviceInfo

POOL, UNARY, BINARY = "pool2d_direct__image", "elementwise_unary__image", "elementwise_binary__image"
_GROUP = {"GROUP": (1, 8)}


def _accept_pool(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    if not isinstance(node.op, Pool2d) or not is_plain(node) or not can_use_images(node, graph, info):
        return None
    return {"AVERAGE": int(node.op.kind is PoolKind.AVERAGE), "GROUP": choose_group(info)}


def _accept_unary(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    is_known = isinstance(node.op, Unary) and not has_residual(node) and can_use_images(node, graph, info)
    return {"GROUP": choose_group(info)} if is_known else None


def _accept_binary(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    if not isinstance(node.op, Binary) or not can_use_images(node, graph, info):
        return None
    shape = graph.shape(node.output)
    if any(name in graph.constants or graph.shape(name) != shape for name in node.inputs):
        return None
    return {"GROUP": choose_group(info)}


def _describe_pool(node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters) -> Batches:
    op, (_, _, height, width) = node.op, graph.shape(node.inputs[0])
    assert isinstance(op, Pool2d)
    top, left, bottom, right = op.pads
    padding = constants_like(
        out,
        is_padding_counted=int(op.counts_padding),
        padded_h=top + height + bottom,
        padded_w=left + width + right,
    )
    return _describe(
        node,
        graph,
        out,
        info,
        parameters,
        entry=POOL,
        operands=node.inputs[:1],
        scalars={**window_scalars(node, graph, out), **padding},
        work=op.kernel[0] * op.kernel[1],
    )


def _describe_unary(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> Batches:
    scalars = epilogue_scalars(node.epilogue, out.count)
    return _describe(
        node, graph, out, info, parameters, entry=UNARY, operands=node.inputs[:1], scalars=scalars
    )


def _describe_binary(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> Batches:
    assert isinstance(node.op, Binary)
    function = constants_like(out, function=BINARY_CODES[node.op.kind])
    scalars = {**function, **epilogue_scalars(node.epilogue, out.count)}
    operands = (*node.inputs[:2], node.residual or node.inputs[0])
    return _describe(node, graph, out, info, parameters, entry=BINARY, operands=operands, scalars=scalars)


def _describe(
    node: Node,
    graph: Graph,
    out: Boxes,
    info: DeviceInfo,
    parameters: Parameters,
    *,
    entry: str,
    operands: Sequence[str],
    scalars: Mapping[str, Any],
    work: IntArray | int = 1,
) -> Batches:
    """Return moves and kernel of one work-item a texel."""
    shape, extent = graph.shape(node.output), out.extent
    needs = dict(zip(node.inputs, input_boxes(node, graph, out), strict=True))
    blocks = count_blocks(out)
    size = np.stack([extent[:, 3], extent[:, 2], blocks * extent[:, 0]], axis=1)
    group = (parameters["GROUP"], parameters["GROUP"], 1)
    texels = spread(size.prod(axis=1), info.units)
    read, written = moved_bytes(node, graph, out)
    kernel = LaunchBatch(
        entry=entry,
        tensors=(
            image_arg(node.output, shape, out),
            *(image_arg(name, graph.shape(name), needs[name]) for name in operands),
        ),
        global_size=round_up(size, group),
        local_size=group,
        scalars={**box_scalars(*kernel_box(out)), "blocks": np.maximum(blocks, 1), **scalars},
        units={"texels": np.asarray(texels * work, np.int64)},
        read_bytes=read,
        written_bytes=written,
        flops=np.asarray(out.size * work),
    )
    moves = (move_to_image(name, graph.shape(name), needs[name], info) for name in dict.fromkeys(node.inputs))
    return (*moves, kernel, move_from_image(node.output, shape, out, info))


IMPLEMENTATIONS = tuple(
    define_row(folder, name, accepts, describe, other_sources=MOVES, allowed=allowed)
    for folder, name, accepts, describe, allowed in (
        ("pool2d", POOL, _accept_pool, _describe_pool, {"AVERAGE": (0, 1), **_GROUP}),
        ("elementwise", UNARY, _accept_unary, _describe_unary, _GROUP),
        ("elementwise", BINARY, _accept_binary, _describe_binary, _GROUP),
    )
)

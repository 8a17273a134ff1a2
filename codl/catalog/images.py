"""Tensors in images: how a part of one is laid out in texels of four channels, and the launches that move it.

An image row of the table is launched as any other: its inputs move from buffers into images, its kernel reads
and writes images, its output moves back. `codl.executor.images` leaves out moves between rows that need none.
"""

from math import prod

import numpy as np

from codl.catalog.spec import LaunchBatch, TensorArg, ceil_div, plain_arg, spread
from codl.ir.graph import FLOAT_BYTES, Graph, Node, Shape
from codl.ir.regions import Boxes, IntArray, Region
from codl.machine import DeviceInfo

LANES = 4
"""Channels of a texel."""
LONGEST_SIDE = 8192
"""Texels.

Source: OpenCL 1.2, table 4.3: the least CL_DEVICE_IMAGE2D_MAX_WIDTH and _HEIGHT of a device with images.
"""
TO_IMAGE, FROM_IMAGE = "layout_to_image__image", "layout_from_image__image"
MOVES = tuple(f"layout/{name}.cl" for name in (TO_IMAGE, FROM_IMAGE))
"""Kernel files of the moves."""
_MOVE_GROUP = (4, 8, 1)


def measure_image(region: Region) -> tuple[int, int]:
    """Return width and height, in texels, of the image that holds ``region`` of an image tensor."""
    (n, c, h, w), (n_end, c_end, h_end, w_end) = region.begin, region.end
    if region.is_empty:
        return 1, 1
    return (w_end - w) * (-(-c_end // LANES) - c // LANES), (n_end - n) * (h_end - h)


def can_be_image(shape: Shape) -> bool:
    """Return whether every part of a tensor of this shape fits into an image."""
    return len(shape) == LANES and max(measure_image(Region.whole(shape))) <= LONGEST_SIDE


def can_use_images(node: Node, graph: Graph, info: DeviceInfo) -> bool:
    """Return whether a device has images and all activations of a node fit into them."""
    names = (*graph.activations(node), node.output)
    return info.has_images and all(can_be_image(graph.shape(name)) for name in names)


def image_arg(name: str, shape: Shape, boxes: Boxes) -> TensorArg:
    """Return the operand for the part of a tensor that an image holds, one box a candidate."""
    arg = plain_arg(name, shape)
    return TensorArg(name=name, dims=arg.dims, origin=arg.origin, image=boxes)


def move_to_image(name: str, shape: Shape, boxes: Boxes, info: DeviceInfo) -> LaunchBatch:
    """Return the launch that moves boxes of a tensor from its buffer into an image."""
    return _move(TO_IMAGE, (image_arg(name, shape, boxes), plain_arg(name, shape)), boxes, info)


def move_from_image(name: str, shape: Shape, boxes: Boxes, info: DeviceInfo) -> LaunchBatch:
    """Return the launch that moves boxes of a tensor from an image into its buffer."""
    return _move(FROM_IMAGE, (plain_arg(name, shape), image_arg(name, shape, boxes)), boxes, info)


def _move(entry: str, tensors: tuple[TensorArg, ...], boxes: Boxes, info: DeviceInfo) -> LaunchBatch:
    extent, blocks = boxes.extent, count_blocks(boxes)
    size = np.stack([blocks, extent[:, 3], extent[:, 0] * extent[:, 2]], axis=1)
    moved = boxes.size * FLOAT_BYTES
    return LaunchBatch(
        entry=entry,
        source=f"layout/{entry}.cl",
        tensors=tensors,
        global_size=round_up(size, _MOVE_GROUP),
        local_size=_MOVE_GROUP,
        scalars={
            "image_begin": boxes.begin[:, 0],
            "row_begin": boxes.begin[:, 2],
            "col_begin": boxes.begin[:, 3],
            "block_begin": boxes.begin[:, 1] // LANES,
            "rows": np.maximum(extent[:, 2], 1),
            "columns": extent[:, 3],
            "blocks": blocks,
            "channel_begin": boxes.begin[:, 1],
            "channel_end": boxes.end[:, 1],
        },
        units={"texels": spread(size.prod(axis=1), info.units)},
        read_bytes=moved,
        written_bytes=moved,
        flops=np.zeros(boxes.count, np.int64),
    )


def count_blocks(boxes: Boxes) -> IntArray:
    """Return how many blocks of four channels, on the whole tensor's grid, each box touches."""
    blocks = ceil_div(boxes.end[:, 1], LANES) - boxes.begin[:, 1] // LANES
    return np.asarray(np.where(boxes.is_empty, 0, blocks))


def round_up(size: IntArray, group: tuple[int, int, int]) -> IntArray:
    """Return global sizes [count, 3] rounded up to whole work-groups."""
    return np.asarray(ceil_div(size, np.array(group)) * group)


def choose_group(info: DeviceInfo) -> int:
    """Return the side of a square work-group: one work-item on processors with vector registers."""
    return 1 if info.vector_width > 1 or prod((8, 8)) > info.max_work_group_size else 8

"""Rows that move values: Concat, SpaceToDepth, Reshape, and the publication of a private region."""

from itertools import accumulate, product

import numpy as np

from codl.catalog.rows.boxes import (
    FLOAT_BYTES,
    BoxLaunch,
    box_in,
    constants_like,
    has_rank_up_to,
    is_plain,
    moved_bytes,
    share_box,
)
from codl.catalog.spec import (
    Implementation,
    KernelDims,
    LaunchBatch,
    Parameters,
    TensorArg,
    kernel_dims,
    plain_arg,
)
from codl.ir.graph import Graph, Node, Shape
from codl.ir.ops import Concat, Reshape, SpaceToDepth
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo

COPY, GATHER = "layout_copy__buffer", "reshape_gather__buffer"
_BLOCK_COLUMNS = 256
_LEAST_GATHER = 4096
"""Elements that make a work-item of a gather worth its start."""
_LANES = 8
"""VECTOR of both kernels: moving values gains nothing from wider vectors."""


def copy_batch(name: str, shape: Shape, boxes: Boxes, info: DeviceInfo) -> tuple[Implementation, LaunchBatch]:
    """Return the launch that copies ``boxes`` of a tensor from one storage to another.

    Its operands are the destination and the source, both the tensor ``name``;
    the row takes no parameters.
    """
    arg = plain_arg(name, shape)
    return IMPLEMENTATIONS[0], _describe_part(arg, arg, boxes, info)


def _describe_part(dst: TensorArg, src: TensorArg, boxes: Boxes, info: DeviceInfo) -> LaunchBatch:
    """Return the copy of ``boxes``, counted from the operands' origins; an empty box is an empty launch."""
    launch = share_box(boxes, kernel_dims(boxes.begin.shape[1]), info)
    moved = boxes.size * FLOAT_BYTES
    return LaunchBatch(
        entry=COPY,
        tensors=(dst, src),
        global_size=launch.global_size,
        scalars=launch.scalars,
        units=launch.units(info, _LANES),
        read_bytes=moved,
        written_bytes=moved,
        flops=np.zeros(boxes.count, np.int64),
    )


def _accepts_copy(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    del info
    is_known = isinstance(node.op, Concat | SpaceToDepth)
    return {} if is_known and is_plain(node) and has_rank_up_to(4, node, graph) else None


def _describe_copy(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    del parameters
    if isinstance(node.op, SpaceToDepth):
        return _describe_blocks(node, graph, out, info, block=node.op.block)
    assert isinstance(node.op, Concat)
    return _describe_concat(node, graph, out, info, axis=node.op.axis)


def _describe_concat(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, *, axis: int
) -> tuple[LaunchBatch, ...]:
    """Return one launch for each input; kernel coordinates are the input's."""
    shapes = [graph.shape(name) for name in node.inputs]
    starts = accumulate((shape[axis] for shape in shapes), initial=0)
    return tuple(
        _describe_part(
            _shifted(node.output, len(shape), axis, start),
            plain_arg(name, shape),
            _part(out, axis, start, shape[axis]),
            info,
        )
        for name, shape, start in zip(node.inputs, shapes, starts, strict=False)
    )


def _describe_blocks(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, *, block: int
) -> tuple[LaunchBatch, ...]:
    """Return one launch for each offset in the block: it fills a range of channels."""
    (name,) = node.inputs
    channels = graph.shape(name)[1]
    dims: KernelDims = ((0, 1), (2, block), (3, block), (1, 1))
    return tuple(
        _describe_part(
            _shifted(node.output, 4, 1, index * channels),
            TensorArg(name=name, dims=dims, origin=(0, 0, row, column)),
            _part(out, 1, index * channels, channels),
            info,
        )
        for index, (row, column) in enumerate(product(range(block), repeat=2))
    )


def _shifted(name: str, rank: int, axis: int, start: int) -> TensorArg:
    """Return the operand whose coordinates along ``axis`` count from ``start``."""
    origin = tuple(start if index == axis else 0 for index in range(rank))
    return TensorArg(name=name, dims=kernel_dims(rank), origin=origin)


def _part(out: Boxes, axis: int, start: int, length: int) -> Boxes:
    """Return what of ``out`` lies in [start, start + length) of ``axis``, counted from ``start``."""
    low, high = (np.clip(edge[:, axis] - start, 0, length) for edge in (out.begin, out.end))
    return out.with_axis(axis, low, high)


def _accepts_gather(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    del info
    if not isinstance(node.op, Reshape) or not is_plain(node):
        return None
    is_small = all(len(_long_axes(graph.shape(name))) <= 4 for name in (node.inputs[0], node.output))
    return {} if is_small else None


def _describe_gather(
    node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters
) -> tuple[LaunchBatch, ...]:
    del parameters
    names = (node.output, node.inputs[0])
    shapes = [graph.shape(name) for name in names]
    dims = [_onnx_dims(shape) for shape in shapes]
    launch = _share_blocks(out, dims[0])
    _, written = moved_bytes(node, graph, out)
    (_, *dst), (_, *src) = (_onnx_shape(shape) for shape in shapes)
    batch = LaunchBatch(
        entry=GATHER,
        tensors=tuple(
            TensorArg(name=name, dims=places, origin=(0,) * len(shape))
            for name, places, shape in zip(names, dims, shapes, strict=True)
        ),
        global_size=launch.global_size,
        scalars={
            **launch.scalars,
            **constants_like(out, dst_height=dst[0], dst_width=dst[1], dst_channels=dst[2]),
            **constants_like(out, src_height=src[0], src_width=src[1], src_channels=src[2]),
        },
        units=launch.units(info, 1),
        read_bytes=written,
        written_bytes=written,
        flops=np.zeros(out.count, np.int64),
    )
    return (batch,)


def _share_blocks(out: Boxes, dims: KernelDims) -> BoxLaunch:
    """Return work-items of some rows and columns: neighbouring rows often share the cache lines they move."""
    begin, extent = box_in(out, dims)
    all_rows = np.maximum(extent[:, :3].prod(axis=1), 1)
    widest = np.maximum(_LEAST_GATHER // all_rows, _BLOCK_COLUMNS)
    columns = np.clip(extent[:, 3], 1, widest)
    rows = np.clip(_LEAST_GATHER // columns, 1, all_rows)
    return BoxLaunch(begin=begin, extent=extent, item_rows=rows, item_channels=columns)


def _long_axes(shape: Shape) -> list[int]:
    return [axis for axis, length in enumerate(shape) if length > 1]


def _onnx_dims(shape: Shape) -> KernelDims:
    """Return kernel dimensions in ONNX order over the axes longer than 1, the last one in c."""
    axes = _long_axes(shape)
    n, h, w, c = [None] * (4 - len(axes)) + [(axis, 1) for axis in axes]
    return n, h, w, c


def _onnx_shape(shape: Shape) -> Shape:
    """Return the lengths that belong to `_onnx_dims`."""
    lengths = tuple(shape[axis] for axis in _long_axes(shape))
    return (1,) * (4 - len(lengths)) + lengths


IMPLEMENTATIONS = (
    Implementation(name=COPY, source=f"layout/{COPY}.cl", accepts=_accepts_copy, describe=_describe_copy),
    Implementation(
        name=GATHER, source=f"layout/{GATHER}.cl", accepts=_accepts_gather, describe=_describe_gather
    ),
)

"""The row for Reshape: values keep their order in ONNX terms, whatever lies innermost in memory."""

from collections.abc import Mapping

import numpy as np

from codl.catalog.rows.boxes import BoxLaunch, box_in, constants_like, is_plain
from codl.catalog.spec import Batches, KernelDims, Parameters, Scalar, TensorArg, define_row
from codl.ir.graph import FLOAT_BYTES, Graph, Node, Shape
from codl.ir.ops import Reshape
from codl.ir.regions import Boxes
from codl.machine import DeviceInfo

GATHER = "reshape_gather__buffer"
_BLOCK_COLUMNS = 256
_LEAST_GATHER = 4096
"""Elements that make a work-item worth its start."""


def can_reshape(node: Node, graph: Graph) -> bool:
    """Return whether a node is a Reshape between tensors of few long axes."""
    if not isinstance(node.op, Reshape) or not is_plain(node):
        return False
    return all(len(_long_axes(graph.shape(name))) <= 4 for name in (node.inputs[0], node.output))


def reshape_args(node: Node, graph: Graph) -> tuple[TensorArg, TensorArg]:
    """Return the operands for output and input, both walked in ONNX order."""
    target, source = (
        TensorArg(name=name, dims=_onnx_dims(graph.shape(name)), origin=(0,) * len(graph.shape(name)))
        for name in (node.output, node.inputs[0])
    )
    return target, source


def reshape_scalars(node: Node, graph: Graph, out: Boxes) -> Mapping[str, Scalar]:
    """Return the lengths of output and input along h, w and c."""
    (_, *dst), (_, *src) = (_onnx_shape(graph.shape(name)) for name in (node.output, node.inputs[0]))
    return {
        **constants_like(out, dst_height=dst[0], dst_width=dst[1], dst_channels=dst[2]),
        **constants_like(out, src_height=src[0], src_width=src[1], src_channels=src[2]),
    }


def _accepts(node: Node, graph: Graph, info: DeviceInfo) -> Parameters | None:
    return {} if can_reshape(node, graph) else None


def _describe(node: Node, graph: Graph, out: Boxes, info: DeviceInfo, parameters: Parameters) -> Batches:
    tensors = reshape_args(node, graph)
    moved, scalars = out.size * FLOAT_BYTES, reshape_scalars(node, graph, out)
    launch = _share_blocks(out, tensors[0].dims)
    return launch.describe(GATHER, tensors, info, moved=(moved, moved), lanes=1, scalars=scalars)


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


IMPLEMENTATIONS = (define_row("layout", GATHER, _accepts, _describe),)

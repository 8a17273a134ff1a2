"""Translations of the poolings; global ones become partial moments and a small combination."""

import math

import numpy as np

from codl.frontend.draft import Draft
from codl.frontend.onnx_node import OnnxNode
from codl.frontend.windows import read_window
from codl.ir.ops import CombineRows, Pool2d, PoolKind, Reshape, RowSum

_IMAGE_AXES = (2, 3)


def translate_pool(draft: Draft, node: OnnxNode) -> None:
    """Add a `Pool2d` for MaxPool or AveragePool."""
    if len(node.outputs) > 1:
        raise node.unsupported(got="output Indices", expected="the pooled values alone")
    rank = len(draft.shapes.get(node.inputs[0], ()))
    if rank != 4:
        raise node.unsupported(got=f"an input of {rank} axes", expected="4 (2-D pooling)")
    x = draft.operand(node.inputs[0], node=node)
    window = read_window(node, x=draft.tensors[x].shape)
    kind = PoolKind.MAX if node.op_type == "MaxPool" else PoolKind.AVERAGE
    op = Pool2d(
        kind=kind,
        kernel=window.kernel,
        stride=window.stride,
        dilation=window.dilation,
        pads=window.pads,
        counts_padding=kind is PoolKind.AVERAGE and bool(node.integer("count_include_pad", 0)),
    )
    draft.add_node(op, (x,), node.output, shape=draft.shape(node.output, node=node), name=node.name)


def translate_global_average(draft: Draft, node: OnnxNode) -> None:
    """Add a `RowSum` and a `CombineRows` for GlobalAveragePool."""
    _add_image_mean(draft, node)


def translate_reduce_mean(draft: Draft, node: OnnxNode) -> None:
    """Add a mean over height and width, with a `Reshape` behind it where the model drops the axes."""
    axes = node.integers("axes")
    name = node.optional_input(1)
    if name is not None:
        axes = tuple(int(i) for i in np.asarray(draft.value(name, node=node)).reshape(-1))
    rank = len(draft.shape(node.inputs[0], node=node))
    if axes is None or tuple(sorted(a % rank for a in axes)) != _IMAGE_AXES:
        raise node.unsupported(got=f"axes {axes}", expected=f"{_IMAGE_AXES} of an image tensor")
    _add_image_mean(draft, node)


def _add_image_mean(draft: Draft, node: OnnxNode) -> None:
    x = draft.operand(node.inputs[0], node=node)
    shape = draft.tensors[x].shape
    if len(shape) != 4:
        raise node.unsupported(got=f"an input of {len(shape)} axes", expected="4 (images)")
    batch, channels, height, _ = shape
    partial = draft.fresh_name(f"{node.output}/rows")
    draft.add_node(RowSum(), (x,), partial, shape=(batch, channels, height, 1), name=f"{node.name}/rows")
    op = CombineRows(scale=1.0 / math.prod(shape[2:]))
    result = draft.shape(node.output, node=node)
    if len(result) == 4:
        draft.add_node(op, (partial,), node.output, shape=result, name=node.name)
        return
    mean = draft.fresh_name(f"{node.output}/mean")
    draft.add_node(op, (partial,), mean, shape=(batch, channels, 1, 1), name=f"{node.name}/mean")
    draft.add_node(Reshape(), (mean,), node.output, shape=result, name=node.name)

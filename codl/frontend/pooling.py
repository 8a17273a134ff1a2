"""Translations of the poolings; global ones become partial moments and a small combination."""

from codl.frontend.draft import Draft, Translations
from codl.frontend.onnx_node import OnnxNode
from codl.frontend.windows import read_window
from codl.ir.graph import Shape
from codl.ir.ops import CombineRows, Pool2d, PoolKind, ReduceMean, Reshape, RowSum

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
    """Add a `RowSum` and a `CombineRows`: the mean of an image."""
    x = draft.operand(node.inputs[0], node=node)
    batch, channels, height, width = _image_shape(draft, node, x)
    partial = draft.fresh_name(f"{node.output}/rows")
    draft.add_node(RowSum(), (x,), partial, shape=(batch, channels, height, 1), name=f"{node.name}/rows")
    op = CombineRows(scale=1.0 / (height * width))
    _add_with_shape(draft, node, op, partial, kept=(batch, channels, 1, 1))


def translate_global_max(draft: Draft, node: OnnxNode) -> None:
    """Add two `Pool2d` for GlobalMaxPool, over rows and then over what is left: a cut exchanges little."""
    x = draft.operand(node.inputs[0], node=node)
    batch, channels, height, width = _image_shape(draft, node, x)
    rows = draft.fresh_name(f"{node.output}/rows")
    op = Pool2d(kind=PoolKind.MAX, kernel=(1, width))
    draft.add_node(op, (x,), rows, shape=(batch, channels, height, 1), name=f"{node.name}/rows")
    op = Pool2d(kind=PoolKind.MAX, kernel=(height, 1))
    draft.add_node(op, (rows,), node.output, shape=(batch, channels, 1, 1), name=node.name)


def translate_reduce_mean(draft: Draft, node: OnnxNode) -> None:
    """Add a mean, with a `Reshape` behind it where the model drops the axes.

    Over height and width it is the mean of an image; no axes mean all, or none if the node says so.
    """
    x = draft.operand(node.inputs[0], node=node)
    shape = draft.tensors[x].shape
    stated = draft.integers_of(node, "axes", index=1)
    if not stated and node.integer("noop_with_empty_axes", 0):
        draft.add_alias(node.output, x)
        return
    axes = tuple(sorted({a % len(shape) for a in stated or range(len(shape))}))
    if axes == _IMAGE_AXES and len(shape) == 4:
        translate_global_average(draft, node)
        return
    kept = tuple(1 if axis in axes else length for axis, length in enumerate(shape))
    _add_with_shape(draft, node, ReduceMean(axes=axes), x, kept=kept)


def _add_with_shape(
    draft: Draft, node: OnnxNode, op: CombineRows | ReduceMean, x: str, *, kept: Shape
) -> None:
    """Add a mean that keeps its axes, and a `Reshape` behind it if the model's output has another shape."""
    result = draft.shape(node.output, node=node)
    if result == kept:
        draft.add_node(op, (x,), node.output, shape=kept, name=node.name)
        return
    mean = draft.fresh_name(f"{node.output}/mean")
    draft.add_node(op, (x,), mean, shape=kept, name=f"{node.name}/mean")
    draft.add_node(Reshape(), (mean,), node.output, shape=result, name=node.name)


def _image_shape(draft: Draft, node: OnnxNode, x: str) -> Shape:
    shape = draft.tensors[x].shape
    if len(shape) != 4:
        raise node.unsupported(got=f"an input of {len(shape)} axes", expected="4 (images)")
    return shape


TRANSLATIONS: Translations = {
    "AveragePool": translate_pool,
    "GlobalAveragePool": translate_global_average,
    "GlobalMaxPool": translate_global_max,
    "MaxPool": translate_pool,
    "ReduceMean": translate_reduce_mean,
}

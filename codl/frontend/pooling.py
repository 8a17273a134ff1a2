"""Translations of the poolings; global ones become partial moments and a small combination."""

from codl.frontend.draft import Draft, Translations
from codl.frontend.onnx_node import OnnxNode
from codl.frontend.reducing import find_axes
from codl.frontend.windows import read_window
from codl.ir.graph import Shape
from codl.ir.ops import CombineRows, Pool2d, PoolKind, ReduceMean, RowSum

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
    x, (batch, channels, height, width) = _first_image(draft, node)
    partial = draft.fresh_name(f"{node.output}/rows")
    draft.add_node(RowSum(), (x,), partial, shape=(batch, channels, height, 1), name=f"{node.name}/rows")
    op, kept = CombineRows(scale=1.0 / (height * width)), (batch, channels, 1, 1)
    result = draft.shape(node.output, node=node)
    draft.add_result(op, (partial,), node, shape=kept, result=result, word="mean")


def translate_global_max(draft: Draft, node: OnnxNode) -> None:
    """Add two `Pool2d` for GlobalMaxPool, over rows and then over what is left: a cut exchanges little."""
    x, (batch, channels, height, width) = _first_image(draft, node)
    rows = draft.fresh_name(f"{node.output}/rows")
    op = Pool2d(kind=PoolKind.MAX, kernel=(1, width))
    draft.add_node(op, (x,), rows, shape=(batch, channels, height, 1), name=f"{node.name}/rows")
    op = Pool2d(kind=PoolKind.MAX, kernel=(height, 1))
    draft.add_node(op, (rows,), node.output, shape=(batch, channels, 1, 1), name=node.name)


def translate_reduce_mean(draft: Draft, node: OnnxNode) -> None:
    """Add a mean, with a `Reshape` behind it where the model drops the axes.

    Over height and width it is the mean of an image; no axes mean all, or none if the node says so.
    """
    x, shape = draft.first_operand(node)
    axes = find_axes(draft, node, shape)
    if not axes:
        draft.add_alias(node.output, x)
        return
    if axes == _IMAGE_AXES and len(shape) == 4:
        translate_global_average(draft, node)
        return
    kept = tuple(1 if axis in axes else length for axis, length in enumerate(shape))
    result = draft.shape(node.output, node=node)
    draft.add_result(ReduceMean(axes=axes), (x,), node, shape=kept, result=result, word="mean")


def _first_image(draft: Draft, node: OnnxNode) -> tuple[str, Shape]:
    x, shape = draft.first_operand(node)
    if len(shape) != 4:
        raise node.unsupported(got=f"an input of {len(shape)} axes", expected="4 (images)")
    return x, shape


TRANSLATIONS: Translations = {
    "AveragePool": translate_pool,
    "GlobalAveragePool": translate_global_average,
    "GlobalMaxPool": translate_global_max,
    "MaxPool": translate_pool,
    "ReduceMean": translate_reduce_mean,
}

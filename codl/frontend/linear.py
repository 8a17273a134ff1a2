"""Translations of Conv, ConvTranspose, Gemm and MatMul."""

import numpy as np
import numpy.typing as npt

from codl.frontend.draft import Draft, Translations
from codl.frontend.onnx_node import OnnxNode
from codl.frontend.windows import read_transposed_window, read_window
from codl.ir.ops import Binary, BinaryKind, Conv2d, ConvTranspose2d, MatMul, Op


def translate_conv(draft: Draft, node: OnnxNode) -> None:
    """Add a `Conv2d` or a `ConvTranspose2d`."""
    x, weight = node.inputs[0], node.inputs[1]
    rank = len(draft.shapes.get(x, ()))
    if rank != 4:
        raise node.unsupported(got=f"an input of {rank} axes", expected="4 (2-D convolution)")
    bias = node.optional_input(2)
    constants = [weight] if bias is None else [weight, bias]
    for name in constants:
        draft.value(name, node=node)
    weight_shape, x_shape = draft.shape(weight, node=node), draft.shape(x, node=node)
    shape = draft.shape(node.output, node=node)
    kind: type[Conv2d | ConvTranspose2d] = ConvTranspose2d
    if node.op_type == "Conv":
        kind, window = Conv2d, read_window(node, x=x_shape, weight=weight_shape)
    else:
        window = read_transposed_window(node, x=x_shape, weight=weight_shape, out_shape=shape)
    op = kind(
        kernel=window.kernel,
        stride=window.stride,
        dilation=window.dilation,
        pads=window.pads,
        groups=node.integer("group", 1),
        has_bias=bias is not None,
    )
    inputs = [draft.operand(name, node=node) for name in (x, *constants)]
    draft.add_node(op, inputs, node.output, shape=shape, name=node.name)


def translate_matmul(draft: Draft, node: OnnxNode) -> None:
    """Add a `MatMul`; vectors become matrices of one row or column and back."""
    a, b = (draft.operand(name, node=node) for name in node.inputs[:2])
    a_shape, b_shape = draft.tensors[a].shape, draft.tensors[b].shape
    shape = draft.shape(node.output, node=node)
    if len(a_shape) > 1 and len(b_shape) > 1:
        draft.add_node(MatMul(), (a, b), node.output, shape=shape, name=node.name)
        return
    row = len(a_shape) == 1
    column = len(b_shape) == 1
    if row:
        a = draft.reshape(a, (1, *a_shape), hint=f"{node.output}/row")
    if column:
        b = draft.reshape(b, (*b_shape, 1), hint=f"{node.output}/column")
    batch = shape[: len(shape) - (not row) - (not column)]
    ends = ((1,) if row else (a_shape[-2],)) + ((1,) if column else (b_shape[-1],))
    draft.add_result(MatMul(), (a, b), node, shape=(*batch, *ends), result=shape, word="matrix")


def translate_gemm(draft: Draft, node: OnnxNode) -> None:
    """Add a `MatMul` with alpha, beta and transpositions in its constants; C follows if it is no bias."""
    a_name, b_name, c_name = node.inputs[0], node.inputs[1], node.optional_input(2)
    if node.number("beta", 1.0) == 0:  # of C not even NaN is left
        c_name = None
    alpha = node.number("alpha", 1.0)
    shape = draft.shape(node.output, node=node)
    is_folded = alpha == 1.0 or b_name in draft.values
    a = _matrix(draft, node, a_name, transposed=bool(node.integer("transA", 0)), scale=1.0)
    b = _matrix(
        draft, node, b_name, transposed=bool(node.integer("transB", 0)), scale=alpha if is_folded else 1.0
    )
    bias = _bias(draft, node, columns=shape[1]) if is_folded and c_name else None
    product = (a, b) if bias is None else (a, b, bias)
    steps: list[tuple[Op, tuple[str, ...]]] = [(MatMul(has_bias=bias is not None), product)]
    if not is_folded:
        steps.append((Binary(kind=BinaryKind.MUL), (draft.add_constant(f"{node.output}/alpha", alpha),)))
    if c_name and bias is None:
        steps.append((Binary(kind=BinaryKind.ADD), (_addend(draft, node, c_name),)))
    previous: tuple[str, ...] = ()
    for index, (op, inputs) in enumerate(steps):
        is_last = index == len(steps) - 1
        output = node.output if is_last else draft.fresh_name(f"{node.output}/step{index + 1}")
        name = node.name if is_last else f"{node.name}/step{index + 1}"
        previous = (draft.add_node(op, (*previous, *inputs), output, shape=shape, name=name),)


def _matrix(draft: Draft, node: OnnxNode, name: str, *, transposed: bool, scale: float) -> str:
    """Return an operand of Gemm, transposed and scaled where it is a constant."""
    operand = draft.operand(name, node=node)
    if not transposed and scale == 1.0:
        return operand
    if name not in draft.values:
        raise node.unsupported(
            got=f"a transposition of {name!r}, computed at run time", expected="a constant"
        )
    value = draft.values[name] if scale == 1.0 else _double(draft.values[name]) * scale
    return draft.add_constant(f"{name}/matrix", value.T if transposed else value)


def _bias(draft: Draft, node: OnnxNode, *, columns: int) -> str | None:
    """Return C of Gemm times beta as [N], or None where it is no constant or differs between rows."""
    name, beta = node.inputs[2], node.number("beta", 1.0)
    value = draft.values.get(name)
    if value is None or (value.ndim == 2 and value.shape[0] != 1):
        return None
    if beta == 1.0 and value.shape == (columns,):
        return draft.operand(name, node=node)
    return draft.add_constant(f"{name}/bias", np.broadcast_to(_double(value).reshape(-1) * beta, (columns,)))


def _addend(draft: Draft, node: OnnxNode, name: str) -> str:
    """Return C of Gemm times beta, as a constant or behind a product of its own."""
    operand, beta = draft.operand(name, node=node), node.number("beta", 1.0)
    if beta == 1.0:
        return operand
    if name in draft.values:
        return draft.add_constant(f"{name}/scaled", _double(draft.values[name]) * beta)
    factor = draft.add_constant(f"{node.output}/beta", beta)
    target = draft.fresh_name(f"{name}/scaled")
    shape = draft.tensors[operand].shape
    return draft.add_node(Binary(kind=BinaryKind.MUL), (operand, factor), target, shape=shape)


def _double(value: npt.NDArray[np.generic]) -> npt.NDArray[np.float64]:
    return np.asarray(value, dtype=np.float64)


TRANSLATIONS: Translations = {
    "Conv": translate_conv,
    "ConvTranspose": translate_conv,
    "Gemm": translate_gemm,
    "MatMul": translate_matmul,
}

"""The expected output of a node: the operator as ONNX has it, computed by ONNX Runtime."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from codl.ir import ops
from codl.ir.graph import FloatArray, Graph, Node
from codl.runtime import onnxruntime

_OPSET, _IR_VERSION = 17, 8
_RESULT, _SUM, _ACTIVATED, _PRODUCT, _CHANNELS, _FACTOR, _SUMMAND, _LEAST, _MOST = (
    f"{name} of the reference"
    for name in ("result", "sum", "activation", "product", "channels", "factor", "summand", "least", "most")
)
_BINARIES = {
    ops.BinaryKind.ADD: "Add",
    ops.BinaryKind.MUL: "Mul",
    ops.BinaryKind.SUB: "Sub",
    ops.BinaryKind.DIV: "Div",
    ops.BinaryKind.PRELU: "PRelu",
}


def compute_reference(graph: Graph, feeds: Mapping[str, FloatArray]) -> FloatArray | None:
    """Return ONNX Runtime's output of a graph of one node, or None for an operator with no ONNX form here.

    Args:
        graph: The node with its constants.
        feeds: Its other inputs by name.
    """
    (node,) = graph.nodes
    body = _translate(node, graph)
    if body is None:
        return None
    values = {**feeds, **{name: graph.constants[name] for name in node.inputs if name in graph.constants}}
    extra: dict[str, FloatArray] = {}
    nodes = [*body, *_translate_epilogue(node, extra)]
    values |= extra
    opset = max(_OPSET, ops.FUNCTIONS[node.epilogue.activation.kind].opset)
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "reference",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape) for n, v in values.items()],
            [helper.make_tensor_value_info(node.output, TensorProto.FLOAT, graph.shape(node.output))],
        ),
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=_IR_VERSION,
    )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # Its threads would spin on for 30 ms and take a core from what is measured next.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    result: FloatArray = session.run([node.output], values)[0]
    return result


def relative_error(value: FloatArray, reference: FloatArray) -> float:
    """Return max|value - reference| / max|reference|; infinite for NaN, Inf or another shape."""
    if value.shape != reference.shape or not np.isfinite(value).all():
        return float("inf")
    scale = float(np.abs(reference).max(initial=0.0)) or 1.0
    return float(np.abs(value.astype(np.float64) - reference).max(initial=0.0)) / scale


def _translate(node: Node, graph: Graph) -> Sequence[onnx.NodeProto] | None:
    op, own = node.op, list(node.inputs[:-1] if node.residual else node.inputs)
    match op:
        case ops.Conv2d() | ops.ConvTranspose2d():
            attributes = {
                "kernel_shape": op.kernel,
                "strides": op.stride,
                "dilations": op.dilation,
                "pads": op.pads,
                "group": op.groups,
            }
            if isinstance(op, ops.ConvTranspose2d):
                attributes["output_padding"] = _find_output_padding(op, node, graph)
            name = "Conv" if isinstance(op, ops.Conv2d) else "ConvTranspose"
            return [helper.make_node(name, own, [_RESULT], **attributes)]
        case ops.MatMul():
            product = helper.make_node("MatMul", own[:2], [_PRODUCT if op.has_bias else _RESULT])
            if not op.has_bias:
                return [product]
            return [product, helper.make_node("Add", [_PRODUCT, own[2]], [_RESULT])]
        case ops.Pool2d():
            return _translate_pool(op, own[0], node, graph)
        case ops.Binary():
            return [helper.make_node(_BINARIES[op.kind], own, [_RESULT])]
        case ops.Unary():
            return [helper.make_node("Identity", own, [_RESULT])]
        case ops.Affine():
            return _translate_affine(own, graph)
        case ops.Concat():
            return [helper.make_node("Concat", own, [_RESULT], axis=op.axis)]
        case ops.Softmax():
            return [helper.make_node("Softmax", own, [_RESULT], axis=op.axis)]
        case _:
            return None


def _find_output_padding(op: ops.ConvTranspose2d, node: Node, graph: Graph) -> tuple[int, int]:
    """Return by how much the output is longer than the window rule alone says."""
    x, y = graph.shape(node.inputs[0]), graph.shape(node.output)
    top, left, bottom, right = op.pads
    rule = [
        (x[2 + i] - 1) * op.stride[i] + (op.kernel[i] - 1) * op.dilation[i] + 1 - pads
        for i, pads in enumerate((top + bottom, left + right))
    ]
    return y[2] - rule[0], y[3] - rule[1]


def _translate_pool(op: ops.Pool2d, x: str, node: Node, graph: Graph) -> Sequence[onnx.NodeProto] | None:
    """Return a pooling; None where its rounding is not the plain one."""
    shape, out = graph.shape(x), graph.shape(node.output)
    for i in range(2):
        reach = (op.kernel[i] - 1) * op.dilation[i] + 1
        if (shape[2 + i] + op.pads[i] + op.pads[2 + i] - reach) // op.stride[i] + 1 != out[2 + i]:
            return None
    attributes = {"kernel_shape": op.kernel, "strides": op.stride, "pads": op.pads}
    if op.kind is ops.PoolKind.MAX:
        return [helper.make_node("MaxPool", [x], [_RESULT], dilations=op.dilation, **attributes)]
    if op.dilation != (1, 1):
        return None
    counting = int(op.counts_padding)
    return [helper.make_node("AveragePool", [x], [_RESULT], count_include_pad=counting, **attributes)]


def _translate_affine(own: Sequence[str], graph: Graph) -> Sequence[onnx.NodeProto]:
    x, scale, shift = own
    axes = [-1] + [1] * (len(graph.shape(x)) - 2)
    shape = helper.make_tensor("shape", TensorProto.INT64, [len(axes)], axes)
    return [
        helper.make_node("Constant", [], [_CHANNELS], value=shape),
        helper.make_node("Reshape", [scale, _CHANNELS], [_FACTOR]),
        helper.make_node("Reshape", [shift, _CHANNELS], [_SUMMAND]),
        helper.make_node("Mul", [x, _FACTOR], [_PRODUCT]),
        helper.make_node("Add", [_PRODUCT, _SUMMAND], [_RESULT]),
    ]


def _translate_epilogue(node: Node, extra: dict[str, FloatArray]) -> list[onnx.NodeProto]:
    """Return what follows the operator; bounds of Clip are added to ``extra``."""
    residual, order = node.residual, node.epilogue.residual
    if residual is not None and order is ops.ResidualOrder.BEFORE:
        add = helper.make_node("Add", [_RESULT, residual], [_SUM])
        return [add, _translate_activation(node.epilogue.activation, _SUM, node.output, extra)]
    if residual is not None:
        first = _translate_activation(node.epilogue.activation, _RESULT, _ACTIVATED, extra)
        return [first, helper.make_node("Add", [_ACTIVATED, residual], [node.output])]
    return [_translate_activation(node.epilogue.activation, _RESULT, node.output, extra)]


def _translate_activation(
    activation: ops.Activation, source: str, target: str, extra: dict[str, FloatArray]
) -> onnx.NodeProto:
    if activation.kind is ops.ActivationKind.CLIP:
        extra[_LEAST] = np.array(activation.alpha, np.float32)
        extra[_MOST] = np.array(activation.beta, np.float32)
        return helper.make_node("Clip", [source, _LEAST, _MOST], [target])
    function = ops.FUNCTIONS[activation.kind]
    attributes = {name: float(getattr(activation, name)) for name in function.attributes}
    return helper.make_node(function.operator, [source], [target], **attributes)

"""Models of one or two nodes for tests of sessions."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.frontend.onnx_models import make_model, node

WEIGHTS = np.array([1.0, 2.0, 3.0], np.float32)


def relu_model(shape: list[int | str | None], *, output: list[int | str | None] | None = None) -> bytes:
    """Return y = relu(x)."""
    model = make_model([node("Relu", ["x"], ["y"])], inputs={"x": shape})
    if output is not None:
        model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, output))
    data: bytes = model.SerializeToString()
    return data


def scale_model(*, ir_version: int = 8) -> onnx.ModelProto:
    """Return y = x * w, where w is an initializer and an input; from IR 4 on it may be fed."""
    graph = helper.make_graph(
        [node("Mul", ["x", "w"], ["y"])],
        "scale",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3]),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [3]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
        [numpy_helper.from_array(WEIGHTS, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=ir_version)

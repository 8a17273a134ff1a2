"""Small ONNX models, and the comparison of what the frontend makes of them with ONNX Runtime."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import codl
from codl.frontend import load_graph
from codl.ir.graph import Graph
from tests.graph_reference import evaluate
from tests.oracle import NETWORK_TOLERANCE, random_feeds, relative_error

node = helper.make_node


def random_array(*shape: int, seed: int = 1) -> npt.NDArray[np.float32]:
    """Return standard-normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def make_model(
    nodes: Sequence[onnx.NodeProto],
    *,
    inputs: Mapping[str, Sequence[int | str | None]],
    outputs: Sequence[str] = ("y",),
    constants: Mapping[str, npt.NDArray[Any]] | None = None,
    opset: int = 17,
    ir_version: int = 8,
    types: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    """Return a model; outputs declare no shape; inputs and outputs are float32 unless ``types`` says more."""
    kinds = types or {}
    tensors = [numpy_helper.from_array(np.asarray(v), name) for name, v in (constants or {}).items()]
    feeds = [
        helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), shape)
        for name, shape in inputs.items()
    ]
    if ir_version < 4:
        feeds += [helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in tensors]
    results = [
        helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), None) for name in outputs
    ]
    graph = helper.make_graph(list(nodes), "model", feeds, results, tensors)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version, producer_name="test"
    )


def check_translation(model: onnx.ModelProto, *, infers_shapes: bool = True) -> Graph:
    """Return the graph of ``model``, having asserted that it computes what ONNX Runtime computes.

    Args:
        model: Its inputs have fixed shapes.
        infers_shapes: Whether ONNX's shape inference is right about the model: then shapes are compared too.
    """
    data = model.SerializeToString()
    graph = load_graph(data)
    feeds = random_feeds(model)
    session = open_onnxruntime(data)
    names = [output.name for output in session.get_outputs()]
    expected = session.run(names, dict(feeds))
    actual = evaluate(graph, feeds)
    assert [graph.original_names.get(name, name) for name in graph.outputs] == names
    for name, reference in zip(graph.outputs, expected, strict=True):
        assert relative_error(actual[name].astype(np.float32), reference) <= NETWORK_TOLERANCE, name
    if infers_shapes:
        _check_shapes(model, graph)
    return graph


def check_host(model: onnx.ModelProto, *, reason: str) -> Graph:
    """Return the graph of ``model``, having asserted that it has host calls, why, and that it computes right.

    Args:
        model: Its inputs have fixed shapes.
        reason: Part of a reason why a node runs on the host.
    """
    data, feeds = model.SerializeToString(), random_feeds(model)
    with codl.InferenceSession(data) as session:
        outputs, graph = session.run(None, feeds), session.graph
    reasons = [text for part in graph.host_models.values() for text in part.reasons]
    assert any(reason in text for text in reasons), reasons
    names = [output.name for output in model.graph.output]
    for name, value, reference in zip(names, outputs, open_onnxruntime(data).run(names, feeds), strict=True):
        assert relative_error(value, reference) <= NETWORK_TOLERANCE, name
    return graph


def open_onnxruntime(data: bytes) -> Any:
    """Return ONNX Runtime's session of a model as it is, nothing rewritten."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def _check_shapes(model: onnx.ModelProto, graph: Graph) -> None:
    """Assert that tensors which kept their names have the shapes that ONNX infers for the model as given."""
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    for value in (*inferred.value_info, *inferred.output, *inferred.input):
        dims = value.type.tensor_type.shape.dim
        if value.name in graph.tensors and dims and all(d.HasField("dim_value") for d in dims):
            assert graph.shape(value.name) == tuple(d.dim_value for d in dims), value.name

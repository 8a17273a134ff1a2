"""Models are taken as onnxruntime takes them: odd declarations, empty tensors, what only it can prepare."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import codl
from tests.frontend.onnx_models import make_model, node, random_array
from tests.session.models import relu_model
from tests.session.test_shapes import describe, open_onnxruntime


def open_codl(data: bytes, **options: Any) -> codl.InferenceSession:
    """Return a session on one device: what is declared is read in the same way for all plans."""
    chosen = codl.SessionOptions(devices=["intel-cpu"], planner="single:intel-cpu", **options)
    return codl.InferenceSession(data, chosen)


def check_runs(data: bytes, *feeds: dict[str, Any]) -> codl.InferenceSession:
    """Return a session that describes its arguments and answers every feed as onnxruntime does."""
    session, reference = open_codl(data), open_onnxruntime(data)
    assert describe(session) == describe(reference)
    for feed in feeds:
        for value, expected in zip(session.run(None, feed), reference.run(None, feed), strict=True):
            assert (value.dtype, value.shape) == (expected.dtype, expected.shape)
            np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)
    return session


@pytest.mark.parametrize("length", [-1, -7])
def test_negative_lengths_are_open(length: int) -> None:
    data = relu_model([length, 3, "?", "?"], output=[length, 3, "?", "?"])

    check_runs(data, {"x": random_array(1, 3, 2, 2)}, {"x": random_array(2, 3, 4, 5)})


def test_length_of_zero_is_meant_as_it_stands() -> None:
    data = relu_model([0, 3], output=[0, 3])

    session = check_runs(data, {"x": random_array(0, 3)})

    with pytest.raises(codl.InputError, match=r"'x': got shape \[1, 3\]"):
        session.run(None, {"x": random_array(1, 3)})


def test_input_without_shape_takes_any() -> None:
    model = make_model([node("Relu", ["x"], ["y"])], inputs={"x": []})
    model.graph.input[0].type.tensor_type.ClearField("shape")

    session = check_runs(
        model.SerializeToString(),
        *({"x": random_array(*shape)} for shape in ((), (3,), (1, 3, 2, 2), (0, 2))),
    )

    with pytest.raises(codl.InputError, match="expected float32 of shape any"):
        session.run(None, {"x": np.zeros(2)})


def test_output_listed_twice_comes_twice() -> None:
    model = make_model([node("Relu", ["x"], ["y"])], inputs={"x": ["N"]}, outputs=["y", "y"])

    session = check_runs(model.SerializeToString(), {"x": random_array(3)})
    first, second, third = session.run(["y", "y", "y"], {"x": random_array(3)})

    assert not np.shares_memory(first, second)
    assert not np.shares_memory(first, third)


EMPTY: dict[str, tuple[list[onnx.NodeProto], dict[str, list[int | str | None]], list[dict[str, Any]]]] = {
    "past of a decoder": (
        [node("Concat", ["past", "x"], ["all"], axis=2), node("Relu", ["all"], ["y"])],
        {"past": [1, 2, "P", 8], "x": [1, 2, 3, 8]},
        [{"past": random_array(1, 2, length, 8), "x": random_array(1, 2, 3, 8)} for length in (0, 4, 0)],
    ),
    "no detections": (
        [
            node("Softmax", ["x"], ["s"], axis=1),
            node("TopK", ["s", "k"], ["t", "i"], axis=1),
            node("Relu", ["t"], ["y"]),
        ],
        {"x": ["N", 4]},
        [{"x": random_array(0, 4)}, {"x": random_array(3, 4)}],
    ),
    "convolution of nothing": (
        [node("Conv", ["x", "w"], ["c"]), node("Relu", ["c"], ["y"])],
        {"x": ["N", 3, 4, 4]},
        [{"x": random_array(0, 3, 4, 4)}],
    ),
    "product over nothing": (
        [node("MatMul", ["x", "x2"], ["y"])],
        {"x": [2, "K"], "x2": ["K", 3]},
        [{"x": random_array(2, 0), "x2": random_array(0, 3)}],
    ),
    "sum over nothing": (
        [node("ReduceSum", ["x"], ["y"], keepdims=0)],
        {"x": ["N", 3]},
        [{"x": random_array(0, 3)}],
    ),
}


@pytest.mark.parametrize("name", EMPTY)
def test_empty_tensors_are_computed(name: str) -> None:
    nodes, inputs, feeds = EMPTY[name]
    constants = {"w": random_array(2, 3, 3, 3), "k": np.array([2])}
    used = {i for n in nodes for i in n.input}
    model = make_model(nodes, inputs=inputs, constants={k: v for k, v in constants.items() if k in used})
    data = model.SerializeToString()
    session, reference = open_codl(data), open_onnxruntime(data)

    for feed in feeds:
        (value,), (expected,) = session.run(None, feed), reference.run(None, feed)
        assert value.shape == expected.shape
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)


def choice_model(front: list[onnx.NodeProto], extra: dict[str, list[int | str | None]]) -> bytes:
    """Return a model whose branches want different ranks of q: for a given x only one of them is valid."""

    def lstm(x: str, y: str) -> onnx.NodeProto:
        return node("LSTM", [x, "w", "r"], [y], hidden_size=4)

    def branch(name: str, nodes: list[onnx.NodeProto], output: str) -> onnx.GraphProto:
        value = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
        return helper.make_graph(nodes, name, [], [value])

    branches = {
        "then_branch": branch("then", [lstm("q", "t")], "t"),
        "else_branch": branch("else", [node("Unsqueeze", ["q", "zero"], ["u"]), lstm("u", "e")], "e"),
    }
    nodes = [*front, node("Equal", ["sr", "three"], ["c"]), node("If", ["c"], ["y"], **branches)]
    constants = {
        "w": random_array(1, 16, 5),
        "r": random_array(1, 16, 4),
        "zero": np.array([0]),
        "three": np.array(3),
    }
    model = make_model(
        nodes,
        inputs={"x": ["A", "B", "C"], "sr": [], **extra},
        constants=constants,
        types={"sr": TensorProto.INT64, "s": TensorProto.INT64},
    )
    data: bytes = model.SerializeToString()
    return data


CHOICES = {
    "squeeze": choice_model([node("Squeeze", ["x"], ["q"])], {}),
    "reshape": choice_model([node("Reshape", ["x", "s"], ["q"])], {"s": ["R"]}),
}


@pytest.mark.parametrize("name", CHOICES)
def test_model_that_only_runs_as_declared_runs_on_the_host(name: str) -> None:
    shapes = {"s": np.array([2, 3, 5])}, {"s": np.array([3, 5])}
    sample: list[dict[str, Any]] = [
        {"x": random_array(2, 3, 5), "sr": np.array(3)},
        {"x": random_array(3, 1, 5), "sr": np.array(4)},
    ]
    if name == "reshape":
        sample = [given | shape for given, shape in zip(sample, shapes, strict=True)]

    session = check_runs(CHOICES[name], *sample)

    if name == "squeeze":
        (model,) = session.graph.host_models.values()
        assert "If" in model.operators
        assert "as a whole: ONNX Runtime refuses it" in model.reasons[0]


def test_what_onnxruntime_refuses_as_declared_too_stays_broken() -> None:
    data = make_model([node("MatMul", ["x", "x"], ["y"])], inputs={"x": [2, 3]}).SerializeToString()

    with pytest.raises(codl.ModelError, match="equal inner dimensions"):
        codl.InferenceSession(data)


def weights_elsewhere() -> tuple[bytes, bytes]:
    """Return a model that adds weights from a file, and the file's content."""
    weights = np.arange(64, dtype=np.float32)
    model = make_model([node("Add", ["x", "w"], ["y"])], inputs={"x": [64]})
    tensor = model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[64])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "w.bin", "offset": "16", "length": "256"}.items():
        tensor.external_data.add(key=key, value=value)
    return model.SerializeToString(), bytes(16) + weights.tobytes()


def test_bytes_find_their_weights_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, content = weights_elsewhere()
    (tmp_path / "w.bin").write_bytes(content)
    monkeypatch.chdir(tmp_path)

    check_runs(data, {"x": random_array(64)})


@pytest.mark.parametrize("form", [bytes, bytearray, lambda content: np.frombuffer(content, np.uint8)])
def test_files_of_weights_may_be_in_memory(form: Any) -> None:
    data, content = weights_elsewhere()
    results = []
    for module in (codl, pytest.importorskip("onnxruntime")):
        options = module.SessionOptions()
        options.add_external_initializers_from_files_in_memory(["w.bin"], [form(content)], [len(content)])
        session = module.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        results.append(session.run(None, {"x": np.ones(64, np.float32)})[0].tolist())

    assert results[0] == results[1]


@pytest.mark.parametrize(("names", "lengths"), [(["w.bin"], [400]), (["w.bin", "v"], [1])])
def test_files_in_memory_without_enough_bytes_are_refused(names: list[str], lengths: list[int]) -> None:
    _, content = weights_elsewhere()

    with pytest.raises(codl.InputError, match="external file"):
        codl.SessionOptions().add_external_initializers_from_files_in_memory(names, [content], lengths)


def test_weights_that_are_not_in_their_file_are_refused() -> None:
    data, content = weights_elsewhere()
    options = codl.SessionOptions()
    options.add_external_initializers_from_files_in_memory(["w.bin"], [content], [9])

    with pytest.raises(codl.ModelError, match=r"bytes 16 to 272 of 'w.bin'"):
        codl.InferenceSession(data, options)

"""Files, bytes, external weights, old versions, and free dimensions."""

import errno
from pathlib import Path

import onnx
import onnxruntime
import pytest

from codl.errors import CodlError, ModelError
from codl.frontend import Argument, load_graph, load_model
from tests.disks import small_disk
from tests.frontend.onnx_models import check_host, check_translation, make_model, node, random_array


def latest_opset() -> int:
    """Return the newest opset that the installed ONNX Runtime accepts."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for opset in range(onnx.defs.onnx_opset_version(), 7, -1):
        model = make_model([node("Relu", ["x"], ["y"])], inputs={"x": [1]}, opset=opset)
        try:
            onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"], enable_fallback=0
            )
        except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
            continue
        return opset
    return 7


def small_net(*, opset: int = 17, ir_version: int = 8, batch: int | str | None = 1) -> onnx.ModelProto:
    constants = {"w": random_array(4, 3, 3, 3), "b": random_array(4), "v": random_array(4, 5)}
    constants["c"] = random_array(5)
    nodes = [
        node("Conv", ["x", "w", "b"], ["a"], pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["r"]),
        node("AveragePool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("GlobalAveragePool", ["p"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("Gemm", ["f", "v", "c"], ["s"]),
        node("Softmax", ["s"], ["y"], axis=1),
    ]
    return make_model(
        nodes, inputs={"x": [batch, 3, 8, 8]}, constants=constants, opset=opset, ir_version=ir_version
    )


@pytest.mark.parametrize("opset", range(7, latest_opset() + 1))
def test_reads_opset(opset: int) -> None:
    graph = check_translation(small_net(opset=opset))

    assert [n.kind for n in graph.nodes] == [
        *("Conv2d", "Pool2d", "RowSum", "CombineRows", "Reshape", "MatMul", "Softmax")
    ]


@pytest.mark.parametrize("ir_version", range(3, 11))
def test_reads_ir_version(ir_version: int) -> None:
    graph = check_translation(small_net(opset=9, ir_version=ir_version))

    assert graph.inputs == ("x",)


def test_takes_initializers_that_are_inputs_of_a_new_model_as_constants() -> None:
    model = small_net()
    model.graph.input.append(onnx.helper.make_tensor_value_info("w", 1, [4, 3, 3, 3]))

    loaded = load_model(model.SerializeToString())

    assert [a.name for a in loaded.inputs] == ["x"]
    assert "w" in loaded.graph.constants


def test_describes_arguments_as_declared(tmp_path: Path) -> None:
    model = small_net(batch="batch")
    model.graph.output[0].type.tensor_type.shape.dim.add(dim_param="batch")
    model.graph.output[0].type.tensor_type.shape.dim.add(dim_value=5)
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())

    loaded = load_model(path, dimensions={"batch": 3})

    assert loaded.inputs == (Argument(name="x", shape=("batch", 3, 8, 8), type="tensor(float)"),)
    assert loaded.outputs == (Argument(name="y", shape=("batch", 5), type="tensor(float)"),)
    assert loaded.graph.shape("x") == (3, 3, 8, 8)
    assert loaded.graph.shape("y") == (3, 5)
    assert loaded.path == str(path)


def test_describes_an_undeclared_output_by_its_computed_shape() -> None:
    loaded = load_model(small_net().SerializeToString())

    assert loaded.outputs == (Argument(name="y", shape=(1, 5), type="tensor(float)"),)
    assert loaded.path is None


@pytest.mark.parametrize(("batch", "name"), [("batch", "batch"), (None, "x[0]")])
def test_says_which_dimensions_are_free_and_how_to_bind_them(batch: str | None, name: str) -> None:
    data = small_net(batch=batch).SerializeToString()

    with pytest.raises(ModelError) as caught:
        load_graph(data)
    bound = load_graph(data, dimensions={name: 2})

    assert f"got free dimensions ['{name}'], expected numbers" in str(caught.value)
    assert f"dimensions={{'{name}': 1}}" in str(caught.value)
    assert bound.shape("x") == (2, 3, 8, 8)


@pytest.mark.parametrize(("given", "got"), [({"bach": 2}, "'bach'"), ({"batch": -1}, "-1")])
def test_refuses_values_of_dimensions(given: dict[str, int], got: str) -> None:
    with pytest.raises(ModelError, match=rf"got .*{got}.*expected"):
        load_graph(small_net(batch="batch").SerializeToString(), dimensions=given)


def test_reads_weights_beside_the_model(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save_model(small_net(), path, save_as_external_data=True, location="net.bin", size_threshold=0)

    graph = load_graph(str(path))

    assert graph.shape("w") == (4, 3, 3, 3)


def test_names_weights_that_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save_model(small_net(), path, save_as_external_data=True, location="net.bin", size_threshold=0)
    data = path.read_bytes()
    (tmp_path / "net.bin").unlink()

    with pytest.raises(ModelError, match=r"net\.onnx: got .*net\.bin.*expected the external weights"):
        load_graph(path)
    with pytest.raises(ModelError, match=r"net\.bin.*expected the external weights"):
        load_graph(data)


def test_simplifies_a_model_with_large_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codl.frontend.simplify._MESSAGE_LIMIT_BYTES", 0)
    monkeypatch.setattr("codl.frontend.simplify._BESIDE_LEAST_BYTES", 1)

    check_translation(small_net())


def test_a_full_disk_is_no_fault_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("codl.frontend.simplify._MESSAGE_LIMIT_BYTES", 0)
    monkeypatch.setattr("onnx.save_model", fail)

    with pytest.raises(CodlError, match=r"No space left.*set TMPDIR"):
        load_graph(small_net().SerializeToString())


def test_a_disk_that_fills_while_onnx_runtime_writes_is_none_either() -> None:
    data = small_net().SerializeToString()

    with small_disk(1), pytest.raises(CodlError, match=r"too large.*set TMPDIR"):
        load_graph(data)


@pytest.mark.parametrize(
    ("kind", "word", "reason"),
    [
        (onnx.TensorProto.DOUBLE, "double", "'x' of tensor(double), expected tensor(float)"),
        (onnx.TensorProto.INT64, "int64", "'x' of tensor(int64), expected tensor(float)"),
        (onnx.TensorProto.FLOAT16, "float16", "no kernel for Cast"),  # which ONNX Runtime puts around the Add
    ],
)
def test_leaves_other_types_to_the_host(kind: int, word: str, reason: str) -> None:
    add = node("Add", ["x", "x"], ["y"])
    model = make_model([add], inputs={"x": [2, 3]}, types={"x": kind, "y": kind})

    graph = check_host(model, reason=reason)

    assert graph.tensors["x"].type == f"tensor({word})"


def test_input_without_shape_cannot_be_planned_for() -> None:
    model = make_model([node("Relu", ["x"], ["y"])], inputs={"x": [2]})
    model.graph.input[0].type.tensor_type.ClearField("shape")

    with pytest.raises(ModelError, match=r"inputs \['x'\]: got no shape"):
        load_graph(model.SerializeToString())

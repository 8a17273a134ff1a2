"""The backend interface of ONNX, against ONNX's own reference evaluator."""

import subprocess
import sys
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import codl
import codl.backend
from tests.frontend.onnx_models import make_model, random_array
from tests.oracle import relative_error
from tests.processes import clean_environment
from tests.session.models import relu_model

NODES: dict[str, tuple[onnx.NodeProto, list[Any]]] = {
    "relu": (helper.make_node("Relu", ["x"], ["y"]), [random_array(2, 3)]),
    "add": (helper.make_node("Add", ["a", "b"], ["y"]), [random_array(2, 3), random_array(2, 3, seed=2)]),
    "max pool": (
        helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2]),
        [random_array(1, 4, 9, 9)],
    ),
    "softmax": (helper.make_node("Softmax", ["x"], ["y"], axis=1), [random_array(2, 5)]),
    "same twice": (helper.make_node("Mul", ["x", "x"], ["y"]), [random_array(2, 5)]),
}


@pytest.mark.parametrize(("node", "inputs"), NODES.values(), ids=NODES)
def test_node_computes_what_the_reference_computes(node: onnx.NodeProto, inputs: list[Any]) -> None:
    names = list(dict.fromkeys(node.input))
    model = make_model([node], inputs={n: v.shape for n, v in zip(names, inputs, strict=True)})
    expected = ReferenceEvaluator(model).run(None, dict(zip(names, inputs, strict=True)))

    for version in (None, 17):
        (output,) = codl.backend.run_node(node, inputs, opset_version=version)
        assert relative_error(output, expected[0]) < 1e-5


@pytest.mark.parametrize("form", ["array", "list", "mapping"])
def test_model_takes_inputs_of_every_form(form: str) -> None:
    value = random_array(2, 3)
    inputs = {"array": value, "list": [value], "mapping": {"x": value}}[form]

    (output,) = codl.backend.run_model(onnx.load_from_string(relu_model([2, 3])), inputs)

    assert np.array_equal(output, np.maximum(value, 0))


def test_prepared_model_runs_again_and_again() -> None:
    prepared = codl.backend.prepare(relu_model(["N", 3]), "CPU:0", intra_op_num_threads=1)

    for rows in (1, 2):
        assert prepared.run(np.full((rows, 3), -1.0, np.float32))[0].tolist() == [[0.0] * 3] * rows


def test_wrong_number_of_inputs_is_refused() -> None:
    with pytest.raises(codl.InputError, match="got 2 values, expected 1"):
        codl.backend.run_model(relu_model([2, 3]), [random_array(2, 3)] * 2)


def test_unknown_option_is_refused() -> None:
    with pytest.raises(codl.InputError, match="colour"):
        codl.backend.prepare(relu_model([2, 3]), colour="red")


@pytest.mark.parametrize(
    ("device", "is_there"),
    [("CPU", True), ("cpu:0", True), ("CPU:99", False), ("CPU:x", False), ("TPU", False)],
)
def test_devices_are_known(device: str, is_there: bool) -> None:
    assert codl.backend.supports_device(device) is is_there


def test_missing_device_is_refused() -> None:
    with pytest.raises(codl.DeviceError, match="'TPU'"):
        codl.backend.prepare(relu_model([2, 3]), "TPU")


def test_compatible_models_are_told_from_others() -> None:
    other = make_model([helper.make_node("Relu", ["x"], ["y"], domain="mine")], inputs={"x": [1]})
    other.opset_import.add(domain="mine", version=1)

    assert codl.backend.is_compatible(relu_model([2, 3]))
    assert not codl.backend.is_compatible(other)


def test_backend_is_not_imported_with_codl() -> None:
    code = "import sys, codl; print('codl.backend' in sys.modules, 'onnx.backend.base' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert done.stdout.split() == ["False", "False"]


def test_index_names_a_device() -> None:
    names = [info.name for info in codl.devices() if info.kind == "cpu"]

    for index, name in enumerate(names):
        with codl.backend.prepare(relu_model([2, 3]), f"CPU:{index}").session as session:
            assert session.plan.devices == (name,)


def test_node_may_have_other_types_than_float32() -> None:
    sorted_values, indices = codl.backend.run_node(
        helper.make_node("TopK", ["x", "k"], ["y", "i"]), [np.array([3, 9, 5]), np.array([2])]
    )
    (signs,) = codl.backend.run_node(
        helper.make_node("Binarizer", ["x"], ["y"], domain="ai.onnx.ml"), [np.array([-1.0, 2.0], np.float32)]
    )

    assert (sorted_values.tolist(), indices.tolist(), signs.tolist()) == ([9, 5], [1, 2], [0.0, 1.0])

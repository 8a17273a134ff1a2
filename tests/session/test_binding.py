"""Bound inputs and outputs, values, and runs that call back."""

import threading
from typing import Any

import numpy as np
import pytest

import codl
from tests.session.models import relu_model

X = np.array([[-1.0, 2.0, 3.0]], np.float32)
Y = [[0.0, 2.0, 3.0]]


@pytest.fixture(scope="module")
def session() -> codl.InferenceSession:
    return codl.InferenceSession(relu_model(["N", 3]))


def test_bound_arrays_are_read_when_it_runs(session: codl.InferenceSession) -> None:
    array = np.zeros_like(X)
    binding = session.io_binding()
    binding.bind_cpu_input("x", array)
    binding.bind_output("y")
    array[:] = X

    session.run_with_iobinding(binding)

    assert [value.tolist() for value in binding.copy_outputs_to_cpu()] == [Y]
    assert [value.shape() for value in binding.get_outputs()] == [[1, 3]]


def test_bound_memory_is_read_and_written(session: codl.InferenceSession) -> None:
    source, target = X.copy(), np.zeros_like(X)
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, (1, 3), source.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, (1, 3), target.ctypes.data)

    session.run_with_iobinding(binding)

    assert target.tolist() == Y


def test_bound_values_are_read_and_written(session: codl.InferenceSession) -> None:
    target = codl.OrtValue.ortvalue_from_shape_and_type([1, 3], np.float32)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", codl.OrtValue.ortvalue_from_numpy(X))
    binding.bind_ortvalue_output("y", target)

    session.run_with_iobinding(binding)
    binding.clear_binding_inputs()
    binding.clear_binding_outputs()

    assert target.numpy().tolist() == Y
    assert binding.get_outputs() == []


def test_memory_of_a_device_cannot_be_bound(session: codl.InferenceSession) -> None:
    with pytest.raises(codl.UnsupportedError, match="'cuda'"):
        session.io_binding().bind_input("x", "cuda", 0, np.float32, (1, 3), 1)


def test_address_without_shape_is_refused(session: codl.InferenceSession) -> None:
    with pytest.raises(codl.InputError, match="'y'"):
        session.io_binding().bind_output("y", buffer_ptr=1)


def test_values_go_in_and_out(session: codl.InferenceSession) -> None:
    (value,) = session.run_with_ort_values(["y"], {"x": codl.OrtValue.ortvalue_from_numpy(X)})

    assert value.numpy().tolist() == Y
    assert (value.data_type(), value.element_type(), value.device_name()) == ("tensor(float)", 1, "cpu")
    assert (value.is_tensor(), value.has_value(), value.is_sparse_tensor()) == (True, True, False)
    assert np.asarray(value).tolist() == Y


def test_value_stands_on_its_array() -> None:
    array = np.zeros(3, np.int64)
    value = codl.OrtValue.ortvalue_from_numpy(array)

    value.update_inplace(np.arange(3))

    assert array.tolist() == [0, 1, 2]
    assert (value.data_type(), value.data_ptr()) == ("tensor(int64)", array.ctypes.data)
    with pytest.raises(codl.InputError, match="float32"):
        value.update_inplace(np.zeros(3, np.float32))


def test_array_of_a_type_that_onnx_lacks_is_refused() -> None:
    with pytest.raises(codl.InputError, match="complex"):
        codl.OrtValue.ortvalue_from_numpy(np.zeros(1, np.longdouble).astype(np.clongdouble))


@pytest.mark.parametrize(("feed", "problem"), [(X, ""), (X[0], "rank 1")])
def test_asynchronous_run_calls_back(session: codl.InferenceSession, feed: Any, problem: str) -> None:
    called = threading.Event()
    got: list[Any] = []

    def receive(*arguments: Any) -> None:
        got.extend(arguments)
        called.set()

    session.run_async(None, {"x": feed}, receive, "mine")

    assert called.wait(60)
    outputs, user_data, error = got
    assert user_data == "mine"
    assert [output.tolist() for output in outputs] == ([] if problem else [Y])
    assert problem in error


def test_run_that_shall_terminate_does_not_run(session: codl.InferenceSession) -> None:
    options = codl.RunOptions()
    assert session.run(None, {"x": X}, options)[0].tolist() == Y
    options.terminate = True

    with pytest.raises(codl.CodlError, match="terminate"):
        session.run(None, {"x": X}, options)

"""Initializers that are inputs too: a feed wins for that run; options may replace any."""

import numpy as np
import onnxruntime
import pytest

import codl
from tests.session.models import WEIGHTS, scale_model

X = np.array([[1.0, 1.0, 2.0]], np.float32)


@pytest.fixture(scope="module")
def session() -> codl.InferenceSession:
    return codl.InferenceSession(scale_model().SerializeToString())


def test_fed_initializer_wins_for_that_run(session: codl.InferenceSession) -> None:
    fed = np.array([5.0, 0.0, -1.0], np.float32)
    data = scale_model().SerializeToString()
    reference = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])

    for feeds in ({"x": X}, {"x": X, "w": fed}, {"x": X}):
        assert np.array_equal(session.run(None, feeds)[0], reference.run(None, feeds)[0])


def test_initializer_that_was_written_into_is_seen(session: codl.InferenceSession) -> None:
    fed = np.zeros(3, np.float32)
    (first,) = session.run(None, {"x": X, "w": fed})
    fed[:] = 1.0

    (second,) = session.run(None, {"x": X, "w": fed})

    assert first.tolist() == [[0.0, 0.0, 0.0]]
    assert second.tolist() == X.tolist()


def test_initializer_of_another_shape_is_refused(session: codl.InferenceSession) -> None:
    with pytest.raises(codl.InputError, match=r"'w'.*shape"):
        session.run(None, {"x": X, "w": np.zeros(4, np.float32)})


def test_initializers_that_may_be_fed_are_listed(session: codl.InferenceSession) -> None:
    (argument,) = session.get_overridable_initializers()

    assert (argument.name, argument.shape, argument.type) == ("w", [3], "tensor(float)")
    assert [argument.name for argument in session.get_inputs()] == ["x"]


def test_initializers_of_old_models_are_constants() -> None:
    session = codl.InferenceSession(scale_model(ir_version=3).SerializeToString())

    assert session.get_overridable_initializers() == []
    with pytest.raises(codl.InputError, match="'w'"):
        session.run(None, {"x": X, "w": WEIGHTS})


def test_options_replace_an_initializer() -> None:
    options = codl.SessionOptions()
    options.add_initializer("w", codl.OrtValue.ortvalue_from_numpy(np.full(3, 2.0, np.float32)))

    (output,) = codl.InferenceSession(scale_model().SerializeToString(), options).run(None, {"x": X})

    assert output.tolist() == (X * 2).tolist()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("v", WEIGHTS, "no such initializer"),
        ("w", WEIGHTS[:2], "shape"),
        ("w", WEIGHTS.astype("f8"), "float64"),
    ],
)
def test_options_that_replace_no_initializer_are_refused(
    name: str, value: np.ndarray[tuple[int], np.dtype[np.float32]], message: str
) -> None:
    options = codl.SessionOptions()
    options.add_initializer(name, value)

    with pytest.raises(codl.InputError, match=message):
        codl.InferenceSession(scale_model().SerializeToString(), options)

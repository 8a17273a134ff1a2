"""Models that were opened before: the next session declares the same without reading them."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import codl
from codl.session import opening
from tests.session.models import scale_model


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODL_CACHE_DIR", str(tmp_path / "cache"))


def open_model(model: bytes | str, **wishes: object) -> codl.InferenceSession:
    return codl.InferenceSession(model, codl.SessionOptions(warm_up="background", **wishes))  # type: ignore[arg-type]


def make_model(shape: str) -> bytes:
    graph = f"agraph (float[{shape}] x) => (float[{shape}] y) {{ y = Abs(x) }}"
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {graph}')
    content: bytes = proto.SerializeToString()
    return content


def describe(session: codl.InferenceSession) -> list[str]:
    return [str(one) for one in (*session.get_inputs(), *session.get_outputs(), session.get_modelmeta())]


def forbid_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("the model was read")

    monkeypatch.setattr(opening, "read_late", fail)


def run(session: codl.InferenceSession) -> list[list[float]]:
    found: list[list[float]] = session.run(None, {"x": np.array([[-1.0, 2.0]], np.float32)})[0].tolist()
    return found


@pytest.mark.parametrize("shape", ["1,2", "n,2"])
@pytest.mark.parametrize("is_file", [False, True])
def test_a_known_model_is_not_read(
    shape: str, is_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model: bytes | str = make_model(shape)
    if isinstance(model, bytes) and is_file:
        (tmp_path / "model.onnx").write_bytes(model)
        model = str(tmp_path / "model.onnx")
    first = open_model(model)
    assert run(first) == [[1.0, 2.0]]
    declared = describe(first)
    first.close()
    forbid_reading(monkeypatch)

    second = open_model(model)

    assert run(second) == [[1.0, 2.0]]
    assert describe(second) == declared


def test_dimensions_and_limits_are_part_of_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model("n,2")
    run(open_model(model))

    bound = open_model(model, free_dimensions={"n": 3})

    assert bound.get_inputs()[0].shape == [3, 2]
    with pytest.raises(codl.ModelError, match="elements"):
        run(open_model(model, limits=codl.Limits(tensor_elements=1)))


def test_values_of_initializers_are_looked_at_each_time() -> None:
    model = scale_model().SerializeToString()
    open_model(model).close()
    options = codl.SessionOptions(warm_up="background")
    options.add_initializer("nothing", np.ones(1, np.float32))

    with pytest.raises(codl.InputError, match="no such initializer"):
        codl.InferenceSession(model, options)


def test_a_broken_model_is_never_known() -> None:
    model = make_model("1,2").replace(b"Abs", b"Abx")
    for _ in range(2):
        with pytest.raises(codl.CodlError):
            open_model(model)


def test_a_file_that_changes_is_not_mixed_up(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(make_model("1,2"))
    run(open_model(str(path)))
    session = open_model(str(path))
    path.write_bytes(make_model("1,2").replace(b"Abs", b"Neg"))

    with pytest.raises(codl.ModelError, match="another content"):
        session.wait()

    assert run(session) == [[1.0, 2.0]]
    assert run(open_model(str(path))) == [[1.0, -2.0]]

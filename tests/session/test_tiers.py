"""Sessions that compile in the background: who answers, who wins, and what happens in the middle of it."""

import logging
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

import codl
from codl.devices.opencl import Device
from codl.errors import BuildError, StoppedError
from codl.session import tiers, variants
from codl.session.resolving import resolve_request
from codl.session.trial import Trial
from tests.exactness import DEVICES

PATIENCE = 120.0
"""Seconds that a test waits for drivers at most."""


def conv_model(batch: int | str = 1, *, channels: int = 8) -> bytes:
    """Return a convolution with ReLU as a model."""
    shape = [batch, 3, 16, 16]
    x = make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = make_tensor_value_info("y", TensorProto.FLOAT, [batch, channels, 16, 16])
    weights = np.random.default_rng(0).standard_normal((channels, 3, 3, 3)).astype(np.float32)
    graph = make_graph(
        [make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), make_node("Relu", ["c"], ["y"])],
        "conv",
        [x],
        [y],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    model: bytes = make_model(graph, opset_imports=[make_opsetid("", 17)], ir_version=8).SerializeToString()
    return model


def feeds(batch: int = 1) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).standard_normal((batch, 3, 16, 16)).astype(np.float32)}


def options(**wishes: object) -> codl.SessionOptions:
    return codl.SessionOptions(warm_up="background", **wishes)  # type: ignore[arg-type]


def expect(model: bytes, batch: int = 1) -> np.ndarray:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, feeds(batch))[0])


def run_script(script: str, **environment: str) -> str:
    """Return what a program writes to stderr; it must end without an error."""
    command, variables = [sys.executable, "-c", script], {**os.environ, **environment}
    done = subprocess.run(
        command, check=False, env=variables, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.fixture(autouse=True)
def _own_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test find what another one found out."""
    kept: dict[str, float] = {}
    monkeypatch.setattr(tiers, "recall_verdict", kept.get)
    monkeypatch.setattr(tiers, "keep_verdict", lambda key, ratio, *, what: kept.update({key: ratio}))


def test_first_runs_are_answered_while_kernels_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    model, may_go_on = conv_model(), threading.Event()
    resolve_request(options(devices=DEVICES))  # what is not known of devices is measured by now
    build = Device.prepare

    def wait_and_build(*args: object) -> object:
        may_go_on.wait(PATIENCE)
        return build(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(Device, "prepare", wait_and_build)
    session = codl.InferenceSession(model, options(devices=DEVICES))

    first = session.run(None, feeds())[0]

    assert session.served_by == "onnxruntime"
    assert not session.ready()
    assert not session.wait(timeout=0.01)
    assert first.tobytes() == expect(model).tobytes()
    may_go_on.set()
    assert session.wait(PATIENCE)
    assert session.ready()
    np.testing.assert_allclose(session.run(None, feeds())[0], first, rtol=1e-4, atol=1e-5)
    assert set(session.plan.devices) <= set(DEVICES)
    assert not session._tiers.is_host_open


def test_onnxruntime_is_gone_when_memory_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    session = codl.InferenceSession(conv_model(), options(devices=DEVICES))
    assert session.wait(PATIENCE)
    host, found = weakref.ref(session._tiers._host), []
    monkeypatch.setattr(session._tiers.worker, "submit", lambda job: found.append(host()))

    session.run(None, feeds())

    assert found == [None]


def test_callback_comes_when_kernels_are_ready() -> None:
    called = threading.Event()
    session = codl.InferenceSession(conv_model(), options(devices=DEVICES))

    session.when_ready(lambda ready: called.set() if ready.ready() else None)

    assert called.wait(PATIENCE)


@pytest.mark.parametrize("is_host", [True, False])
def test_the_faster_side_goes_on(is_host: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trial, "find_winner", lambda trial: is_host if trial._runs >= 16 else None)
    model = conv_model()
    session = codl.InferenceSession(model, options())
    assert session.wait(PATIENCE)

    results = [session.run(None, feeds())[0] for _ in range(20)]

    assert session.served_by == ("onnxruntime" if is_host else "codl")
    assert all(np.allclose(result, expect(model), rtol=1e-4, atol=1e-5) for result in results)
    assert session.plan.steps
    assert session.graph.nodes


def test_what_was_slower_before_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trial, "find_winner", lambda trial: True if trial._runs >= 16 else None)
    model = conv_model()
    session = codl.InferenceSession(model, options())
    session.wait(PATIENCE)
    for _ in range(16):
        session.run(None, feeds())
    monkeypatch.setattr(variants, "compile_plan", None)

    again = codl.InferenceSession(model, options())
    assert again.wait(PATIENCE)

    assert again.run(None, feeds())[0].tobytes() == expect(model).tobytes()
    assert again.served_by == "onnxruntime"


def test_named_devices_are_used_however_fast_they_are() -> None:
    session = codl.InferenceSession(conv_model(), options(devices=DEVICES[:1]))
    session.wait(PATIENCE)

    session.run(None, feeds())

    assert session.served_by == "codl"
    assert session.plan.devices == tuple(DEVICES[:1])


def test_shapes_that_come_once_are_not_compiled() -> None:
    model = conv_model("N")
    session = codl.InferenceSession(model, options())

    for batch in range(1, 6):
        result = session.run(None, feeds(batch))[0]
        assert result.tobytes() == expect(model, batch).tobytes()

    assert len(session._tiers) == 0
    assert session.wait(PATIENCE)  # which is a wish for the last one
    assert len(session._tiers) == 1


def test_shapes_that_come_often_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "_WORTH_SECONDS", 0.0)
    session = codl.InferenceSession(conv_model("N"), options(devices=DEVICES))
    session.run(None, feeds(2))
    assert session.wait(PATIENCE)

    session.run(None, feeds(2))

    assert session.served_by == "codl"
    assert session.graph.shape("x")[0] == 2


def test_without_a_plan_onnx_runtime_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*args: object) -> None:
        raise BuildError("no such kernel")

    monkeypatch.setattr(Device, "prepare", refuse)
    model = conv_model(channels=9)
    session = codl.InferenceSession(model, options(devices=DEVICES))

    with caplog.at_level(logging.WARNING, logger="codl"), pytest.raises(BuildError, match="no such kernel"):
        session.wait(PATIENCE)

    assert session.run(None, feeds())[0].tobytes() == expect(model).tobytes()
    assert "no such kernel" in caplog.text
    with pytest.raises(BuildError):
        _ = session.plan


def test_closing_ends_the_work_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_go_on = threading.Event(), threading.Event()

    def wait_and_build(*args: object) -> object:
        begun.set()
        may_go_on.wait(PATIENCE)
        raise StoppedError("as it would be")

    monkeypatch.setattr(Device, "prepare", wait_and_build)
    session = codl.InferenceSession(conv_model(), options(devices=DEVICES))
    session.when_ready(lambda session: None)
    session._tiers.worker.hurry()
    assert begun.wait(PATIENCE)

    session.close()
    may_go_on.set()
    session._tiers.worker.join(PATIENCE)

    assert session._tiers.worker._thread is not None
    assert not session._tiers.worker._thread.is_alive()
    with pytest.raises(codl.InputError, match="after close"):
        session.run(None, feeds())


@pytest.mark.parametrize("end", ["", "session.close()", "del session", "raise SystemExit(0)"])
def test_processes_end_in_the_middle(end: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(conv_model())
    script = (
        "import codl, numpy as np, time\n"
        f"session = codl.InferenceSession({str(path)!r}, codl.SessionOptions(warm_up='background'))\n"
        "session.run(None, {'x': np.zeros((1, 3, 16, 16), np.float32)})\n"
        "session._tiers.worker.hurry(); time.sleep(0.3)\n"
        f"{end}\n"
    )
    assert "Traceback" not in run_script(script, CODL_CACHE_DIR=str(tmp_path / "cache"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_children_are_answered_by_onnx_runtime(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(conv_model())
    script = (
        "import codl, numpy as np, os, time\n"
        f"session = codl.InferenceSession({str(path)!r}, codl.SessionOptions(warm_up='background'))\n"
        "feeds = {'x': np.ones((1, 3, 16, 16), np.float32)}\n"
        "expected = session.run(None, feeds)[0]\n"
        "session._tiers.worker.hurry(); time.sleep(0.3)\n"
        "child = os.fork()\n"
        "same = np.allclose(session.run(None, feeds)[0], expected, rtol=1e-4, atol=1e-5)\n"
        "if child:\n"
        "    same = same and os.waitpid(child, 0)[1] == 0\n"
        "os._exit(not same)\n"
    )

    run_script(script)


def test_unknown_ways_to_warm_up_are_an_input_error() -> None:
    with pytest.raises(codl.InputError, match=r"warm_up: got 'blok'.*block"):
        codl.InferenceSession(conv_model(), codl.SessionOptions(warm_up="blok"))


def test_unknown_precisions_are_an_input_error() -> None:
    with pytest.raises(codl.InputError, match=r"precision: got 'tf16'.*tf32"):
        codl.InferenceSession(conv_model(), codl.SessionOptions(precision="tf16"))


@pytest.mark.parametrize("precision", ["tf32", "float16"])
def test_devices_without_matrix_units_compute_in_float32(precision: str) -> None:
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 3, 16, 16), np.float32)}
    options = codl.SessionOptions(warm_up="block", devices=["pocl-cpu"], planner="single:pocl-cpu")
    with codl.InferenceSession(conv_model(), options) as session:
        expected = session.run(None, feeds)[0]
    options.precision = precision
    with codl.InferenceSession(conv_model(), options) as session:
        assert session.plan.precision == precision
        np.testing.assert_array_equal(session.run(None, feeds)[0], expected)


@pytest.mark.parametrize("batch", [2, "n"])
def test_feeds_like_the_last_ones_are_checked_all_the_same(batch: int | str) -> None:
    model = conv_model(batch)
    session = codl.InferenceSession(model, options())
    right, fed = expect(model, 2), feeds(2)["x"]
    for _ in range(3):
        assert session.run(None, {"x": fed})[0].tobytes() == right.tobytes()

    np.testing.assert_allclose(session.run(["y"], {"x": fed.astype(">f4")})[0], right, rtol=1e-4, atol=1e-5)
    first, second = session.run(["y", "y"], {"x": fed})
    assert not np.shares_memory(first, second)
    for wrong in ({"x": fed.astype(np.float64)}, {"x": fed[:, :2]}, {"z": fed}, {"x": fed, "z": fed}, {}):
        with pytest.raises(codl.InputError):
            session.run(None, wrong)
    with pytest.raises(codl.InputError):
        session.run(["z"], {"x": fed})
    session.close()
    with pytest.raises(codl.InputError, match="close"):
        session.run(None, {"x": fed})

"""Cores are asked to stay awake while somebody works, and not longer."""

import os
import struct
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import codl
from codl.devices import awake
from codl.devices.awake import AWAKE_VARIABLE, LATENCY_FILE, awake_cores, can_keep_awake
from tests.frontend.onnx_models import make_model, node

Read = Callable[[], list[int]]
AT_ONCE, WHENEVER = 0, 2_000_000_000


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Read]:
    """Return what reads all that was asked for, in us; the real file tells of other processes, too."""
    file = tmp_path / "latency"
    file.touch()
    monkeypatch.setattr(awake, "LATENCY_FILE", str(file))
    monkeypatch.setattr(awake, "_request", cache(awake._request.__wrapped__))
    yield lambda: [us for (us,) in struct.iter_unpack("i", file.read_bytes())]
    opened = awake._request().file
    if opened is not None:
        os.close(opened)


def test_cores_stay_awake_until_the_last_block_ends(asked: Read) -> None:
    with awake_cores():
        with awake_cores():
            assert asked() == [AT_ONCE]
        assert asked() == [AT_ONCE]
    assert asked() == [AT_ONCE, WHENEVER]


def test_cores_may_sleep_again_after_an_error(asked: Read) -> None:
    with pytest.raises(ZeroDivisionError), awake_cores():
        print(1 // 0)
    assert asked() == [AT_ONCE, WHENEVER]


def test_threads_ask_together(asked: Read) -> None:
    inside, done = threading.Event(), threading.Event()

    def stay() -> None:
        with awake_cores():
            inside.set()
            done.wait()

    thread = threading.Thread(target=stay)
    thread.start()
    inside.wait()
    with awake_cores():
        pass
    assert asked() == [AT_ONCE]
    done.set()
    thread.join()
    assert asked() == [AT_ONCE, WHENEVER]


def test_each_run_asks(asked: Read) -> None:
    model = make_model([node("Relu", ["x"], ["y"])], inputs={"x": [1, 3, 4, 4]})
    with codl.InferenceSession(model.SerializeToString()) as session:
        before = len(asked())
        for _ in range(2):
            session.run(None, {"x": np.zeros((1, 3, 4, 4), np.float32)})
        assert asked()[before:] == [AT_ONCE, WHENEVER] * 2


@pytest.mark.parametrize("value", ["0", "off"])
def test_nothing_is_asked_when_unwanted(asked: Read, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(AWAKE_VARIABLE, value)
    with awake_cores():
        assert asked() == []
    assert not can_keep_awake()


def test_a_block_runs_where_nothing_can_be_asked(asked: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awake, "LATENCY_FILE", "/nonexistent/latency")
    with awake_cores():
        assert not can_keep_awake()


@pytest.mark.skipif(not os.access(LATENCY_FILE, os.W_OK), reason="may not keep cores awake here")
def test_the_system_takes_what_is_asked() -> None:
    with awake_cores():
        assert struct.unpack("i", Path(LATENCY_FILE).read_bytes()[:4]) == (AT_ONCE,)

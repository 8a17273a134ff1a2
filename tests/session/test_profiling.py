"""The trace file: onnxruntime's keys, an event for each node and device, and written exactly once."""

import gc
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import codl
from tests.exactness import DEVICES
from tests.executor.mixed_models import MODELS
from tests.oracle import random_feeds
from tools.networks import build

PAIR = DEVICES
MODEL = build("mobilenet_v2", size=32, width=0.25)


def profiled_options(folder: Path) -> codl.SessionOptions:
    options = codl.SessionOptions()
    options.devices = PAIR
    options.planner = "even"
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "trace")
    return options


def read(path: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(Path(path).read_text(encoding="utf-8"))
    return events


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    session = codl.InferenceSession(
        MODEL.SerializeToString(), profiled_options(tmp_path_factory.mktemp("profile"))
    )
    session.run(None, random_feeds(MODEL))
    return read(session.end_profiling())


def test_events_have_the_keys_of_onnxruntime(events: list[dict[str, Any]], tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "reference")
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        MODEL.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    session.run(None, random_feeds(MODEL))
    reference = read(session.end_profiling())
    wanted = {key: type(value) for key, value in reference[0].items()}

    assert all({key: type(value) for key, value in event.items()} == wanted for event in events)
    own, theirs = ({e["name"] for e in group if e["cat"] == "Session"} for group in (events, reference))
    assert own == theirs - {"SequentialExecutor::Execute"}


def test_every_node_has_one_event_on_each_device(events: list[dict[str, Any]]) -> None:
    nodes = [e for e in events if e["cat"] == "Node"]
    keys = [(e["name"], e["args"]["provider"]) for e in nodes]

    assert len(keys) == len(set(keys))
    assert {provider for _, provider in keys} == {f"codl:{name}" for name in PAIR}
    assert all(name.endswith("_kernel_time") for name, _ in keys)
    assert all({"op_name", "node_index", "output_type_shape"} <= set(e["args"]) for e in nodes)


def test_nodes_lie_inside_the_run(events: list[dict[str, Any]]) -> None:
    (run,) = (e for e in events if e["name"] == "model_run")

    for event in events:
        if event["cat"] in {"Node", "Copy", "Wait"}:
            assert run["ts"] - 1 <= event["ts"]
            assert event["ts"] + event["dur"] <= run["ts"] + run["dur"] + 2


def test_file_is_written_once(tmp_path: Path) -> None:
    session = codl.InferenceSession(MODEL.SerializeToString(), profiled_options(tmp_path))
    path = Path(session.end_profiling())

    session.run(None, random_feeds(MODEL))
    session.close()

    assert path.name.startswith("trace_")
    assert path.suffix == ".json"
    assert session.end_profiling() == ""
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("end", ["close", "delete"])
def test_file_is_written_at_the_end_of_the_session(tmp_path: Path, end: str) -> None:
    session = codl.InferenceSession(MODEL.SerializeToString(), profiled_options(tmp_path))
    session.run(None, random_feeds(MODEL))
    assert list(tmp_path.iterdir()) == []
    if end == "close":
        session.close()
    del session
    gc.collect()

    (path,) = tmp_path.iterdir()
    assert any(e["name"] == "model_run" for e in read(str(path)))


def test_without_profiling_there_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with codl.InferenceSession(MODEL.SerializeToString()) as session:
        session.run(None, random_feeds(MODEL))
        assert session.end_profiling() == ""
        assert session.get_profiling_start_time_ns() == 0
    assert list(tmp_path.iterdir()) == []


def test_profiled_run_computes_the_same_bits(tmp_path: Path) -> None:
    plain = profiled_options(tmp_path)
    plain.enable_profiling = False
    data, feeds = MODEL.SerializeToString(), random_feeds(MODEL)

    with codl.InferenceSession(data, profiled_options(tmp_path)) as profiled:
        assert profiled.get_profiling_start_time_ns() > 0
        outputs = profiled.run(None, feeds)
    with codl.InferenceSession(data, plain) as session:
        expected = session.run(None, feeds)

    assert all(np.array_equal(a, b) for a, b in zip(outputs, expected, strict=True))


def test_missing_folder_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(codl.InputError, match="profile_file_prefix"):
        codl.InferenceSession(MODEL.SerializeToString(), profiled_options(tmp_path / "missing"))


def test_host_calls_are_nodes_of_the_host_provider(tmp_path: Path) -> None:
    model = MODELS["classifier"]()
    session = codl.InferenceSession(model.SerializeToString(), profiled_options(tmp_path))
    session.run(None, random_feeds(model))

    (event,) = (e for e in read(session.end_profiling()) if e["args"].get("op_name") == "HostCall")

    assert (event["cat"], event["args"]["provider"]) == ("Node", "CPUExecutionProvider")
    assert event["args"]["input_type_shape"] == [{"float": [1, 20]}]

"""`codl run`: outputs, checks against ONNX Runtime, and exit codes."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from codl.cli import run
from codl.plan.steps import Plan
from tests.cli.conftest import Codl
from tests.exactness import DEVICES
from tests.oracle import NETWORK_TOLERANCE, FloatArray, relative_error

NAMES = ",".join(DEVICES)


def make_input() -> FloatArray:
    return np.random.default_rng(3).standard_normal((1, 3, 32, 32), np.float32)


def run_onnxruntime(model: Path, value: FloatArray) -> FloatArray:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    output: FloatArray = session.run(None, {"input": value})[0]
    return output


def test_check_passes_and_tells_the_error(codl: Codl, model: Path) -> None:
    done = codl("run", model, "--devices", NAMES, "--planner", "even", "--check", "--json")

    assert (done.code, done.err) == (0, "")
    (row,) = done.values
    assert set(row) == {"output", "shape", "mean", "std", "relative_error"}
    assert row["shape"] == [1, 1000]
    assert 0 <= row["relative_error"] <= NETWORK_TOLERANCE


def test_without_a_check_no_error_is_told(codl: Codl, model: Path) -> None:
    assert codl("run", model, "--json").values[0]["relative_error"] is None
    header, row = codl("run", model).out.splitlines()
    assert header.split() == ["output", "shape", "mean", "std", "relative_error"]
    assert row.split()[:2] == ["output", "1x1000"]


def test_same_seed_gives_the_same_outputs(codl: Codl, model: Path) -> None:
    first, again, other = (codl("run", model, "--random-seed", seed, "--json").out for seed in "112")

    assert first == again
    assert first != other


def test_given_input_is_used_and_outputs_are_written(codl: Codl, model: Path, tmp_path: Path) -> None:
    value = make_input()
    np.save(tmp_path / "x.npy", value)

    done = codl(
        "run", model, "--input", f"input={tmp_path / 'x.npy'}", "--output", tmp_path / "new" / "outputs"
    )

    assert done.code == 0
    written = np.load(tmp_path / "new" / "outputs" / "output.npy")
    assert relative_error(written, run_onnxruntime(model, value)) <= NETWORK_TOLERANCE


def test_open_dimensions_are_those_of_the_given_input(codl: Codl, model: Path, tmp_path: Path) -> None:
    opened = onnx.load(model)
    opened.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    for output in opened.graph.output:
        output.type.tensor_type.shape.dim[0].dim_param = "N"
    onnx.save(opened, tmp_path / "open.onnx")
    np.save(tmp_path / "x.npy", make_input())

    done = codl("run", tmp_path / "open.onnx", "--input", f"input={tmp_path / 'x.npy'}", "--check")
    refused = codl("run", tmp_path / "open.onnx", "--check")

    assert done.code == 0
    assert (refused.code, refused.out) == (2, "")
    assert "--input input=" in refused.err


def test_difference_is_exit_code_1(codl: Codl, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "TOLERANCE", 0.0)

    done = codl("run", model, "--check", "--json")

    assert done.code == 1
    assert done.values[0]["relative_error"] > 0
    assert "'output'" in done.err
    assert len(done.err.splitlines()) == 1


def test_plan_from_a_file_is_used(codl: Codl, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    codl("plan", model, "--devices", NAMES, "--planner", "even", "-o", path)

    assert codl("run", model, "--plan", path, "--check").code == 0


BROKEN: dict[str, tuple[Callable[[dict[str, Any]], object], tuple[str, ...]]] = {
    "nan": (lambda plan: _cut(plan).update(bounds=[0, float("nan"), 16]), ("nan", "whole numbers")),
    "gap": (lambda plan: _cut(plan).update(bounds=[0, 4, 12]), ("do not cover",)),
    "overlap": (lambda plan: _cut(plan).update(bounds=[0, 9, 4]), ("fall", "do not cover")),
    "unknown nodes": (
        lambda plan: [plan["steps"][at]["nodes"].__setitem__(0, f"no{at}") for at in (0, -1)],
        ("'no0' does not exist", "'no-1' does not exist"),
    ),
    "another model": (
        lambda plan: plan.update(fingerprint="0" * 64),
        ("fingerprint", "plan the model again"),
    ),
    "a step left out": (lambda plan: plan["steps"].pop(), ("computed 0 times",)),
    "no steps": (lambda plan: plan.update(steps=[]), ("computed 0 times",)),
    "devices that are not here": (
        lambda plan: plan.update(devices=["no-cpu", "no-gpu"]),
        ("no-cpu", "no-gpu"),
    ),
    "no list": (lambda plan: plan.update(steps="all", devices=3), ("steps", "devices")),
}


def _cut(plan: dict[str, Any]) -> dict[str, Any]:
    cut: dict[str, Any] = next(step for step in plan["steps"] if step["kind"] == "chain")["cuts"][0]
    return cut


@pytest.mark.parametrize(("spoil", "messages"), BROKEN.values(), ids=BROKEN)
def test_every_problem_of_a_plan_is_listed(
    codl: Codl,
    model: Path,
    tmp_path: Path,
    spoil: Callable[[dict[str, Any]], object],
    messages: tuple[str, ...],
) -> None:
    path = tmp_path / "plan.json"
    codl("plan", model, "--devices", NAMES, "--planner", "even", "-o", path)
    plan = json.loads(path.read_text(encoding="utf-8"))
    spoil(plan)
    path.write_text(json.dumps(plan), encoding="utf-8")

    done = codl("run", model, "--plan", path)

    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert all(message in done.err for message in messages), done.err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--input", "input=absent.npy"), "absent.npy"),
        (("--input", f"input={__file__}"), "expected NAME=FILE.npy"),
        (("--plan", "absent.json"), "absent.json"),
        (("--devices", "no-such-device"), "no-such-device"),
        (("--planner", "even"), "name the devices"),
        (("--random-seed", "x"), "random-seed"),
    ],
    ids=lambda value: "_".join(value)[:30] if isinstance(value, tuple) else "",
)
def test_what_cannot_run_is_exit_code_2(
    codl: Codl, model: Path, flags: tuple[str, ...], message: str
) -> None:
    done = codl("run", model, *flags)

    assert (done.code, done.out) == (2, "")
    assert message in done.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        (("other", np.zeros((1, 3, 32, 32), np.float32)), "other"),
        (("input", np.zeros((1, 3, 32), np.float32)), "rank"),
        (("input", np.zeros((1, 3, 32, 32), np.float64)), "float64"),
    ],
    ids=["name", "rank", "dtype"],
)
def test_wrong_input_is_exit_code_2(
    codl: Codl, model: Path, tmp_path: Path, feed: tuple[str, FloatArray], message: str
) -> None:
    name, value = feed
    np.save(tmp_path / "x.npy", value)

    done = codl("run", model, "--input", f"{name}={tmp_path / 'x.npy'}")

    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_plan_of_another_testbed_is_told_of_in_a_line(
    codl: Codl, model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "plan.json"
    codl("plan", model, "--json", "-o", path)
    own = Plan.load(path)
    replace(own, testbed=("64 units of another processor",) * len(own.devices)).save(tmp_path / "other.json")

    here = codl("run", model, "--plan", path)
    said_here = caplog.messages
    elsewhere = codl("run", model, "--plan", tmp_path / "other.json")

    assert here.code == elsewhere.code == 0
    assert own.testbed
    assert not said_here
    (line,) = caplog.messages
    assert "another testbed" in line
    assert "64 units of another processor" in line

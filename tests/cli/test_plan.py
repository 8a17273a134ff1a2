"""`codl plan`: what is printed, what is written, and how it fails."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from codl.assets import profiles_dir
from codl.devices.opencl import open_devices
from codl.executor.compile import compile_plan
from codl.frontend import load_model
from codl.latency.predictor import Predictor
from codl.machine import DeviceInfo
from codl.plan.steps import Plan
from codl.session import resolving
from tests.cli.conftest import Codl
from tests.exactness import DEVICES

NAMES = ",".join(DEVICES)
EVEN = ("--devices", NAMES, "--planner", "even", "--max-chain", "3")


def test_json_is_the_plan_with_what_was_predicted(codl: Codl, model: Path) -> None:
    done = codl("plan", model, *EVEN, "--json")

    assert (done.code, done.err) == (0, "")
    values = done.values
    assert {"predicted_us", "best_single_us", "planning_ms", "steps", "memory", "devices"} <= set(values)
    assert values["predicted_us"] is None
    assert values["planning_ms"] > 0
    for step in values["steps"]:
        assert step["nodes"]
        assert {"axis", "cuts", "compute_us", "share_us", "sync_us"} <= set(step)
        assert [step[name] for name in ("compute_us", "share_us", "sync_us")] == [None] * 3
    assert Plan.from_json(values).devices == DEVICES


def test_memory_is_what_the_executor_takes(codl: Codl, model: Path) -> None:
    plan = Plan.from_json(codl("plan", model, *EVEN, "--json").values)

    graph = load_model(model).graph
    executable = compile_plan(graph, plan, open_devices(DEVICES))

    told = {memory.device: memory.activation_bytes for memory in plan.memory if memory.activation_bytes}
    assert told == executable.activation_bytes
    assert {memory.weight_bytes for memory in plan.memory if memory.device in DEVICES} == {None}


def test_weights_are_counted_where_devices_are_known(codl: Codl, model: Path) -> None:
    done = codl("plan", model, "--json")

    plan = Plan.from_json(done.values)
    executable = compile_plan(load_model(model).graph, plan, open_devices(plan.devices))
    assert plan.memory == executable.plan.memory


def test_text_shows_steps_and_memory(codl: Codl, model: Path) -> None:
    first, *steps, memory = codl("plan", model, *EVEN).out.splitlines()

    assert first.startswith("plan: ")
    assert first.endswith(f"over {', '.join(DEVICES)}")
    assert any(f"{DEVICES[0]} 0:" in line for line in steps)
    assert memory.startswith(f"memory: {DEVICES[0]} ")
    assert "activations" in memory


def test_text_names_operators_as_set_and_why_take_them(codl: Codl, model: Path) -> None:
    _, *steps, _ = codl("plan", model, *EVEN).out.splitlines()

    names = {node.name for node in load_model(model).graph.nodes}
    assert {line.split()[1] for line in steps} <= names
    assert codl("inspect", model, *EVEN, "--why", steps[0].split()[1]).code == 0


def test_written_file_is_the_plan(codl: Codl, model: Path, tmp_path: Path) -> None:
    done = codl("plan", model, *EVEN, "--json", "-o", tmp_path / "plan.json")

    assert Plan.load(tmp_path / "plan.json") == Plan.from_json(done.values)


def test_named_devices_need_not_exist(codl: Codl, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CODL_SHARING", raising=False)
    done = codl("plan", model, "--devices", "left-cpu,right-gpu", "--planner", "even", "--json")

    assert done.code == 0
    assert [memory["device"] for memory in done.values["memory"]] == ["left-cpu", "right-gpu", "shared"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--planner", "clever"), "clever"),
        (("--planner", "even", "--ratio", "0.9,0.9"), "sum to 1"),
        (("--planner", "even", "--ratio", "half"), "half"),
        (("--planner", "even", "--max-chain", "0"), "at least 1"),
        (("--planner", "even", "-o", os.path.join("no", "such", "plan.json")), "folder that exists"),
        (("--nonsense",), "nonsense"),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_planned_is_exit_code_2(
    codl: Codl, model: Path, flags: tuple[str, ...], message: str
) -> None:
    done = codl("plan", model, "--devices", NAMES, *flags)

    assert (done.code, done.out) == (2, "")
    assert message in done.err.splitlines()[-1]


def test_missing_model_is_exit_code_2(codl: Codl, tmp_path: Path) -> None:
    done = codl("plan", tmp_path / "absent.onnx", "--devices", NAMES)

    assert (done.code, done.out) == (2, "")
    assert len(done.err.splitlines()) == 1
    assert "absent.onnx" in done.err


def test_devices_without_profiles_are_named(codl: Codl, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "find_predictors", lambda infos: ())

    done = codl("plan", model, "--devices", NAMES, "--planner", "dynamic")

    assert (done.code, done.out) == (2, "")
    assert "codl profile" in done.err


def test_devices_without_a_planner_are_planned_as_a_session_plans_them(
    codl: Codl, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def find(infos: Sequence[DeviceInfo]) -> tuple[Predictor, ...]:
        asked.extend(info.name for info in infos)
        return ()

    monkeypatch.setattr(resolving, "find_default_predictors", find)

    plan = Plan.from_json(codl("plan", model, "--devices", NAMES, "--json").values)

    assert tuple(asked) == DEVICES
    assert plan.planner == f"single:{DEVICES[0]}"


SIMULATED = ",".join(
    str(profiles_dir() / "simulated" / f"snapdragon-855-{kind}.json") for kind in ("cpu", "gpu")
)


@pytest.mark.usefixtures("own_sharing")
@pytest.mark.parametrize("planner", ["greedy", "dynamic", "even", "single:snapdragon-gpu"])
def test_profiles_stand_for_devices_that_are_not_here(codl: Codl, model: Path, planner: str) -> None:
    done = codl("plan", model, "--profiles", SIMULATED, "--planner", planner, "--json")

    values = done.values
    assert values["devices"] == ["snapdragon-cpu", "snapdragon-gpu"]
    assert values["predicted_us"] > 0
    assert values["best_single_us"] > 0
    assert all(step["compute_us"] is not None and len(step["device_us"]) == 2 for step in values["steps"])


@pytest.mark.usefixtures("own_sharing")
def test_prediction_is_printed(codl: Codl, model: Path) -> None:
    *_, last = codl("plan", model, "--profiles", SIMULATED).out.splitlines()

    assert last.startswith("predicted: ")
    assert "planned in" in last


@pytest.mark.parametrize(
    ("profiles", "message"),
    [("nowhere", "codl profile"), (",".join(SIMULATED.split(",")[:1] * 2), "got 2 of snapdragon-cpu")],
)
def test_wrong_profiles_are_named(codl: Codl, model: Path, profiles: str, message: str) -> None:
    done = codl("plan", model, "--profiles", profiles)

    assert done.code == 2
    assert message in done.err

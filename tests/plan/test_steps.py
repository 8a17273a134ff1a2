import json
from dataclasses import replace
from math import inf, nan
from pathlib import Path

import pytest

from codl.errors import PlanError
from codl.machine import Precision
from codl.partitioner.even import plan_even
from codl.plan.single import plan_single
from codl.plan.steps import Chain, DeviceMemory, Host, Plan, Run
from tests.graphs import host_between, residual_block

HOST = Host(nodes=("top",), operators=("TopK",), reasons=("no kernel for TopK",))
SINGLE = plan_single(residual_block(), device="left")
EVEN = plan_even(residual_block(), devices=("left", "right"), max_chain_length=2)


@pytest.mark.parametrize("length", [1, 2, 8])
def test_plan_survives_json_unchanged(length: int, tmp_path: Path) -> None:
    plan = plan_even(residual_block(), devices=("left", "right"), max_chain_length=length)
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == plan


def test_plan_is_shown_in_a_line() -> None:
    assert repr(SINGLE) == "<Plan by 'single:left': 4 steps over left>"
    assert repr(replace(SINGLE, predicted_us=1234.5)).endswith("over left, 1.234 ms predicted>")


def test_precision_survives_json_and_is_float32_where_none_is_given() -> None:
    values = replace(SINGLE, precision=Precision.TF32).to_json()
    assert Plan.from_json(json.loads(json.dumps(values))).precision is Precision.TF32
    del values["precision"]
    assert Plan.from_json(values).precision is Precision.FLOAT32


def test_single_device_plan_survives_json_unchanged() -> None:
    plan = plan_single(residual_block(), device="left")
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 99}, "schema"),
        ({"devices": "left"}, "devices"),
        ({"steps": None}, "steps"),
        ({"steps": [{"kind": "fly"}]}, "kind"),
        ({"steps": [{"kind": "run", "node": "conv_a"}]}, "device"),
        ({"steps": [{"kind": "run", "node": 3, "device": "left"}]}, "node"),
        ({"steps": [{"kind": "chain", "nodes": ["conv_a"], "axis": 2, "cuts": [{"tensor": "a"}]}]}, "bounds"),
        ({"steps": [{"kind": "chain", "nodes": ["conv_a"], "axis": True, "cuts": []}]}, "axis"),
        ({"steps": [{"kind": "run", "nodes": ["conv_a", "conv_b"], "device": "left"}]}, "one node"),
        ({"steps": [{"kind": "run", "node": "conv_a", "nodes": ["conv_b"], "device": "left"}]}, "one node"),
        ({"steps": [{"kind": "run", "node": "conv_a", "device": "left", "axis": 2}]}, "axis"),
        ({"steps": [{"kind": "run", "node": "conv_a", "device": "left", "share_us": "1"}]}, "share_us"),
        ({"memory": [{"device": "left", "activation_bytes": 1.5, "weight_bytes": 0}]}, "activation_bytes"),
        ({"memory": {}}, "memory"),
        ({"steps": [{"kind": "host", "nodes": "top"}]}, "nodes"),
        ({"steps": [{"kind": "host", "nodes": ["top"], "device": "left"}]}, "device"),
        ({"precision": "tf16"}, "precision"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_malformed_plan_is_named(change: dict[str, object], message: str) -> None:
    values = plan_single(residual_block(), device="left").to_json() | change
    with pytest.raises(PlanError, match=message):
        Plan.from_json(values)


def test_every_malformed_field_is_named_at_once() -> None:
    values = EVEN.to_json()
    steps = [{**step} for step in values["steps"]]
    steps[0] |= {"ratio": nan, "compute_us": inf, "axis": "H"}
    steps[0]["cuts"] = [{**steps[0]["cuts"][0], "bounds": [0, nan, 12]}]
    steps[1] = {"kind": "fly"}
    broken = values | {"devices": "left", "predicted_us": nan, "steps": [*steps, 7], "surprise": 1}

    with pytest.raises(PlanError) as caught:
        Plan.from_json(broken)

    told = str(caught.value).splitlines()
    assert [line.partition(": got")[0] for line in told] == [
        "plan",
        "plan.devices",
        "plan.steps[0]",
        "plan.steps[0].axis",
        "plan.steps[0].cuts[0].bounds",
        "plan.steps[0].compute_us",
        "plan.steps[1].kind",
        f"plan.steps[{len(steps)}].kind",
        "plan.predicted_us",
    ]


def test_host_step_needs_its_nodes_alone() -> None:
    plan = plan_single(host_between(), device="left")
    values = plan.to_json()
    steps = list(values["steps"])
    steps[1] = {"kind": "host", "nodes": ["top", "top/i"]}

    assert Plan.from_json(values) == plan
    assert Plan.from_json(values | {"steps": steps}).steps[1] == Host(nodes=("top", "top/i"))


@pytest.mark.parametrize("content", ["", "[]", "{", '"plan"'])
def test_file_that_is_no_plan_is_a_plan_error(content: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(PlanError, match=r"plan\.json"):
        Plan.load(path)


def test_missing_file_is_a_plan_error(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"absent\.json"):
        Plan.load(tmp_path / "absent.json")


def test_predictions_and_memory_survive_json_unchanged() -> None:
    plain = plan_even(residual_block(), devices=("left", "right"), max_chain_length=2)
    steps = tuple(replace(step, compute_us=1.5, share_us=0.0, sync_us=3.0) for step in (*plain.steps, HOST))
    memory = (
        DeviceMemory(device="left", activation_bytes=4096, weight_bytes=None),
        DeviceMemory(device="shared", activation_bytes=8192, weight_bytes=0),
    )
    plan = replace(plain, steps=steps, memory=memory, predicted_us=9.0, best_single_us=12.5)
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


@pytest.mark.parametrize("plan", [SINGLE, EVEN], ids=["single", "even"])
def test_every_step_in_json_has_nodes_axis_cuts_and_times(plan: Plan) -> None:
    for step in plan.to_json()["steps"]:
        assert {"kind", "nodes", "axis", "cuts", "compute_us", "share_us", "sync_us"} <= set(step)
        assert [step["compute_us"], step["share_us"], step["sync_us"]] == [None, None, None]


def test_plan_written_before_times_and_memory_still_loads() -> None:
    run = {"kind": "run", "node": "conv_a", "device": "left"}
    chain = {"kind": "chain", "nodes": ["conv_b"], "axis": 2, "cuts": []}
    old = {"schema": 1, "devices": ["left"], "steps": [run, chain]}
    assert Plan.from_json(old) == Plan(
        devices=("left",),
        steps=(Run(node="conv_a", device="left"), Chain(nodes=("conv_b",), axis=2, cuts=())),
    )


def test_saved_file_has_the_rights_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("")
    SINGLE.save(tmp_path / "plan.json")
    assert (tmp_path / "plan.json").stat().st_mode == (tmp_path / "other").stat().st_mode
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "plan.json"]


def test_plan_that_cannot_be_saved_is_a_plan_error(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"absent.*plan\.json.*folder that exists"):
        SINGLE.save(tmp_path / "absent" / "plan.json")
    (tmp_path / "folder").mkdir()
    with pytest.raises(PlanError, match="folder"):
        SINGLE.save(tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]

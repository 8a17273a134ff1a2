import json
from pathlib import Path

import pytest

from codl.errors import PlanError
from codl.partitioner.even import plan_even, plan_single
from codl.plan.steps import Plan
from tests.graphs import residual_block


@pytest.mark.parametrize("length", [1, 2, 8])
def test_plan_survives_json_unchanged(length: int, tmp_path: Path) -> None:
    plan = plan_even(residual_block(), devices=("left", "right"), max_chain_length=length)
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == plan


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
        ({"surprise": 1}, "surprise"),
    ],
)
def test_malformed_plan_is_named(change: dict[str, object], message: str) -> None:
    values = plan_single(residual_block(), device="left").to_json() | change
    with pytest.raises(PlanError, match=message):
        Plan.from_json(values)


@pytest.mark.parametrize("content", ["", "[]", "{", '"plan"'])
def test_file_that_is_no_plan_is_a_plan_error(content: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(PlanError, match=r"plan\.json"):
        Plan.load(path)


def test_missing_file_is_a_plan_error(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"absent\.json"):
        Plan.load(tmp_path / "absent.json")

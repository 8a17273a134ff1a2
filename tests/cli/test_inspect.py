"""`codl inspect`: what is printed, what is written, and how it fails."""

import html
import json
import re
import shlex
from pathlib import Path

import onnx
import pytest

from codl.plan.steps import Plan
from tests.cli.conftest import Codl
from tests.exactness import DEVICES
from tests.processes import ROOT

SIMULATED = ",".join(
    str(ROOT / "profiles" / "simulated" / f"snapdragon-855-{kind}.json") for kind in ("cpu", "gpu")
)
PREDICTED = ("--profiles", SIMULATED, "--planner", "even", "--max-chain", "3")
BARE = ("--devices", "left-cpu,right-gpu", "--planner", "even", "--max-chain", "3")


@pytest.mark.usefixtures("own_sharing")
def test_table_tells_of_every_operator_and_of_the_whole(codl: Codl, model: Path) -> None:
    done = codl("inspect", model, *PREDICTED)

    assert (done.code, done.err) == (0, "")
    title, heads, *rows = done.out.splitlines()
    assert title.startswith("small.onnx: ")
    assert "snapdragon-cpu" in heads
    assert any(row.startswith("┌") and " us" in row for row in rows)
    text = done.out
    for word in ("predicted", "best single device", "no-overhead ideal", "where time goes"):
        assert word in text


@pytest.mark.usefixtures("own_sharing")
def test_json_holds_all_of_it(codl: Codl, model: Path) -> None:
    values = codl("inspect", model, *PREDICTED, "--json").values

    assert {"operators", "steps", "totals", "timeline", "devices"} <= set(values)
    operator = values["operators"][0]
    assert operator["alternatives"]
    assert {"parts", "axis_name", "bounds", "predicted_us", "of_total", "measured_us"} <= set(operator)
    assert values["totals"]["predicted_us"] > 0


def test_times_are_dashes_without_profiles(codl: Codl, model: Path) -> None:
    done = codl("inspect", model, *BARE)

    assert done.code == 0
    assert "nothing is predicted" in done.out
    assert " us" not in done.out


@pytest.mark.usefixtures("own_sharing")
def test_all_files_are_written(codl: Codl, model: Path, tmp_path: Path) -> None:
    names = ("page.html", "trace.json", "picture.png", "copy.onnx", "plan.json")
    page, trace, picture, copy, plan = (tmp_path / name for name in names)

    flags = ("--html", page, "--perfetto", trace, "--png", picture, "--onnx", copy, "-o", plan)
    done = codl("inspect", model, *PREDICTED, *flags)

    assert done.code == 0
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert json.loads(trace.read_text(encoding="utf-8"))
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert any(node.metadata_props for node in onnx.load(copy).graph.node)
    assert Plan.load(plan).predicted_us is not None


def test_page_says_when_where_and_how_it_was_made(codl: Codl, model: Path, tmp_path: Path) -> None:
    page = tmp_path / "a <page>.html"

    codl("inspect", model, *BARE, "--html", page)

    (made,) = re.findall(r'<p id="made"[^>]*>(.*)</p>', page.read_text(encoding="utf-8"))
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d \S+ on \S.*, \d+ cores, codl \d", made)
    command = html.unescape(made).partition(": codl ")[2]
    assert shlex.split(command) == ["inspect", str(model), *BARE, "--html", str(page)]
    assert "<page>" not in made
    assert all(
        f"{axis} " in page.read_text(encoding="utf-8") for axis in ("N is", "OC the", "H the", "W the")
    )


def test_plan_file_is_explained_with_the_model_it_names(codl: Codl, model: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    codl("plan", model, *BARE, "-o", plan)

    named = codl("inspect", plan)
    given = codl("inspect", plan, "--model", model)

    assert named.code == given.code == 0
    assert named.out == given.out
    assert "left-cpu" in named.out


@pytest.mark.usefixtures("own_sharing")
def test_what_if_has_a_price(codl: Codl, model: Path, tmp_path: Path) -> None:
    node = codl("inspect", model, *PREDICTED, "--json").values["operators"][1]["name"]

    done = codl("inspect", model, *PREDICTED, "--set", f"{node}=snapdragon-gpu", "-o", tmp_path / "new.json")

    assert done.code == 0
    assert done.out.startswith("predicted ")
    assert "->" in done.out
    other = codl("inspect", model, *PREDICTED, "--diff", tmp_path / "new.json")
    assert other.out == done.out
    values = codl("inspect", model, *PREDICTED, "--set", f"{node}=snapdragon-gpu", "--json").values
    assert any(one["node"] == node for one in values["difference"]["operators"])


@pytest.mark.usefixtures("own_sharing")
def test_operator_tells_what_it_lost_to(codl: Codl, model: Path) -> None:
    node = codl("inspect", model, *PREDICTED, "--json").values["operators"][0]["name"]

    done = codl("inspect", model, *PREDICTED, "--why", node)

    assert done.code == 0
    assert done.out.startswith(node)
    assert sum(line.startswith("*") for line in done.out.splitlines()) == 1
    assert "all on snapdragon-gpu" in done.out


def test_measured_times_stand_beside(codl: Codl, model: Path) -> None:
    flags = ("--devices", ",".join(DEVICES), "--planner", "even", "--measure", "--json")

    values = codl("inspect", model, *flags).values

    assert values["totals"]["measured_us"] > 0
    assert all(operator["measured_us"] > 0 for operator in values["operators"])
    assert {span["track"] for span in values["measured"]} >= set(DEVICES)


def break_plan(plan: Path, **changes: object) -> None:
    values = json.loads(plan.read_text(encoding="utf-8"))
    values.update(changes)
    plan.write_text(json.dumps(values), encoding="utf-8")


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ([0, 1, 2], "do not cover"),
        ([3, 1, 16], "fall"),
        ([0, 16], "2 bounds"),
        ([0, float("nan"), 16], "nan"),
        ([0, 0.5, 16], "0.5"),
    ],
    ids=["gap", "overlap", "too_few", "nan", "fraction"],
)
def test_broken_cuts_are_named(
    codl: Codl, model: Path, tmp_path: Path, bounds: list[float], message: str
) -> None:
    plan = tmp_path / "plan.json"
    codl("plan", model, *BARE, "-o", plan)
    steps = json.loads(plan.read_text(encoding="utf-8"))["steps"]
    steps[0]["cuts"][0]["bounds"] = bounds
    break_plan(plan, steps=steps)

    done = codl("inspect", plan)

    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_every_problem_of_a_plan_is_listed(codl: Codl, model: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    codl("plan", model, *BARE, "-o", plan)
    steps = json.loads(plan.read_text(encoding="utf-8"))["steps"]
    steps[0]["nodes"][0], steps[-1]["nodes"][-1] = "nobody", "nowhere"
    break_plan(plan, steps=steps, fingerprint="0" * 64)

    done = codl("inspect", plan)

    assert done.code == 2
    assert all(word in done.err for word in ("nobody", "nowhere", "fingerprint"))


def test_every_malformed_step_is_listed(codl: Codl, model: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    codl("plan", model, *BARE, "-o", plan)
    steps = json.loads(plan.read_text(encoding="utf-8"))["steps"]
    steps[0]["cuts"][0]["bounds"], steps[1]["axis"] = [0, float("nan"), 16], "height"
    steps[2]["compute_us"] = float("inf")
    break_plan(plan, steps=steps)

    done = codl("inspect", plan)

    assert done.code == 2
    assert all(word in done.err for word in ("nan", "'height'", "inf"))


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", '{"schema": 99}', "[" * 100_000, '{"schema": 1, "devices": NaN}'],
    ids=["nothing", "open", "list", "null", "schema", "deep", "nan"],
)
def test_what_is_no_plan_is_exit_code_2(codl: Codl, tmp_path: Path, content: str) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(content, encoding="utf-8")

    done = codl("inspect", plan)

    assert (done.code, done.out) == (2, "")
    assert len(done.err.splitlines()) == 1
    assert "plan" in done.err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--set", "nobody=left-cpu"), "nobody"),
        (("--set", "rubbish"), "NODE=DEVICE"),
        (("--why", "nobody"), "nobody"),
        (("--why", ""), "no node ''"),
        (("--profiles", "absent"), "absent"),
        (("--html", "no/such/page.html"), "folder that exists"),
        (("--diff", "absent.json"), "absent.json"),
        (("--measure",), "left-cpu"),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_inspected_is_exit_code_2(
    codl: Codl, model: Path, flags: tuple[str, ...], message: str
) -> None:
    done = codl("inspect", model, *BARE, *flags)

    assert (done.code, done.out) == (2, "")
    assert message in done.err.splitlines()[-1]


@pytest.mark.usefixtures("own_sharing")
@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"testbed": ["8 units of Kryo, driver 1", "1 unit of Adreno, driver 1"]}, "was 8 units of Kryo"),
        ({"profiles": ["0" * 64, None]}, "another profile of snapdragon-cpu, snapdragon-gpu"),
    ],
    ids=["devices", "profiles"],
)
def test_plan_of_another_testbed_is_noted(
    codl: Codl, model: Path, tmp_path: Path, changes: dict[str, object], note: str
) -> None:
    plan = tmp_path / "plan.json"
    codl("plan", model, *PREDICTED, "-o", plan)
    before = codl("inspect", plan, "--profiles", SIMULATED)
    break_plan(plan, **changes)

    after = codl("inspect", plan, "--profiles", SIMULATED)

    assert "the plan was made" not in before.out
    assert sum("the plan was made" in line and note in line for line in after.out.splitlines()) == 1

"""`codl tune`: flags, what goes to stdout and what to stderr, exit codes."""

import json
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from codl.catalog.stored import user_path
from codl.cli import tune as cli_tune
from codl.cli.flags import parse_seconds
from codl.cli.main import main
from codl.devices.drivers import find_device
from codl.tuner.measurement import MeasurementLog
from codl.tuner.tune import LOG_NAME
from codl.tuner.workload import read_workload
from tests.conftest import CHOSEN
from tests.kernels.harness import random_array

DEVICE = CHOSEN.split(",")[0] if CHOSEN not in {"", "all"} else "intel-cpu"


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A network of one matrix product and one activation, with an empty cache."""
    info = find_device(DEVICE).info  # before the cache moves, and the drivers' own with it
    assert info.name == DEVICE
    monkeypatch.setenv("CODL_CACHE_DIR", str(tmp_path / "cache"))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Softmax", ["y"], ["z"])],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 16])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [3, 20])],
        [onnx.numpy_helper.from_array(random_array(16, 20), "w")],
    )
    path = tmp_path / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return str(path)


def test_dry_run_lists_candidates_and_writes_nothing(
    model: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["tune", "--device", DEVICE, "--model", model, "--dry-run", "--json"]) == 0
    out, err = capsys.readouterr()

    (report,) = json.loads(out)
    assert err == ""
    assert report["device"] == DEVICE
    assert {shape["state"] for shape in report["shapes"]} == {"left"}
    assert all(shape["candidates"] > 1 and shape["measured"] == 0 for shape in report["shapes"])
    assert not (tmp_path / "cache" / "profiles").exists()


def test_dry_run_without_a_model_shows_what_ships(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_tune, "read_workload", lambda path: read_workload(path)[:9])

    assert main(["tune", "--device", DEVICE, "--dry-run", "--list"]) == 0

    title, header, *rows, summary = capsys.readouterr().out.splitlines()
    assert title == DEVICE
    assert header.split()[:2] == ["shape", "times"]
    assert len(rows) == 9
    assert "9 left" in summary


def test_dry_run_sums_up_by_kernel(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_tune, "read_workload", lambda path: read_workload(path)[:9])
    assert main(["tune", "--device", DEVICE, "--dry-run", "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)

    assert main(["tune", "--device", DEVICE, "--dry-run"]) == 0

    title, header, *rows, counts, summary = capsys.readouterr().out.splitlines()
    assert title == DEVICE
    assert header.split() == ["kernel", "layers", "candidates", "at", "most"]
    assert all(int(row.split()[1]) <= 9 for row in rows)
    total = sum(shape["candidates"] for shape in report["shapes"])
    assert sum(int(row.split()[2]) for row in rows) == total
    assert "9 left" in counts
    assert summary.startswith(f"{total} candidates of 9 layers take ")


def test_a_session_that_has_no_time_says_what_is_left(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "--device", DEVICE, "--model", model, "--budget", "0.000001s"]) == 0

    out, err = capsys.readouterr()
    assert "2 left" in out.splitlines()[-1]
    assert len(err.splitlines()) == 2  # a line for each shape where there is no terminal
    assert all(line.startswith(f"{DEVICE}: left") for line in err.splitlines())


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90.0), ("10m", 600.0), ("1.5h", 5400.0), ("7", 7.0), (" 3 m", None)]
)
def test_budgets_are_times(text: str, seconds: float | None) -> None:
    if seconds is None:
        with pytest.raises(Exception, match="expected a time"):
            parse_seconds(text)
    else:
        assert parse_seconds(text) == seconds


@pytest.mark.parametrize("budget", ["", "0", "-1m", "soon", "10d", "nan"])
def test_a_budget_that_is_no_time_is_refused(budget: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["tune", f"--budget={budget}"])

    assert ended.value.code == 2
    assert "expected a time such as" in capsys.readouterr().err


def test_an_unknown_device_or_model_is_exit_code_2(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "--device", "abacus", "--model", model]) == 2
    assert main(["tune", "--device", DEVICE, "--model", "/nonexistent.onnx"]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 2


def test_a_broken_database_is_exit_code_2_and_stays(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = user_path(find_device(DEVICE).info)
    path.parent.mkdir(parents=True)
    path.write_text("{")

    assert main(["tune", "--device", DEVICE, "--model", model]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert str(path) in line
    assert "remove it" in line
    assert path.read_text() == "{"


def test_a_second_tuner_is_exit_code_2(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    with MeasurementLog(user_path(find_device(DEVICE).info).with_name(LOG_NAME)):
        assert main(["tune", "--device", DEVICE, "--model", model]) == 2

    assert "another `codl tune`" in capsys.readouterr().err

"""The examples run as their docstrings say."""

import json
import os
from pathlib import Path

import onnx
import pytest

from tests.exactness import DEVICES
from tests.processes import ROOT, run_python
from tools.networks import build


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "small.onnx"
    onnx.save(build("mobilenet_v2", size=32, width=0.25), str(path))
    return path


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [("drop_in", (), "(1, 1000)"), ("split_by_hand", DEVICES, "are cut at a quarter")],
)
def test_example_runs(model: Path, name: str, arguments: tuple[str, ...], told: str) -> None:
    done = run_python(
        "-W", "ignore", str(ROOT / "examples" / f"{name}.py"), str(model), *arguments, CODL_EMULATE_PAIR="1"
    )

    assert done.returncode == 0, done.stderr
    assert told in done.stdout


def test_notebook_runs_and_stores_no_outputs(model: Path, tmp_path: Path) -> None:
    notebook = json.loads((ROOT / "examples" / "inspect_a_plan.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    code = "\n".join("".join(cell["source"]) for cell in cells)
    os.link(model, tmp_path / "model.onnx")

    script = f"import os; os.chdir({str(tmp_path)!r})\n{code}"
    done = run_python("-W", "ignore", "-c", script, CODL_SHARING="")

    assert done.returncode == 0, done.stderr
    assert not any(cell["outputs"] or cell["execution_count"] for cell in cells)
    assert all(
        text in done.stdout for text in ("over snapdragon-cpu, snapdragon-gpu", "where time goes", "* ")
    )
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")

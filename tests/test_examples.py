"""The examples run as their docstrings say."""

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

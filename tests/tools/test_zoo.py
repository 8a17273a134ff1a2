"""The zoo's judge and its table."""

from pathlib import Path

import onnx
import pytest

from tests.frontend.onnx_models import make_model, node
from tools import zoo


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A network of two operators."""
    path = tmp_path / "small.onnx"
    nodes = [node("Relu", ["x"], ["r"]), node("Sigmoid", ["r"], ["y"])]
    onnx.save(make_model(nodes, inputs={"x": (1, 4, 8, 8)}, outputs=["y"]), path)
    return path


def test_a_network_is_checked_in_a_process_of_its_own(model: Path) -> None:
    row = zoo.check_apart(model, "pocl-cpu")
    assert (row["operators"], row["host"], row["split"]) == (2, 0, 0)
    assert list(row["errors"]) == ["single"]
    assert row["errors"]["single"] < zoo.TOLERANCE
    assert "error" not in row


def test_a_network_that_fails_is_an_error_of_its_row(tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    assert "broken.onnx" in zoo.check_apart(tmp_path / "broken.onnx", "pocl-cpu")["error"]


def test_the_page_has_all_networks_and_means() -> None:
    found = {
        "one": {
            "operators": 3,
            "host": 0,
            "split": 2,
            "errors": {"single": 2e-7},
            "ratios": {"ort/codl": 2.0},
        },
        "two": {
            "operators": 5,
            "host": 1,
            "split": 0,
            "errors": {"single": 1e-6},
            "ratios": {"ort/codl": 0.5},
        },
        "three": {"error": "no end within 1800 s"},
    }
    head, rule, *rows = zoo.format_page(found)
    assert head == "| network | operators | on the host | split | worst error | ort/codl |"
    assert rule == "|---|---|---|---|---|---|"
    assert rows == [
        "| one | 3 | 0 | 2 | 2e-07 | 2.00 |",
        "| two | 5 | 1 | 0 | 1e-06 | 0.50 |",
        "| three |  |  |  | no end within 1800 s |  |",
        "| 3, 1 without the host |  |  |  | geometric mean | 1.00 |",
    ]

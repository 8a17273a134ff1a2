"""`codl analyze`: what is printed, what is written, and how it fails."""

from pathlib import Path

import pytest

from tests.cli.conftest import Codl
from tests.cli.test_inspect import BARE, PREDICTED


@pytest.mark.usefixtures("own_sharing")
def test_bound_ratio_and_layers_are_told(codl: Codl, model: Path, tmp_path: Path) -> None:
    done = codl("analyze", model, *PREDICTED, "--html", tmp_path / "page.html")

    assert (done.code, done.err) == (0, "")
    assert "lower bound" in done.out
    assert "ratio" in done.out
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.usefixtures("own_sharing")
def test_json_holds_all_of_it(codl: Codl, model: Path) -> None:
    values = codl("analyze", model, *PREDICTED, "--json").values

    assert {"bound_us", "taken_us", "ratio", "gaps", "layers", "bounds", "advice"} <= set(values)
    assert 0 < values["ratio"] <= 1
    total = values["bound_us"] + sum(gap["us"] for gap in values["gaps"])
    assert total == pytest.approx(values["taken_us"])


def test_profiles_are_needed(codl: Codl, model: Path) -> None:
    done = codl("analyze", model, *BARE)

    assert (done.code, done.out) == (2, "")
    assert "codl profile" in done.err

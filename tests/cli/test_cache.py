"""`codl cache`: what is listed, what verify finds, what clear leaves."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from codl.cache.folders import KERNELS, WEIGHTS
from codl.cli.main import main

KEYS = ("a" * 64, "b" * 64)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache of one kernel, one file of weights and one of a driver's."""
    monkeypatch.setenv("CODL_CACHE_DIR", str(tmp_path))
    KERNELS.write(
        KEYS[0], {"binary": np.zeros(10, np.uint8)}, about={"device": "a-cpu", "what": "a.cl -DX=1"}
    )
    WEIGHTS.write(KEYS[1], {"w": np.ones(5000, np.float32)}, about={"what": "a network"})
    driver = tmp_path / "drivers" / "pocl"
    driver.mkdir(parents=True)
    (driver / "some.so").write_bytes(b"12345")
    (tmp_path / "mine.txt").write_text("not codl's")
    return tmp_path


def test_ls_lists_every_entry(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "ls"]) == 0
    title, header, *rows = capsys.readouterr().out.splitlines()

    assert title == str(folder)
    assert header.split() == ["cache", "entry", "size", "last", "used", "holds"]
    assert [row.split()[0] for row in rows] == ["drivers", "kernels", "weights"]
    assert "a-cpu a.cl -DX=1" in rows[1]


def test_ls_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "ls", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)

    assert told["folder"] == str(folder)
    assert {entry["cache"]: entry["entry"] for entry in told["entries"]} == {
        "drivers": "pocl",
        "kernels": KEYS[0],
        "weights": KEYS[1],
    }
    assert told["entries"][0]["bytes"] == 5


def test_verify_is_content_with_what_was_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "verify"]) == 0
    assert "2 entries" in capsys.readouterr().out


def test_verify_names_what_cannot_be_trusted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.truncate(folder / "weights" / f"{KEYS[1]}.codl", 5000)
    (folder / "kernels").chmod(0o777)

    assert main(["cache", "verify"]) == 1
    problems = capsys.readouterr().out.splitlines()
    assert len(problems) == 2
    assert "may be written by others" in problems[0]
    assert "got 5000 bytes" in problems[1]
    assert main(["cache", "verify", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["problems"] == problems
    assert main(["cache", "ls"]) == 0
    assert "cannot be trusted" in capsys.readouterr().out


def test_clear_removes_entries_and_nothing_else(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "clear"]) == 0
    assert "removed 3 entries" in capsys.readouterr().out
    left = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert left == ["mine.txt"]

    assert main(["cache", "clear", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == 0


@pytest.mark.parametrize("action", ["ls", "verify", "clear"])
def test_no_cache_is_nothing_to_do(
    action: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CODL_CACHE_DIR", str(tmp_path / "none"))

    assert main(["cache", action]) == 0
    assert capsys.readouterr().err == ""
    assert not (tmp_path / "none").exists()

"""`codl devices` and the entry point: what is printed where, and the exit codes."""

import json
import re
from pathlib import Path

import pytest

from codl.cli.main import VERBS, build_parser, main
from codl.cli.output import format_bytes
from tests.processes import run_python

NO_DRIVER = """
import os, sys, pyopencl
os.environ["PYOPENCL_HOME"] = "/nonexistent"
from codl.devices import installed
installed._packaged_files = lambda package: None
from codl.cli.main import main
sys.exit(main(["devices"]))
"""


def test_lists_devices_as_a_plain_table() -> None:
    done = run_python("-m", "codl", "devices")

    header, *rows = done.stdout.splitlines()
    assert done.returncode == 0
    assert header.split() == ["name", "kind", "driver", "units", "memory", "sharing", "profile"]
    assert rows
    state = (
        r"measured \d{4}-\d\d-\d\d(, \d+ stale)?|shipped, scaled at first use|none, estimated at first use"
    )
    assert all(re.fullmatch(state, row[header.index("profile") :].strip()) for row in rows)


def test_json_holds_every_fact() -> None:
    told = json.loads(run_python("-m", "codl", "devices", "--json", "--emulate-pair").stdout)

    assert told["emulated_pair"] is True
    assert {"name", "kind", "units", "processor", "sharing", "profile"} <= set(told["devices"][0])


def test_copied_sharing_is_shown() -> None:
    told = json.loads(run_python("-m", "codl", "devices", "--json", CODL_SHARING="copied").stdout)

    assert {device["sharing"] for device in told["devices"]} == {"copied"}


def test_no_driver_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    done = run_python("-c", NO_DRIVER, OCL_ICD_VENDORS=str(tmp_path))

    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "pip install" in done.stderr


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["devices", "--nonsense"]])
def test_wrong_usage_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__.split(".")[-1])
def test_every_verb_shows_an_example(verb: object, capsys: pytest.CaptureFixture[str]) -> None:
    name = getattr(verb, "__name__", "").split(".")[-1]

    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args([name, "--help"])

    assert ended.value.code == 0
    assert f"example: codl {name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("count", "text"), [(512, "512 B"), (32768, "32 KiB"), (1 << 20, "1 MiB"), (5 << 30, "5.0 GiB")]
)
def test_sizes_read_well(count: int, text: str) -> None:
    assert format_bytes(count) == text

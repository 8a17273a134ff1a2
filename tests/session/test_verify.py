"""`verify_plan`: measured once, remembered on disk, measured again when anything has changed."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codl
from codl.cache.folders import PLANS
from codl.cli.main import main
from codl.devices.opencl import Device, open_devices
from codl.ir.graph import Graph
from codl.plan.steps import Plan
from codl.session import verify
from tests.exactness import DEVICES
from tests.oracle import random_feeds, relative_error, run_reference
from tools.networks import build

MODEL = build("mobilenet_v2", size=32, width=0.25)
DATA = MODEL.SerializeToString()


@pytest.fixture(autouse=True)
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The networks that were measured, with an empty cache; drivers are loaded before it moves."""
    open_devices(DEVICES)
    monkeypatch.setenv("CODL_CACHE_DIR", str(tmp_path / "cache"))
    names: list[str] = []
    measure = verify._measure_fastest

    def note(graph: Graph, candidates: Sequence[Plan], **options: Any) -> Plan:
        names.append(graph.name)
        return measure(graph, candidates, **options)

    monkeypatch.setattr(verify, "_measure_fastest", note)
    return names


def open_verified(data: bytes = DATA, **options: object) -> Plan:
    """Open a session with `verify_plan`, check its numbers and return its plan."""
    asked = codl.SessionOptions()
    asked.devices, asked.planner, asked.verify_plan = DEVICES, "even", True
    for name, value in options.items():
        setattr(asked, name, value)
    with codl.InferenceSession(data, asked) as session:
        return session.plan


def the_entry() -> Path:
    (path,) = PLANS.files()
    return path


def test_second_session_measures_nothing(measured: list[str]) -> None:
    first = open_verified()
    again = open_verified()

    assert len(measured) == 1
    assert again == first
    assert first.planner in {"even", *(f"single:{name}" for name in DEVICES)}


def test_remembered_plan_gives_right_numbers() -> None:
    open_verified()
    options = codl.SessionOptions()
    options.devices, options.planner, options.verify_plan = DEVICES, "even", True
    feeds = random_feeds(MODEL)
    with codl.InferenceSession(DATA, options) as session:
        (output,) = session.run(None, feeds)
    assert relative_error(output, run_reference(MODEL, feeds, ["output"])["output"]) < 1e-4


@pytest.mark.parametrize(
    "options",
    [{"ratios": (0.25, *(0.75 / (len(DEVICES) - 1),) * (len(DEVICES) - 1))}, {"max_chain_length": 2}],
    ids=["ratios", "chain length"],
)
def test_other_options_are_measured(measured: list[str], options: dict[str, Any]) -> None:
    open_verified()
    open_verified(**options)

    assert len(measured) == 2


def test_other_network_is_measured(measured: list[str]) -> None:
    open_verified()
    open_verified(build("mobilenet_v2", size=64, width=0.25).SerializeToString())

    assert len(measured) == 2


def test_other_driver_is_measured(measured: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    open_verified()

    def open_newer(names: Sequence[str], **options: Any) -> tuple[Device, ...]:
        return tuple(device.with_facts(driver_version="newer") for device in open_devices(names, **options))

    monkeypatch.setattr(verify, "open_devices", open_newer)
    open_verified()

    assert len(measured) == 2


def test_other_sharing_is_measured(measured: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CODL_SHARING", raising=False)
    open_verified()
    monkeypatch.setenv("CODL_SHARING", "copied")
    open_verified()

    assert len(measured) == 2


def flip_a_bit() -> None:
    content = bytearray(the_entry().read_bytes())
    content[4096 + 10] ^= 64
    the_entry().write_bytes(bytes(content))


def truncate() -> None:
    os.truncate(the_entry(), the_entry().stat().st_size // 2)


def hold(text: str) -> None:
    """Seal another text under the entry's key."""
    PLANS.write(the_entry().stem, {"plan": np.frombuffer(text.encode(), np.uint8)}, about={})


def hold_no_json() -> None:
    hold("{")


def hold_no_plan() -> None:
    hold("[]")


def hold_plan_of_another_model() -> None:
    hold(json.dumps({"schema": 1, "devices": [DEVICES[0]], "steps": []}))


def hold_nothing() -> None:
    PLANS.write(the_entry().stem, {}, about={})


@pytest.mark.parametrize(
    "damage",
    [flip_a_bit, truncate, hold_no_json, hold_no_plan, hold_plan_of_another_model, hold_nothing],
    ids=lambda damage: damage.__name__,
)
def test_entry_that_cannot_be_trusted_is_measured_again(
    measured: list[str], damage: Callable[[], None]
) -> None:
    open_verified()
    damage()
    open_verified()
    open_verified()

    assert len(measured) == 2
    assert list(PLANS.find_problems()) == []


def test_cache_verb_lists_verifies_and_clears_plans(capsys: pytest.CaptureFixture[str]) -> None:
    open_verified()
    capsys.readouterr()

    assert main(["cache", "ls", "--json"]) == 0
    (entry,) = (e for e in json.loads(capsys.readouterr().out)["entries"] if e["cache"] == "plans")
    assert f"over {', '.join(DEVICES)}" in entry["about"]["what"]
    truncate()
    assert main(["cache", "verify"]) == 1
    assert main(["cache", "clear"]) == 0
    assert PLANS.files() == ()


@pytest.mark.parametrize(
    ("shared", "expected"),
    [
        ([8.0, 8.0, 8.0, 8.0, 8.0], 0),
        ([9.9, 9.9, 9.9, 9.9, 9.9], 1),  # a gain too small to count
        ([8.0, 8.0, 8.0, 11.0, 11.0], 1),  # a gain that comes and goes
        ([8.0, 8.0, 8.0, 8.0, 30.0], 0),  # one disturbance
    ],
)
def test_several_devices_are_taken_where_they_gain_most_of_the_time(
    shared: Sequence[float], expected: int
) -> None:
    rounds = [[one, 10.0, 12.0] for one in shared]

    assert verify.choose_fastest(rounds, [True, False, False]) == expected

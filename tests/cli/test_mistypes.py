"""Mistyped names: the one that was meant is asked for, before anything is planned or measured."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

import codl.session
from codl.cli import inspect, run
from codl.errors import suggest
from codl.frontend import load_model
from tests.cli.conftest import Codl

BARE = ("--devices", "left-cpu,right-gpu", "--planner", "even")


@pytest.mark.parametrize(
    ("name", "meant"),
    [("intl-cpu", "intel-cpu"), ("INTEL-CPU", "intel-cpu"), ("pocl", ""), ("", "")],
    ids=["letter_lost", "capitals", "too_far", "nothing"],
)
def test_only_a_name_that_is_alike_is_suggested(name: str, meant: str) -> None:
    assert suggest(name, ["intel-cpu", "nvidia-gpu"]) == (f"; did you mean '{meant}'?" if meant else "")


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("plna",), "plan"),
        (("cache", "verfy"), "verify"),
        (("plan", "MODEL", "--devcies=intel-cpu"), "--devices"),
        (("plan", "MODEL", "--devices", "itnel-cpu"), "intel-cpu"),
        (("plan", "MODEL", *BARE[:2], "--planner", "evne"), "even"),
        (("plan", "MODEL", "--devices", "intel-cpu", "--planner", "single:intel-cpv"), "intel-cpu"),
        (("inspect", "MODEL", *BARE, "--set", "NODE=left-cpv"), "left-cpu"),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, tuple) else "",
)
def test_what_was_meant_is_asked(codl: Codl, model: Path, arguments: Sequence[str], meant: str) -> None:
    node = load_model(model).graph.nodes[0].name
    typed = [one.replace("MODEL", str(model)).replace("NODE", node) for one in arguments]

    done = codl(*typed)

    assert (done.code, done.out) == (2, "")
    assert f"did you mean '{meant}'?" in done.err.splitlines()[-1]


def fail(*_: Any, **__: Any) -> NoReturn:
    raise AssertionError("planned, or opened a device, before names were checked")


def test_axes_are_checked_before_planning(codl: Codl, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect, "plan_model", fail)
    node = load_model(model).graph.nodes[0].name

    done = codl("inspect", model, *BARE, "--set", f"{node}=depth:4")

    assert (done.code, done.out) == (2, "")
    assert "got axis 'depth'" in done.err


@pytest.mark.parametrize("flags", [("--set", "{}x=left-cpu"), ("--why", "{}x")], ids=lambda flags: flags[0])
def test_node_names_are_checked_before_planning(
    codl: Codl, model: Path, flags: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect, "plan_model", fail)
    node = load_model(model).graph.nodes[0].name

    done = codl("inspect", model, *BARE, flags[0], flags[1].format(node))

    assert (done.code, done.out) == (2, "")
    assert f"did you mean {node!r}?" in done.err


def test_other_plan_is_read_before_planning(codl: Codl, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect, "plan_model", fail)

    assert codl("inspect", model, *BARE, "--diff", "absent.json").code == 2


@pytest.mark.parametrize(("name", "message"), [("inptu", "did you mean 'input'?"), ("input", "absent.npy")])
def test_inputs_are_checked_before_a_session_opens(
    codl: Codl, model: Path, name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "InferenceSession", fail)

    done = codl("run", model, "--input", f"{name}=absent.npy")

    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_names_of_a_run_are_asked_for(model: Path) -> None:
    value = np.zeros((1, 3, 32, 32), np.float32)
    with codl.session.InferenceSession(model) as session:
        with pytest.raises(codl.errors.InputError, match="did you mean 'input'"):
            session.run(None, {"inputs": value})
        with pytest.raises(codl.errors.InputError, match="did you mean 'output'"):
            session.run(["outputs"], {"input": value})

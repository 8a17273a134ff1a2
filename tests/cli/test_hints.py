"""Commands that messages name: they repeat the flags about devices, and the parser takes them."""

import argparse
import re
import shlex
from pathlib import Path

import pytest

from codl.cli.hints import DEVICE_VERBS, PAIR_VERBS, add_flags, note_flags, noted_flags
from codl.cli.main import VERBS, build_parser
from tests.cli.conftest import Codl

GIVEN = argparse.Namespace(devices=["intel-cpu", "pocl-cpu"], emulate_pair=True)


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        ("run `codl profile`.", "run `codl profile --devices intel-cpu,pocl-cpu --emulate-pair`."),
        ("`codl profile --device a`", "`codl profile --device a --emulate-pair`"),
        ("see `codl devices`", "see `codl devices --emulate-pair`"),
        ("`codl cache verify`", "`codl cache verify`"),
        ("`codl tune --model a.onnx`", "`codl tune --model a.onnx --emulate-pair`"),
    ],
    ids=["both", "device_named", "pair_alone", "neither", "tune"],
)
def test_hint_repeats_the_flags_about_devices_that_its_verb_takes(hint: str, shown: str) -> None:
    with noted_flags():
        note_flags(GIVEN)
        told = add_flags(hint)

    assert told == shown
    assert add_flags(hint) == hint


def test_hint_is_as_it_was_when_no_flag_is_given() -> None:
    with noted_flags():
        note_flags(argparse.Namespace(devices=None))
        assert add_flags("run `codl profile`") == "run `codl profile`"


@pytest.mark.parametrize("verb", [module.__name__.rpartition(".")[2] for module in VERBS])
def test_verbs_that_take_the_flags_are_known(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args([verb, "--help"])
    usage = capsys.readouterr().out

    assert ("--emulate-pair" in usage) == (verb in PAIR_VERBS)
    assert ("--devices " in usage) == (verb in DEVICE_VERBS)


def test_printed_hint_can_be_typed(codl: Codl, model: Path) -> None:
    done = codl("plan", model, "--devices", "intel-cpu,absent-gpu", "--emulate-pair")

    assert done.code == 2
    (command,) = re.findall(r"`codl ([^`]*)`", done.err)
    assert command == "devices --emulate-pair"
    build_parser().parse_args(shlex.split(command))

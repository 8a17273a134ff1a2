"""The command line as a whole: names that would act on a terminal, streams that fail, hostile flags."""

import io
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from codl._interrupts import INTERRUPTED
from codl.cli.main import VERBS, main
from codl.cli.output import escape
from codl.cli.run import name_files
from tests.cli.conftest import Codl
from tests.exactness import DEVICES
from tests.processes import clean_environment

pytestmark = pytest.mark.usefixtures("no_shipped_profiles")  # which would be measured here first
HOSTILE = "\x1b[31mred\r\nline\u202eevil\u2028\x9b\ud800"
NAMES = ",".join(DEVICES)
PATIENCE = 5.0
"""Seconds until a signal has come for certain."""
BARE = ("--devices", "left-cpu,right-gpu", "--planner", "even")
"""Flags of plans that touch no device."""


def save_model(path: Path, name: str = "") -> Path:
    """Write a network of a product and an activation, whose names end in ``name``."""
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", [f"x{name}", "w"], [f"y{name}"], name=f"product{name}"),
            helper.make_node("Softmax", [f"y{name}"], [f"z{name}"], name=f"last{name}"),
        ],
        f"graph{name}",
        [helper.make_tensor_value_info(f"x{name}", TensorProto.FLOAT, [3, 16])],
        [helper.make_tensor_value_info(f"z{name}", TensorProto.FLOAT, [3, 20])],
        [onnx.numpy_helper.from_array(np.ones((16, 20), np.float32), "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return save_model(tmp_path / "tiny.onnx")


def is_harmless(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


@pytest.mark.parametrize("text", [HOSTILE, "plain é ─", "a\tb\x7f", "\u200b\u2066"])
def test_escaped_text_shows_itself_only(text: str) -> None:
    assert escape(text).isprintable()
    assert escape(text) == text or "\\" in escape(text)


@pytest.mark.parametrize(
    "flags",
    [
        ("plan",),
        ("inspect",),
        ("inspect", "--why", f"product{HOSTILE[:-1]}"),
        ("inspect", "--set", f"product{HOSTILE[:-1]}=zz"),
        ("inspect", "--why", HOSTILE),
    ],
    ids=lambda flags: " ".join(flags[:2]),
)
def test_names_from_models_do_nothing_to_a_terminal(codl: Codl, tmp_path: Path, flags: Sequence[str]) -> None:
    model = save_model(tmp_path / "hostile.onnx", HOSTILE[:-1])

    done = codl(flags[0], model, *BARE, *flags[1:])

    assert done.code in {0, 2}
    assert is_harmless(done.out)
    assert is_harmless(done.err)
    assert HOSTILE not in flags or "\\x1b[31mred" in done.err


def test_output_files_have_names_of_their_own() -> None:
    found = name_files(["a/b", "a_b", "..", "a\nb", "é" * 300, "é" * 301, "a_b_2"])

    assert found[:4] == ["a_b.npy", "a_b_2.npy", "...npy", "a_b_3.npy"]
    assert len(set(found)) == len(found)
    assert all(len(name.encode()) < 255 and "/" not in name for name in found)


def test_an_ascii_terminal_gets_ascii(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: Path) -> None:
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, "ascii", errors="strict"))

    for model in (tiny, save_model(tmp_path / "é.onnx", "é")):
        assert main(["plan", str(model), *BARE]) == 0

    text = printed.getvalue().decode("ascii")
    assert " + " in text or " - " in text
    assert "\\u" not in text


def test_closed_streams_are_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)

    assert main(["cache", "ls"]) == 0

    for stream in (sys.stdout, sys.stderr):
        stream.close()


def shell(command: str) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in which `codl` is this one."""
    script = f'codl() {{ "{sys.executable}" -W ignore -m codl "$@"; echo "code $?" >&3; }}; ({command}) 3>&4'
    return subprocess.run(
        ["bash", "-c", f"({script}) 4>&2"],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "codes"),
    [
        ("codl cache ls >&- 2>&-", {0}),
        ("codl cache ls > /dev/full", {2}),
        ("codl --help | true", {0}),
    ],
    ids=["closed", "full", "left"],
)
def test_streams_of_a_shell_end_no_command_in_a_traceback(command: str, codes: set[int]) -> None:
    done = shell(command)

    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert {int(line.split()[1]) for line in done.stderr.splitlines() if line.startswith("code ")} <= codes
    assert len(done.stderr.splitlines()) <= 2


def test_an_interrupt_while_codl_is_imported_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "platformdirs.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    environment = clean_environment()
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), environment["PYTHONPATH"]])

    done = subprocess.run(
        [sys.executable, "-m", "codl", "devices"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, "", "codl: interrupted\n")


def test_an_interrupted_verb_is_one_line(codl: Codl, monkeypatch: pytest.MonkeyPatch, tiny: Path) -> None:
    def interrupt(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(PATIENCE)  # any thread may take the signal, and tells this one

    monkeypatch.setattr("codl.cli.plan.plan_model", interrupt)

    done = codl("plan", tiny, *BARE)

    assert (done.code, done.out, done.err) == (INTERRUPTED, "", "codl: interrupted\n")


@pytest.mark.parametrize("flags", [(), ("--devices", NAMES)], ids=["defaults", "named"])
def test_an_unknown_single_device_is_refused(codl: Codl, tiny: Path, flags: Sequence[str]) -> None:
    done = codl("plan", tiny, "--planner", "single:zz", *flags)

    assert done.code == 2
    assert "zz" in done.err
    assert DEVICES[0] in done.err


@pytest.mark.parametrize(
    "flags",
    [
        ("plan", "MODEL", "-o", "missing/p.json"),
        ("inspect", "MODEL", "--html", "."),
        ("inspect", "MODEL", "--perfetto", "missing/p"),
        ("inspect", "MODEL", "--onnx", "missing/p"),
        ("inspect", "MODEL", "--png", "missing/p"),
        ("inspect", "MODEL", "-o", "missing/p"),
        ("analyze", "MODEL", "--html", "missing/p"),
        ("run", "MODEL", "--output", "MODEL"),
        ("profile", "--output", "MODEL"),
    ],
    ids=" ".join,
)
def test_outputs_are_checked_before_the_work(
    codl: Codl, tiny: Path, flags: Sequence[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)

    def fail(_: object) -> int:
        raise AssertionError("the work began")

    for verb in VERBS:
        monkeypatch.setattr(verb, "run", fail)

    done = codl(*(str(tiny) if flag == "MODEL" else flag for flag in flags))

    assert done.code == 2
    assert "expected a file that can be written" in done.err


VALUES = (
    "", "-1", "0", "1", "3", "9" * 40, "1e999", "nan", "٣", "0.5,0.5", "2,1", "x=/dev/null", "x=", "=", "x",
    HOSTILE, "a\nb", "/dev/null", "/dev/full", ".", "missing/file", "zz", "even", "greedy", "dynamic",
    "single:", "single:zz", f"single:{DEVICES[0]}", NAMES, DEVICES[0], f"{DEVICES[0]},{DEVICES[0]}", ",",
    "ort", "1s", "product=OC:0.5", "product=H:1", "product=zz", "n" * 5000, "zero\0byte",
)  # fmt: skip
FLAGS = {
    "devices": ("--json", "--emulate-pair"),
    "doctor": ("--what",),
    "plan": ("--devices", "--planner", "--ratio", "--max-chain", "--axis", "--profiles", "-o", "--json"),
    "inspect": (
        "--devices", "--planner", "--ratio", "--max-chain", "--axis", "--profiles", "--html", "--model",
        "--set", "--why", "--diff", "--perfetto", "--onnx", "--png", "-o", "--json",
    ),
    "analyze": ("--devices", "--planner", "--ratio", "--profiles", "--html", "--model", "--json"),
    "run": (
        "--devices", "--planner", "--ratio", "--max-chain", "--axis", "--plan", "--input", "--random-seed",
        "--output", "--json", "--check",
    ),
    "cache": ("--json",),
    "tune": ("--device", "--budget", "--model", "--json"),
    "profile": ("--devices", "--budget", "--output", "--quick", "--stale", "--json"),
    "bench": ("--devices", "--planner", "--against", "--plan", "--random-seed"),
}  # fmt: skip
SWITCHES = frozenset({"--json", "--emulate-pair", "--check", "--quick", "--stale", "--what"})
ENDINGS = {
    "tune": ("--model", "missing", "--dry-run"),
    "profile": ("--device", "none-such"),  # measuring takes minutes
    "bench": ("--rounds", "1", "--warmup", "0"),
}


def draw_line(draw: random.Random, verb: str, targets: Sequence[str]) -> list[str]:
    """Return a command line of a verb: flags with values that fit, or do not."""
    line = [verb]
    if verb not in {"devices", "doctor", "tune", "profile"}:
        line += draw.choices(
            ["ls", "verify", *VALUES] if verb == "cache" else targets, k=draw.choice([1, 1, 1, 0, 2])
        )
    for flag in draw.sample(FLAGS[verb], k=min(len(FLAGS[verb]), draw.randrange(5))):
        line.append(flag)
        if flag not in SWITCHES and draw.random() < 0.95:
            line.append(draw.choice(VALUES))
    return [*line, *ENDINGS.get(verb, ())]


def find_faults(codl: Codl, line: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong with how a command line ends."""
    try:
        done = codl(*line)
    except BaseException as error:
        yield f"{line}: {type(error).__name__}: {error}"
        return
    if done.code not in {0, 1, 2}:
        yield f"{line}: code {done.code}"
    if not is_harmless(done.out) or not is_harmless(done.err):
        yield f"{line}: {done.out[:300]!r} {done.err[:300]!r}"
    if done.code == 2 and not done.err:
        yield f"{line}: says nothing"


def check_lines(codl: Codl, folder: Path, verbs: Callable[[], Iterator[str]], seed: int) -> None:
    (folder / "garbage.onnx").write_bytes(os.urandom(64))
    (folder / "plan.json").write_text("{}")
    targets = (
        str(save_model(folder / "tiny.onnx")), str(save_model(folder / "hostile.onnx", HOSTILE[:-1])),
        "garbage.onnx", "plan.json", "missing", ".", "", "zero\0byte", HOSTILE,
    )  # fmt: skip
    draw = random.Random(seed)

    faults = [fault for verb in verbs() for fault in find_faults(codl, draw_line(draw, verb, targets))]

    assert faults == []


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, so that files of odd names go with it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_no_command_line_ends_in_a_traceback(codl: Codl, own_folder: Path) -> None:
    quick = ("plan", "inspect", "cache", "run", "tune", "profile")

    check_lines(codl, own_folder, lambda: itertools.islice(itertools.cycle(quick), 90), seed=1)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(10))
def test_no_command_line_of_many_ends_in_a_traceback(codl: Codl, own_folder: Path, seed: int) -> None:
    check_lines(codl, own_folder, lambda: itertools.islice(itertools.cycle(FLAGS), 1000), seed=seed)


@pytest.mark.parametrize("way", ["itself", "link"])
def test_a_model_is_never_written_over(codl: Codl, tmp_path: Path, way: str) -> None:
    path = save_model(tmp_path / "net.onnx")
    content = path.read_bytes()
    output = path if way == "itself" else tmp_path / "plan.json"
    if way == "link":
        output.symlink_to(path)

    done = codl("plan", path, *BARE, "-o", output)

    assert done.code == 2
    assert "which is read; expected another file" in done.err
    assert path.read_bytes() == content

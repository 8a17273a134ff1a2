"""Ctrl-C while devices build, launch and measure: the command waits for them, says one line and ends."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from codl._interrupts import INTERRUPTED
from tests.cli.test_main import save_model
from tests.exactness import DEVICES
from tests.processes import CACHE, clean_environment

IS_IGNORED = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
pytestmark = pytest.mark.skipif(IS_IGNORED, reason="children of what runs in the background ignore Ctrl-C")
TUNE = ("tune", "--device", DEVICES[0], "--model", "MODEL", "--budget", "10m")
LONG = {
    "tune": TUNE,
    "profile": ("profile", "--device", DEVICES[0], "--budget", "10m"),
    "bench": ("bench", "MODEL", "--devices", DEVICES[0], "--rounds", "1000000"),
    "run": ("run", "MODEL", "--devices", DEVICES[0]),
}


def start(model: Path, cache: Path, line: Sequence[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "codl", *(str(model) if w == "MODEL" else w for w in line)],
        env=clean_environment(CODL_CACHE_DIR=str(cache)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def interrupt(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Send Ctrl-C; return the exit code and what stderr says last."""
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert "Traceback" not in err
    return process.returncode, "".join(err.splitlines()[-1:])


@pytest.mark.timeout(900)
def test_a_tuner_that_measures_is_interrupted(tmp_path: Path) -> None:
    process = start(save_model(tmp_path / "tiny.onnx"), tmp_path / "cache", TUNE)
    while process.poll() is None and not any(path.stat().st_size for path in tmp_path.rglob("*.jsonl")):
        time.sleep(0.02)

    assert interrupt(process) == (INTERRUPTED, "codl: interrupted")


@pytest.mark.heavy
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("verb", LONG)
def test_verbs_are_interrupted_at_any_time(verb: str, tmp_path: Path) -> None:
    model, draw, ends = save_model(tmp_path / "tiny.onnx"), random.Random(verb), set()
    for _ in range(30):
        with start(model, CACHE, LONG[verb]) as process:
            time.sleep(0.5 + 15 * draw.random())
            ends.add(interrupt(process) if process.poll() is None else (process.returncode, ""))

    assert ends <= {(INTERRUPTED, "codl: interrupted"), (0, "")}

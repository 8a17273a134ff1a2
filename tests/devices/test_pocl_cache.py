"""PoCL's folder: room to spare, or another; thrown away after a bad end, never while another uses it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from codl.assets import has_room
from codl.cli.main import main
from codl.devices import pocl_cache
from codl.errors import DeviceError
from tests.processes import clean_environment, evaluate, run_python

CLAIM = """
import sys
from pathlib import Path
from codl.devices.pocl_cache import _claim, kept_folder
kept = kept_folder()
kept.mkdir(parents=True, exist_ok=True)
print(_claim(kept), sorted(path.name for path in kept.iterdir()), flush=True)
(kept / sys.argv[1]).write_text("compiled")
sys.stdin.read()
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 16 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("may not mount disks")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def start(cache: Path, file: str) -> "subprocess.Popen[str]":
    """Start a process that uses the kept folder, puts a file into it and waits."""
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", CLAIM, file],
        env=clean_environment(CODL_CACHE_DIR=str(cache)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(process: "subprocess.Popen[str]", *, number: int | None = None) -> None:
    if number is not None:
        process.send_signal(number)
    process.communicate()


def test_what_pocl_keeps_goes_after_a_bad_end_and_with_no_process_that_uses_it(tmp_path: Path) -> None:
    first = start(tmp_path, "one")
    assert first_line(first) == "True []"
    end(first)
    second = start(tmp_path, "two")
    assert first_line(second) == "True ['one']"
    third = start(tmp_path, "three")
    assert first_line(third) in {"True ['one']", "True ['one', 'two']"}
    end(second, number=signal.SIGKILL)
    fourth = start(tmp_path, "four")
    assert first_line(fourth).startswith("False ")  # the third still uses it, and it may be damaged
    end(fourth)
    end(third)
    fifth = start(tmp_path, "five")
    assert first_line(fifth) == "True []"
    end(fifth)


def test_clearing_leaves_what_a_process_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODL_CACHE_DIR", str(tmp_path))
    kept = pocl_cache.kept_folder()
    user = start(tmp_path, "one")
    first_line(user)
    while not (kept / "one").exists():
        time.sleep(0.01)

    assert main(["cache", "clear"]) == 0
    assert (kept / "one").exists()

    end(user)
    assert main(["cache", "clear"]) == 0
    assert not kept.exists()


def test_room_is_what_can_be_written(disk: Path) -> None:
    assert has_room(disk / "new", 1 << 20)
    assert not has_room(disk, 1 << 30)
    (disk / "file").write_bytes(bytes(14 << 20))
    (disk / "more").write_bytes(bytes((1 << 20) + (1 << 19)))
    assert not has_room(disk, 1 << 20)
    assert not has_room(Path("/proc/none"))


def test_nothing_is_compiled_on_a_full_disk(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = type("Info", (), {"driver": "pocl", "name": "pocl-cpu"})()
    monkeypatch.setattr(pocl_cache, "_used", [disk])

    with pytest.raises(DeviceError, match="full disk"):
        pocl_cache.check_room(info)


RUN = """
import json, os, sys
import numpy as np
import onnx
from onnx import TensorProto, helper
import codl

graph = helper.make_graph(
    [helper.make_node("Softmax", ["x"], ["z"])],
    "small",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 16])],
    [helper.make_tensor_value_info("z", TensorProto.FLOAT, [3, 16])],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
options = codl.SessionOptions()
options.devices = ["pocl-cpu"]
options.planner = "single:pocl-cpu"
session = codl.InferenceSession(model.SerializeToString(), options)
from codl.devices.pocl_cache import find_pocl_cache
total = float(session.run(None, {"x": np.ones((3, 16), np.float32)})[0].sum())
print(json.dumps([round(total, 3), str(find_pocl_cache())]))
"""


def test_a_full_disk_under_the_cache_ends_no_process(disk: Path) -> None:
    (disk / "file").write_bytes(bytes(15 << 20))

    total, folder = evaluate(RUN, CODL_CACHE_DIR=str(disk / "cache"))

    assert total == 3.0
    assert not Path(folder).is_relative_to(disk)
    assert not Path(folder).exists(), "it goes with the process"


def test_damaged_files_of_pocls_stop_one_start_at_most(tmp_path: Path) -> None:
    total, folder = evaluate(RUN, CODL_CACHE_DIR=str(tmp_path))
    assert total == 3.0
    assert Path(folder) == tmp_path / "drivers" / "pocl"
    for path in tmp_path.glob("kernels/*"):
        path.unlink()  # so that PoCL reads its own
    for path in Path(folder).rglob("*"):
        if path.is_file():
            os.truncate(path, path.stat().st_size // 2)

    run_python("-W", "ignore", "-c", RUN, CODL_CACHE_DIR=str(tmp_path))  # may end as PoCL likes

    assert evaluate(RUN, CODL_CACHE_DIR=str(tmp_path))[0] == 3.0


@pytest.mark.parametrize("places", ["home", "all"])
def test_sessions_run_where_nothing_can_be_kept(tmp_path: Path, places: str) -> None:
    """A file in place of a folder stops root, too."""
    (tmp_path / "file").touch()
    nowhere = str(tmp_path / "file" / "none")
    changes = {"HOME": nowhere, "XDG_CACHE_HOME": nowhere, "CODL_CACHE_DIR": str(tmp_path / "cache")}
    if places == "all":
        changes |= {"CODL_CACHE_DIR": nowhere, "TMPDIR": nowhere}

    done = run_python("-c", RUN, **changes)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])[0] == 3.0
    others = ("Warning", "onnxruntime:")
    lines = [line for line in done.stderr.splitlines() if not any(word in line for word in others)]
    said = [line for line in lines if not line.startswith("  ")]
    assert len(said) == (1 if places == "all" else 0), done.stderr

"""Children made by fork, in real processes: a typed error, nothing released, a clean and quick end."""

import json
import sys
from pathlib import Path

import pytest

from tests.conftest import CHOSEN
from tests.exactness import DEVICES
from tests.processes import run_python

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks as Linux does")

PRELUDE = """
import json, multiprocessing, os, sys
import numpy as np
import onnx
from onnx import TensorProto, helper
import codl

graph = helper.make_graph(
    [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Softmax", ["y"], ["z"])],
    "small",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 16])],
    [helper.make_tensor_value_info("z", TensorProto.FLOAT, [3, 20])],
    [onnx.numpy_helper.from_array(np.ones((16, 20), np.float32), "w")],
)
DATA = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
FEEDS = {"x": np.ones((3, 16), np.float32)}

def open_session():
    options = codl.SessionOptions()
    options.devices = NAMES
    options.planner = "even" if len(NAMES) > 1 else f"single:{NAMES[0]}"
    return codl.InferenceSession(DATA, options)

def wait(process):
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    told.append(code)

def attempt(what):
    try:
        what()
    except codl.DeviceError as error:
        return 40 + ("spawn" in str(error))
    return 0

told = []
"""

USE = """
session = open_session()
session.run(None, FEEDS)
def close():
    session.close()
def child(what, leave):
    if (process := os.fork()) == 0:
        leave(attempt(what))
    wait(process)
def fail(code):
    raise SystemExit(code)
for what in (lambda: session.run(None, FEEDS), open_session, lambda: session.graph, close):
    for leave in (sys.exit, os._exit):
        child(what, leave)
if os.fork() == 0:
    del session
    raise RuntimeError("not caught")
wait(-1)
process = multiprocessing.get_context("fork").Process(target=lambda: sys.exit(attempt(open_session)))
process.start()
process.join()
told.append(process.exitcode)
session.run(None, FEEDS)
session.close()
child(open_session, sys.exit)
print(json.dumps(told))
"""


def ask(code: str, names: list[str], **changes: str) -> list[int]:
    pair = {"CODL_EMULATE_PAIR": "1"} if len(names) > 1 else {}
    done = run_python("-W", "ignore", "-c", f"NAMES = {names}\n{PRELUDE}\n{code}", **pair, **changes)
    assert done.returncode == 0, done.stderr
    found: list[int] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.skipif(CHOSEN not in {"", "all"}, reason="not the devices of this run")
@pytest.mark.parametrize("names", [["pocl-cpu"], DEVICES], ids=["pocl", "pair"])
def test_children_name_spawn_and_end(names: list[str]) -> None:
    run = [41, 41, 41, 41]  # each left in two ways: a run, a new session
    harmless = [0, 0, 0, 0]  # the graph, close

    assert ask(USE, names) == [*run, *harmless, 1, 41, 41]


@pytest.mark.skipif(CHOSEN not in {"", "all"}, reason="not the devices of this run")
def test_intels_driver_works_in_children() -> None:
    assert ask(USE, ["intel-cpu"]) == [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]


def test_a_child_made_while_a_run_goes_on_uses_no_device() -> None:
    code = """
session = open_session()
session._lock.acquire()
if os.fork() == 0:
    sys.exit(attempt(lambda: session.run(None, FEEDS)))
wait(-1)
print(json.dumps(told))
"""

    assert ask(code, ["intel-cpu"]) == [41]


def test_a_child_of_a_process_without_drivers_uses_devices() -> None:
    code = """
if os.fork() == 0:
    sys.exit(attempt(lambda: open_session().run(None, FEEDS)))
wait(-1)
print(json.dumps(told))
"""

    assert ask(code, ["pocl-cpu"]) == [0]


def test_what_runs_on_the_host_alone_runs_in_children() -> None:
    code = """
graph = helper.make_graph(
    [helper.make_node("NonZero", ["x"], ["z"])],
    "host",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 16])],
    [helper.make_tensor_value_info("z", TensorProto.INT64, [2, None])],
)
DATA = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
session = open_session()
session.run(None, FEEDS)
if os.fork() == 0:
    sys.exit(attempt(lambda: session.run(None, FEEDS)))
wait(-1)
print(json.dumps(told))
"""

    assert ask(code, ["pocl-cpu"]) == [0]


def test_children_leave_files_to_their_parent(tmp_path: Path) -> None:
    """A trace file, and the folder that goes with the process where PoCL's own cannot be used."""
    code = f"""
options = codl.SessionOptions()
options.devices = NAMES
options.enable_profiling, options.profile_file_prefix = True, {str(tmp_path / "trace")!r}
session = codl.InferenceSession(DATA, options)
from codl.devices.pocl_cache import find_pocl_cache
if os.fork() == 0:
    sys.exit(0)
wait(-1)
told += [find_pocl_cache().is_dir(), len(os.listdir({str(tmp_path)!r}))]
print(json.dumps([*map(int, told), find_pocl_cache().name.startswith("codl-pocl-")]))
"""

    found = ask(code, ["pocl-cpu"], POCL_CACHE_DIR="/proc/none")

    assert found == [0, 1, 0, True]

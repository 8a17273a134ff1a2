"""The demo's main job: ResNet-50 as codl plans it, on each device alone, and in ONNX Runtime."""

import argparse
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import onnxruntime

import codl
from codl.cli.output import print_message, print_table
from codl.devices.drivers import default_devices, find_device
from codl.devices.probe import find_fault
from codl.devices.timing import Rounds, interleave, lead_in, time_call
from codl.ir.graph import Graph
from codl.plan.text import format_plan
from codl.report.picture import draw_timeline
from codl.session.inspection import find_plan_predictors, inspect_plan
from tools.networks import build

INPUT_SHAPE = (1, 3, 224, 224)
Array = np.ndarray[Any, np.dtype[Any]]
Run = Callable[[], Array]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; return 0 when the numbers agree with ONNX Runtime's."""
    parser = argparse.ArgumentParser(prog="demo.py", description="ResNet-50 on two OpenCL devices at once.")
    parser.add_argument("--rounds", type=int, default=10, help="interleaved rounds of timing")
    args = parser.parse_args(arguments)
    try:
        return show(args.rounds)
    except codl.CodlError as error:
        print_message(f"demo: {error}")
        return 2


def show(rounds: int) -> int:
    """Build, plan, run, compare and print."""
    devices = find_devices()
    print_message("building ResNet-50 with random weights ...")
    model = build("resnet50").SerializeToString()
    feed = np.random.default_rng(0).standard_normal(INPUT_SHAPE, dtype=np.float32)
    with ExitStack() as stack:
        print_message("loading ONNX Runtime and codl ...")
        runs: dict[str, Run] = {"onnxruntime, all cores": open_onnxruntime(model, feed)}
        for device in devices:
            session = open_session(stack, model, [device], f"single:{device}")
            runs[f"{device} alone"] = make_run(session, feed)
        session = open_session(stack, model, devices)
        runs["codl's own choice"] = make_run(session, feed)
        plan, graph = session.plan, session.graph
        results = {name: run() for name, run in runs.items()}
        print_message(f"timing {rounds} interleaved rounds ...")
        times = interleave(
            {name: lead_in(time_call(run)) for name, run in runs.items()}, most_rounds=rounds, warmup=1
        )
    errors = measure_errors(results)
    print(format_plan(plan, graph))
    print()
    print_results(times, errors)
    is_right = all(error <= 1e-4 for error in errors.values())
    print(f"a picture of the plan: {draw_plan(plan, graph, Path(mkdtemp(prefix='codl-')))}")
    print("the numbers agree with ONNX Runtime" if is_right else "the numbers differ from ONNX Runtime")
    return 0 if is_right else 1


def find_devices() -> list[str]:
    """Return the emulated pair, or the one device that works, saying why there is no second."""
    codl.emulate_pair()
    try:
        return [opened.info.name for opened in default_devices()]
    except codl.DriverError:
        raise
    except codl.DeviceError as error:
        print_message(f"running on one device only: {error}")
    for info in codl.devices():
        if find_fault(find_device(info.name).cl_device) is None:
            return [info.name]
    raise codl.DeviceError("no OpenCL device works here; see `codl doctor`")


def open_onnxruntime(model: bytes, feed: Array) -> Run:
    """Return a run of the model in ONNX Runtime."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda: np.asarray(session.run(None, {name: feed})[0])


def open_session(
    stack: ExitStack, model: bytes, devices: Sequence[str], planner: str | None = None
) -> codl.InferenceSession:
    """Return a session over some devices; without a planner it plans as any session does."""
    options = codl.SessionOptions(warm_up="block")
    options.devices = devices
    options.planner = planner
    return stack.enter_context(codl.InferenceSession(model, options))


def make_run(session: codl.InferenceSession, feed: Array) -> Run:
    """Return a run of a session."""
    name = session.get_inputs()[0].name
    return lambda: np.asarray(session.run(None, {name: feed})[0])


def draw_plan(plan: codl.Plan, graph: Graph, folder: Path) -> Path:
    """Return the file that the timeline of a plan was drawn into."""
    _, inspection = inspect_plan(plan, graph, find_plan_predictors(plan.devices), with_alternatives=False)
    path = folder / "plan.png"
    path.write_bytes(draw_timeline(inspection))
    return path


def measure_errors(results: dict[str, Array]) -> dict[str, float]:
    """Return for each run max|error| / max|reference| against the first one, ONNX Runtime's."""
    reference = next(iter(results.values())).astype(np.float64)
    scale = np.abs(reference).max()
    return {name: float(np.abs(result - reference).max() / scale) for name, result in results.items()}


def print_results(times: Rounds, errors: dict[str, float]) -> None:
    """Print a row for each run: median time, and the largest relative error."""
    reference = next(iter(errors))
    rows = []
    for name, error in errors.items():
        ratio = times.ratio(reference, name)
        shown = "" if name == reference else f"{error:.1e}"
        rows.append((name, f"{times.median(name) * 1e3:.1f}", f"{ratio.median:.2f}", shown))
    print_table(("ResNet-50, batch 1", "median ms", "speed to ORT", "max relative error"), rows)

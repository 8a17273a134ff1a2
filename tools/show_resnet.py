"""The demo's main job: ResNet-50 on each device alone, on both together, and in ONNX Runtime."""

import argparse
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import onnxruntime

import codl
from codl.cli.output import print_message, print_table
from codl.devices.drivers import default_devices, find_device
from codl.devices.probe import find_fault
from codl.devices.timing import Rounds, interleave, lead_in, time_call
from codl.plan.text import format_plan
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
            runs[f"{device} alone"] = open_codl(stack, model, feed, [device], f"single:{device}")[0]
        plan_text = ""
        if len(devices) > 1:
            runs["together"], plan_text = open_codl(stack, model, feed, devices, "even")
        results = {name: run() for name, run in runs.items()}
        print_message(f"timing {rounds} interleaved rounds ...")
        times = interleave(
            {name: lead_in(time_call(run)) for name, run in runs.items()}, most_rounds=rounds, warmup=1
        )
    errors = measure_errors(results)
    if plan_text:
        print(plan_text)
        print()
    print_results(times, errors)
    is_right = all(error <= 1e-4 for error in errors.values())
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


def open_codl(
    stack: ExitStack, model: bytes, feed: Array, devices: Sequence[str], planner: str
) -> tuple[Run, str]:
    """Return a run of the model in codl, and its plan as text."""
    options = codl.SessionOptions()
    options.devices = devices
    options.planner = planner
    options.max_chain_length = 8
    session = stack.enter_context(codl.InferenceSession(model, options))
    name = session.get_inputs()[0].name
    return (lambda: np.asarray(session.run(None, {name: feed})[0])), format_plan(session.plan, session.graph)


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

"""Latency of codl beside MNN and ONNX Runtime on the same cores, in interleaved rounds.

MNN is no dependency of codl: `pip install MNN` brings it, with its converter, and an older protobuf than onnx
wants. Install it where nothing else is run, or protobuf anew afterwards.

Example:
    python tools/bench_mnn.py --networks vgg16,yolov2 --devices intel-cpu
"""

import argparse
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import onnx

import codl
from codl.cli.comparison import find_errors, make_random_feeds, open_reference
from codl.devices.limits import count_cores
from codl.devices.timing import interleave, lead_in, time_call
from tools.networks import NAMES, build

WATCHED = (("mnn", "codl"), ("ort", "codl"))
Feeds = Mapping[str, Any]


class MnnModel:
    """An ONNX file converted for MNN and run by it, with float32 arithmetic on all cores."""

    def __init__(self, path: Path) -> None:
        self._expr: Any = import_module("MNN.expr")
        nn: Any = import_module("MNN.nn")
        graph = onnx.load(str(path), load_external_data=False).graph
        weights = {tensor.name for tensor in graph.initializer}
        self._inputs = [value.name for value in graph.input if value.name not in weights]
        self._outputs = [value.name for value in graph.output]
        settings = {"backend": "CPU", "precision": "high", "numThread": count_cores()}
        converted = convert(path)
        self._module = nn.load_module_from_file(
            str(converted),
            self._inputs,
            self._outputs,
            runtime_manager=nn.create_runtime_manager((settings,)),
        )

    def run(self, feeds: Feeds) -> dict[str, Any]:
        """Return the outputs by name."""
        expr = self._expr
        given = [expr.const(feeds[n], list(feeds[n].shape), expr.NCHW, expr.float) for n in self._inputs]
        found = self._module.forward(given if len(given) > 1 else given[0])
        values = found if isinstance(found, list | tuple) else [found]
        arrays = [np.array(expr.convert(value, expr.NCHW).read()) for value in values]
        return dict(zip(self._outputs, arrays, strict=True))


def main() -> int:
    """Measure and print one row for each network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", metavar="A,B", default=",".join(NAMES), help="default: all")
    parser.add_argument("--devices", default="intel-cpu", help="the device codl uses (default: intel-cpu)")
    parser.add_argument("--rounds", type=int, default=60, help="most rounds (default: 60)")
    args = parser.parse_args()
    print("| network | mnn/codl | ort/codl | a/a | mnn's error |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in args.networks.split(","):
            path = Path(folder) / f"{name}.onnx"
            onnx.save(build(name), str(path))
            print(f"| {name} | {' | '.join(compare(path, args.devices, args.rounds))} |", flush=True)
    return 0


def compare(path: Path, device: str, most_rounds: int) -> list[str]:
    """Return the cells of a network's row."""
    options = codl.SessionOptions()
    options.planner = f"single:{device}"
    with codl.InferenceSession(path, options) as session:
        feeds = make_random_feeds(session, 0)
        peer, reference = MnnModel(path), open_reference(str(path))
        names = [output.name for output in session.get_outputs()]
        expected = dict(zip(names, reference.run(names, feeds), strict=True))
        values = {name: array.reshape(expected[name].shape) for name, array in peer.run(feeds).items()}
        rows = {
            "mnn": lead_in(time_call(partial(peer.run, feeds))),
            "ort": lead_in(time_call(partial(reference.run, None, feeds))),
            "codl": lead_in(time_call(partial(session.run, None, feeds))),
        }
        rounds = interleave(rows, watch=WATCHED, control="codl", warmup=3, most_rounds=most_rounds)
    ratios = [rounds.ratio(*pair) for pair in (*WATCHED, ("codl", "codl#2"))]
    error = max(find_errors(names, values, expected).values())
    return [*(f"{r.median:.2f} [{r.low:.2f}, {r.high:.2f}]" for r in ratios), f"{error:.0e}"]


def convert(path: Path) -> Path:
    """Write the model as MNN's converter translates it, and return where."""
    converted = path.with_suffix(".mnn")
    command = [
        str(Path(sysconfig.get_path("scripts")) / "mnnconvert"),
        *("-f", "ONNX", "--modelFile", str(path), "--MNNModel", str(converted), "--bizCode", "codl"),
    ]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode or not converted.exists():
        sys.exit(f"{path.name}: MNN's converter failed\n{done.stdout}")
    return converted


if __name__ == "__main__":
    sys.exit(main())

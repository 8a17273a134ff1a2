"""Where the time of a network goes: each layer beside ONNX Runtime's and beside what the device can reach.

Both run the whole network with profiling, in turns; of each two runs the second one counts. Layers of equal
shapes are one line. The roofline is the least time of the chosen kernels (codl/tuner/bound.py) at the rates
that the device shows in a quiet minute: their arithmetic at that of multiply-adds alone, their traffic at the
bandwidth of data that are walked again and again. Layers whose weights come from memory, as all do in a large
network, cannot reach it, and no layer does while others use the cores.

Example:
    python tools/bench_layers.py resnet50.onnx --devices intel-cpu
"""

import argparse
import json
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import onnxruntime

import codl
from codl.catalog.choose import choose
from codl.devices.limits import count_cores
from codl.devices.opencl import Device, open_devices
from codl.devices.reference import References
from codl.devices.timing import rest
from codl.frontend import load_model
from codl.ir.graph import Graph, Node, Shape
from codl.machine import Peaks
from codl.tuner.bound import HEADROOM, find_bound

_REST_SECONDS = 0.01
Key = tuple[Shape, Shape]
"""Shapes of the weights, or of the only input, and of the output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What one launch computes: a node, or several."""

    names: tuple[str, ...]
    shapes: tuple[Key, ...]
    seconds: float
    roofline_seconds: float

    @property
    def sort(self) -> str:
        """What the line says of the layer."""
        shapes = (
            f"{'x'.join(map(str, weights))} -> {'x'.join(map(str, out))}" for weights, out in self.shapes
        )
        return " + ".join(f"{name} {shape}" for name, shape in zip(self.names, shapes, strict=True))


def main() -> int:
    """Measure and print a table for each device."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--devices", default="intel-cpu", metavar="A,B")
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    path = args.model.resolve()
    for device in open_devices(args.devices.split(",")):
        show(path, device, rounds=args.rounds)
    return 0


def show(path: Path, device: Device, *, rounds: int) -> None:
    """Print the layers of a model on a device, those that take most first."""
    graph, peaks = load_model(path).graph, References(device).measure_peaks()
    own, other = time_both(path, device, rounds=rounds)
    layers = list(iterate_layers(graph, device, peaks, own))
    sorts: dict[str, list[Layer]] = defaultdict(list)
    for layer in layers:
        sorts[layer.sort].append(layer)
    print(f"{path.name} on {device.info.name}, {count_cores()} cores")
    print("| layer | count | codl us | ort us | roofline / codl |")
    print("|---|---|---|---|---|")
    for sort, alike in sorted(sorts.items(), key=lambda item: -sum(layer.seconds for layer in item[1])):
        found = [other.get(key) for key in alike[0].shapes]
        theirs = [mean(times) for times in found if times]
        words = f"{sum(theirs) * 1e6:.0f}" if len(theirs) == len(found) else "-"
        share = sum(layer.roofline_seconds for layer in alike) / sum(layer.seconds for layer in alike)
        taken = mean(layer.seconds for layer in alike) * 1e6
        print(f"| {sort} | {len(alike)} | {taken:.0f} | {words} | {share:.2f} |")
    total, roofline = (
        sum(getattr(layer, name) for layer in layers) for name in ("seconds", "roofline_seconds")
    )
    theirs_total = sum(sum(times) for times in other.values())
    print(f"| all | {len(layers)} | {total * 1e6:.0f} | {theirs_total * 1e6:.0f} | {roofline / total:.2f} |")


def time_both(
    path: Path, device: Device, *, rounds: int
) -> tuple[Mapping[int, float], Mapping[Key, list[float]]]:
    """Return codl's launches by the index of their last node, ONNX Runtime's nodes by shapes, in seconds."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # both write their files here
        try:
            options = codl.SessionOptions(warm_up="block")
            options.enable_profiling, options.devices = True, [device.info.name]
            theirs = onnxruntime.SessionOptions()
            theirs.enable_profiling, theirs.intra_op_num_threads = True, count_cores()
            sessions: tuple[Any, Any] = (
                codl.InferenceSession(str(path), options),
                onnxruntime.InferenceSession(str(path), theirs, providers=["CPUExecutionProvider"]),
            )
            given = sessions[1].get_inputs()
            shapes = {value.name: [n if isinstance(n, int) else 1 for n in value.shape] for value in given}
            rng = np.random.default_rng(0)
            feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
            for _ in range(rounds):
                for session in sessions:
                    rest(_REST_SECONDS)
                    session.run(None, feeds), session.run(None, feeds)
            own, other = ([*iterate_events(session.end_profiling())] for session in sessions)
        finally:
            os.chdir(before)
    launches, nodes = defaultdict(list), defaultdict(list)
    for event in own:
        launches[int(event["args"]["node_index"])].append(event["dur"] * 1e-6)
    for event in other:
        nodes[event["name"]].append(event["dur"] * 1e-6)
    keys = {event["name"]: find_key(event) for event in other}
    alike: dict[Key, list[float]] = defaultdict(list)
    for name, times in nodes.items():
        alike[keys[name]].append(median(times[3::2]))
    return {index: median(times[3::2]) for index, times in launches.items()}, alike


def iterate_events(path: str) -> Iterator[Mapping[str, Any]]:
    """Yield what a profile says of the nodes of each run."""
    for event in json.loads(Path(path).read_text()):
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            yield event


def find_key(event: Mapping[str, Any]) -> Key:
    """Return the shapes of a node in ONNX Runtime's profile."""
    inputs = [tuple(next(iter(shape.values()))) for shape in event["args"]["input_type_shape"]]
    outputs = [tuple(next(iter(shape.values()))) for shape in event["args"]["output_type_shape"]]
    return inputs[min(1, len(inputs) - 1)] if inputs else (), outputs[0]


def iterate_layers(
    graph: Graph, device: Device, peaks: Peaks, seconds: Mapping[int, float]
) -> Iterator[Layer]:
    """Yield what each launch computes: the nodes behind the launch before it, up to its own."""
    first = 0
    for last in sorted(seconds):
        nodes = graph.nodes[first : last + 1]
        first = last + 1
        yield Layer(
            names=tuple(node.kind for node in nodes),
            shapes=tuple(_find_shapes(node, graph) for node in nodes),
            seconds=seconds[last],
            roofline_seconds=sum(_iterate_rooflines(nodes, graph, device, peaks)),
        )


def _iterate_rooflines(nodes: Sequence[Node], graph: Graph, device: Device, peaks: Peaks) -> Iterator[float]:
    for node in nodes:
        selection = choose(node, graph, device.info)
        yield find_bound(selection, node, graph, info=device.info, peaks=peaks).seconds * HEADROOM


def _find_shapes(node: Node, graph: Graph) -> Key:
    return graph.shape(node.inputs[min(1, len(node.inputs) - 1)]), graph.shape(node.output)


if __name__ == "__main__":
    sys.exit(main())

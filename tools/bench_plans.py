"""How good plans are on real devices: single operators against exhaustive search, networks against the ideal.

An operator's chosen plan is compared with the best of both devices alone and of 20 shares along each axis.
All are looked at coarsely; the best five and the chosen one are measured again, interleaved. A network's time
is compared with each operator at the sum of the devices' speeds, from what operators take on one device in
the same rounds.

Example:
    python tools/bench_plans.py --emulate-pair --devices intel-cpu,pocl-cpu --networks vgg16,resnet50
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import onnx

from codl.catalog.layers import Layer, fill_constants
from codl.catalog.stored import load_databases
from codl.devices.drivers import emulate_pair, select_devices
from codl.devices.memory import arrange
from codl.devices.opencl import Device, open_device
from codl.devices.timing import interleave, lead_in, time_call
from codl.executor.compile import compile_plan
from codl.executor.weights import Weights
from codl.frontend import load_model
from codl.ir.graph import Graph
from codl.ir.ops import Conv2d, MatMul, Pool2d
from codl.latency.predictor import Predictor
from codl.partitioner.even import share_bounds
from codl.partitioner.planner import Planner
from codl.partitioner.search import Method
from codl.plan.check import find_problems
from codl.plan.single import plan_single
from codl.plan.steps import Chain, Cut, Plan, Run
from codl.profiler.workload import load_workload
from codl.session import find_predictors
from codl.simulator.cut_grid import list_axes
from tools.networks import build
from tools.plan_ideal import study_network

NETWORKS = ("vgg16", "yolov2", "resnet50", "posenet", "fast_style_transfer", "retinaface")
_LEAD_SECONDS = 0.01
"""Untimed runs before each timed one of an operator: waking a driver takes as long as small ones."""
_RATIOS = 20
_BEST = 5
_COUNTS: Mapping[str, int] = {
    "conv 1x1": 5,
    "conv 3x3": 7,
    "conv 7x7": 2,
    "depthwise": 4,
    "linear": 3,
    "pool": 3,
}
"""Operators of each sort: 24 together."""


def main() -> int:
    """Print one row for each operator and for each network."""
    args = _parse()
    if args.emulate_pair:
        emulate_pair()
    devices = [open_device(opened.info.name) for opened in select_devices(args.devices)]
    predictors = find_predictors([device.info for device in devices])
    if len(predictors) < len(devices):
        sys.exit("got devices without profiles, expected one for each; run `codl profile`")
    report: dict[str, Any] = {"operators": [], "networks": {}}
    if not args.no_operators:
        for name, layer in list_operators():
            if args.sort not in name:
                continue
            found = study_operator(layer, devices, predictors, rounds=args.rounds)
            report["operators"].append({"name": name, **found})
            told = f"{found['chosen']:26} best {found['optimum']}"
            low, high = found["ci90"]
            quality = f"{found['quality']:.3f} [{low:.2f}, {high:.2f}]"
            print(f"{name:10} {_describe(layer):44} {quality}  {told}", flush=True)
        qualities = np.array([found["quality"] for found in report["operators"]])
        report["geometric_mean"] = float(np.exp(np.log(qualities).mean()))
        print(f"optimum / chosen: geometric mean {report['geometric_mean']:.3f}, worst {qualities.min():.3f}")
    for name, graph in _iterate_graphs([name for name in args.networks.split(",") if name], args.models):
        report["networks"][name] = found = study_network(
            graph,
            _plan(graph, predictors),
            devices,
            predictors,
            feeds=_make_feeds(graph),
            rounds=args.rounds,
        )
        low, high = found["ci90"]
        parts = ", ".join(f"{part} {found[part]:.3f}" for part in ("division", "beside", "rest"))
        print(f"{name:20} time / ideal {found['median']:.3f} [{low:.3f}, {high:.3f}] = {parts}", flush=True)
    if report["networks"]:
        ratios = [found["median"] for found in report["networks"].values()]
        print(f"time / ideal: geometric mean {np.exp(np.log(ratios).mean()):.3f}")
    if args.json:
        Path(args.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--networks", default=",".join(NETWORKS), metavar="A,B", help="empty for none")
    parser.add_argument("--models", metavar="DIR", help="folder of NAME.onnx; built where there is none")
    parser.add_argument("--devices", type=lambda text: text.split(","), metavar="A,B")
    parser.add_argument("--emulate-pair", action="store_true")
    parser.add_argument("--sort", default="", help="only operators of this sort, as 'conv 1x1'")
    parser.add_argument("--no-operators", action="store_true", help="networks only")
    parser.add_argument("--rounds", type=int, default=50, help="of what is measured again (default: 50)")
    parser.add_argument("--json", metavar="FILE", help="write all of it as JSON too")
    return parser.parse_args()


def list_operators() -> Iterator[tuple[str, Layer]]:
    """Yield operators of the benchmark networks, small to large, with the sort of each."""
    layers: dict[str, list[Layer]] = {name: [] for name in _COUNTS}
    for layer in load_workload():
        sort = _find_sort(layer)
        if sort is not None:
            layers[sort].append(layer)
    for sort, count in _COUNTS.items():
        found = sorted(layers[sort], key=_count_work)
        places = np.unique(np.linspace(0, len(found) - 1, min(count, len(found))).round().astype(int))
        for place in places:
            yield sort, found[place]


def _find_sort(layer: Layer) -> str | None:
    match layer.op:
        case Conv2d(groups=1, kernel=(size, other)) if size == other and size in {1, 3, 7}:
            return f"conv {size}x{size}"
        case Conv2d(groups=groups) if groups == layer.output[1] > 1:
            return "depthwise"
        case MatMul() if layer.constants:
            return "linear"
        case Pool2d():
            return "pool"
        case _:
            return None


def _count_work(layer: Layer) -> float:
    weights = np.prod(layer.inputs[1][1:]) if isinstance(layer.op, Conv2d) else 1.0
    if isinstance(layer.op, MatMul):
        weights = layer.inputs[0][-1]
    return float(np.prod(layer.output) * weights)


def _describe(layer: Layer) -> str:
    shapes = ["x".join(map(str, shape)) for shape in (layer.inputs[0], layer.output)]
    return " -> ".join(shapes)


def study_operator(
    layer: Layer, devices: Sequence[Device], predictors: Sequence[Predictor], *, rounds: int
) -> dict[str, Any]:
    """Return the best re-measured time over the chosen plan's, its interval, and what was chosen."""
    outline = layer.make_graph()
    graph = replace(outline, constants=fill_constants(outline))
    chosen = _plan(graph, predictors)
    names = [device.info.name for device in devices]
    told = _format_plan(chosen)
    candidates = {text: plan for text, plan in _list_candidates(graph, names) if text != told}
    plans = {"chosen": chosen, **candidates}
    calls = _compile(graph, plans, devices)
    rows = {text: lead_in(time_call(call), seconds=_LEAD_SECONDS) for text, call in calls.items()}
    coarse = interleave(rows, least_rounds=5, most_rounds=9, most_seconds=60.0, pause_seconds=0.0)
    best = sorted((text for text in rows if text != "chosen"), key=coarse.median)[:_BEST]
    again = {text: rows[text] for text in ("chosen", *best)}
    taken = interleave(again, least_rounds=rounds, most_rounds=rounds, pause_seconds=0.0)
    optimum = min(again, key=taken.median)
    found = taken.ratio(optimum, "chosen")
    quality, *ci90 = (min(1.0, value) for value in (found.median, found.low, found.high))
    return {"quality": quality, "ci90": ci90, "chosen": told, "optimum": optimum}


def _plan(graph: Graph, predictors: Sequence[Predictor]) -> Plan:
    arrangement = arrange([predictor.info for predictor in predictors])
    return Planner(graph=graph, predictors=predictors, arrangement=arrangement).plan(Method.DYNAMIC)


def _list_candidates(graph: Graph, names: Sequence[str]) -> Iterator[tuple[str, Plan]]:
    for name in names:
        yield f"all on {name}", plan_single(graph, device=name, devices=names)
    node = graph.nodes[0]
    shape = graph.shape(node.output)
    known: set[tuple[int, tuple[int, ...]]] = set()
    for axis in list_axes(shape):
        for step in range(1, _RATIOS):
            share = step / _RATIOS
            bounds = share_bounds(shape[axis], (share, 1 - share))
            chain = Chain(
                nodes=(node.name,), axis=axis, cuts=(Cut(tensor=node.output, axis=axis, bounds=bounds),)
            )
            plan = Plan(devices=tuple(names), steps=(chain,), fingerprint=graph.fingerprint)
            if (axis, bounds) not in known and not list(find_problems(plan, graph)):
                known.add((axis, bounds))
                yield f"axis {axis} {bounds}", plan


def _format_plan(plan: Plan) -> str:
    (step,) = plan.steps
    if isinstance(step, Chain):
        return f"axis {step.axis} {step.cuts[0].bounds}"
    return f"all on {step.device}" if isinstance(step, Run) else "on the host"


def _compile(
    graph: Graph, plans: Mapping[str, Plan], devices: Sequence[Device]
) -> dict[str, Callable[[], object]]:
    databases = load_databases(device.info for device in devices)
    weights = Weights(graph)
    feeds = _make_feeds(graph)
    found: dict[str, Callable[[], object]] = {}
    for text, plan in plans.items():
        executable = compile_plan(graph, plan, devices, weights=weights, databases=databases)
        found[text] = partial(executable.run, feeds)
    return found


def _make_feeds(graph: Graph) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(graph.shape(name), np.float32) for name in graph.inputs}


def _iterate_graphs(names: Sequence[str], folder: str | None) -> Iterator[tuple[str, Graph]]:
    for name in names:
        known = Path(folder) / f"{name}.onnx" if folder else None
        if known is not None and known.is_file():
            yield name, load_model(known).graph
            continue
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / f"{name}.onnx"
            onnx.save(build(name), str(path))
            yield name, load_model(path).graph


if __name__ == "__main__":
    sys.exit(main())

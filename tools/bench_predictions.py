"""Predicted against measured: whole networks on each device, and random chains that two devices share.

Times are measured as the profiler measures them: beside guards, relative to a reference;
networks launch by launch, chains from where both devices begin them to where both are done. Of chains each
device's kernels are shown too, measured beside the other's and predicted alone, and the rest of the time.

Example:
    python tools/bench_predictions.py --emulate-pair --networks resnet50,mobilenet_v2 --chains 20
    python tools/bench_predictions.py --devices intel-cpu --relative profiles/intel_..._x1
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import onnx

from codl.catalog.stored import load_database, load_databases
from codl.devices.drivers import emulate_pair, select_devices
from codl.devices.memory import arrange
from codl.devices.opencl import Device, open_device
from codl.executor.compile import compile_plan
from codl.executor.run import Executable
from codl.frontend import load_model
from codl.ir.graph import FloatArray, Graph
from codl.ir.ops import Conv2d
from codl.ir.regions import Boxes, find_splittable_axes
from codl.latency.files import load_profile
from codl.latency.predictor import Predictor
from codl.latency.profile import COMPUTE, DeviceProfile
from codl.partitioner.cost import Pricer, price_plan
from codl.partitioner.even import plan_even, plan_single
from codl.plan.check import find_problems
from codl.plan.residency import find_published, step_nodes
from codl.plan.steps import Chain, Cut, Plan, Step
from codl.profiler.first_use import borrow_here, find_profiles
from codl.profiler.survey import Survey
from codl.profiler.workload import load_workload
from codl.session.playback import measure_launches, measure_nodes
from tools.networks import NAMES, build

_WATCH_SECONDS = 20.0
"""Of looking how quiet the machine can be."""


def main() -> int:
    """Print one row for each network and device, and one for each chain."""
    args = _parse()
    if args.emulate_pair:
        emulate_pair()
    devices = [open_device(opened.info.name) for opened in select_devices(args.devices)]
    profiles = find_profiles([device.info for device in devices])
    missing = [device.info.name for device in devices if device.info.name not in profiles]
    if missing:
        sys.exit(f"{', '.join(missing)}: no profile; run `codl profile`")
    predictors = [_open_predictor(device, profiles[device.info.name]) for device in devices]
    surveys = [Survey(device) for device in devices]
    relatives = [_borrow(device, args.relative) for device in devices]
    for survey, each in zip(surveys, predictors, strict=True):
        survey.watch(_WATCH_SECONDS)
        survey.expect([each.profile.reference_us])
    names = args.networks.split(",")
    rng = np.random.default_rng(args.seed)
    drawn = rng.choice(names, size=args.chains if len(devices) == 2 else 0)
    errors: dict[str, list[float]] = {}
    for each in predictors:
        print(f"{each.info.name}: 10,000 slices predicted in {_time_predictions(each):.1f} ms")
    for name, graph in _iterate_graphs(names, args.folder):
        for index, device in enumerate(() if args.only_chains else devices):
            plan = plan_single(graph, device=device.info.name)
            measured = _measure_network(graph, plan, surveys[index], predictors[index], args.patience)
            told = {device.info.name: predictors[index], f"{device.info.name} borrowed": relatives[index]}
            for what, predictor in told.items():
                if predictor is not None:
                    ratio = _predict(graph, plan, [predictor]) / measured
                    errors.setdefault(what, []).append(ratio - 1)
                    print(f"{name:20} {what:40} {measured / 1e3:8.2f} ms predicted {ratio:.3f}", flush=True)
        for _ in range(int(np.sum(drawn == name))):
            plan, place = _draw_chain_plan(graph, [device.info.name for device in devices], rng)
            nodes = step_nodes(plan.steps[place])
            played = _measure_chain(graph, plan, nodes, surveys, predictors, patience_seconds=args.patience)
            chain = _predict_chain(graph, plan, place, predictors)
            assert chain.total_us is not None
            ratio = chain.total_us / played.total_us
            errors.setdefault("chains", []).append(ratio - 1)
            what = f"{len(nodes)} nodes from {nodes[0]}, axis {chain.axis}"
            print(f"{name:20} {what:40} {played.total_us / 1e3:8.2f} ms predicted {ratio:.3f}", end="; ")
            print(_compare_parts(chain, played, devices), flush=True)
    print(json.dumps({name: _summarise(values) for name, values in errors.items()}))
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--networks", default=",".join(NAMES), metavar="A,B", help="default: all")
    parser.add_argument("--folder", type=Path, help="holds NETWORK.onnx; by default they are built")
    parser.add_argument("--devices", type=lambda text: text.split(","), metavar="A,B")
    parser.add_argument("--emulate-pair", action="store_true")
    parser.add_argument("--chains", type=int, default=0, metavar="N", help="random chains in all")
    parser.add_argument("--patience", type=float, default=20.0, metavar="S", help="to read on for each")
    parser.add_argument("--only-chains", action="store_true", help="leave whole networks out")
    parser.add_argument(
        "--relative", type=Path, action="append", default=[], metavar="PROFILE", help="to borrow, too"
    )
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def _open_predictor(device: Device, profile: DeviceProfile) -> Predictor:
    return Predictor(profile, device.info, database=load_database(device.info))


def _borrow(device: Device, folders: Sequence[Path]) -> Predictor | None:
    """Return what a relative's profile predicts, once scaled, where one of the folders holds a relative."""
    for folder in folders:
        profile = load_profile(folder)
        if profile.key.driver == device.info.driver:
            return _open_predictor(device, borrow_here(profile, device))
    return None


def _iterate_graphs(names: Sequence[str], folder: Path | None) -> Iterator[tuple[str, Graph]]:
    for name in names:
        if folder is not None:
            yield name, load_model(folder / f"{name}.onnx").graph
            continue
        with tempfile.TemporaryDirectory() as built:
            path = Path(built) / "model.onnx"
            onnx.save(build(name), str(path))
            yield name, load_model(path).graph


def _measure_network(
    graph: Graph, plan: Plan, survey: Survey, predictor: Predictor, patience_seconds: float
) -> float:
    """Return what a network takes on one device, in us of the moment that its profile speaks of."""
    executable = _compile(graph, plan, [survey])
    taken = measure_launches(executable, survey, _draw_feeds(graph), patience_seconds=patience_seconds)
    return taken * predictor.profile.reference_us[COMPUTE]


@dataclass(frozen=True, kw_only=True)
class _Measured:
    """What a chain takes, in us of the moments that the profiles speak of."""

    total_us: float
    busy_us: tuple[float, ...]
    """By device, its kernels alone."""


def _measure_chain(
    graph: Graph,
    plan: Plan,
    nodes: Sequence[str],
    surveys: Sequence[Survey],
    predictors: Sequence[Predictor],
    *,
    patience_seconds: float,
) -> _Measured:
    executable = _compile(graph, plan, surveys)
    taken = measure_nodes(
        executable, surveys, _draw_feeds(graph), nodes=nodes, patience_seconds=patience_seconds
    )
    units = [predictor.profile.reference_us[COMPUTE] for predictor in predictors]
    return _Measured(
        total_us=taken.total * units[0],
        busy_us=tuple(busy * unit for busy, unit in zip(taken.busy, units, strict=True)),
    )


def _compare_parts(predicted: Step, measured: _Measured, devices: Sequence[Device]) -> str:
    """Return what a chain's parts take, each with how much of it was predicted."""
    rows = list(
        zip((device.info.name for device in devices), predicted.device_us, measured.busy_us, strict=True)
    )
    rest = (predicted.total_us or 0.0) - max(predicted.device_us), measured.total_us - max(measured.busy_us)
    return ", ".join(
        f"{name} {us:.0f} us predicted {told:.0f}" for name, told, us in [*rows, ("rest", *rest)]
    )


def _compile(graph: Graph, plan: Plan, surveys: Sequence[Survey]) -> Executable:
    devices = [survey.stopwatch.device for survey in surveys]
    return compile_plan(graph, plan, devices, databases=load_databases(device.info for device in devices))


def _draw_feeds(graph: Graph) -> Mapping[str, FloatArray]:
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(graph.shape(name), np.float32) for name in graph.inputs}


def _price(graph: Graph, plan: Plan, predictors: Sequence[Predictor]) -> Plan:
    return price_plan(plan, graph, predictors, arrange([predictor.info for predictor in predictors]))


def _predict(graph: Graph, plan: Plan, predictors: Sequence[Predictor]) -> float:
    priced = _price(graph, plan, predictors)
    if priced.predicted_us is None:
        sys.exit(f"{graph.name}: a part of it runs on the host, which nobody predicts")
    return priced.predicted_us


def _predict_chain(graph: Graph, plan: Plan, place: int, predictors: Sequence[Predictor]) -> Chain:
    """Return the chain at a place of a plan with what it takes by itself."""
    by_name = {predictor.info.name: predictor for predictor in predictors}
    arrangement = arrange([predictor.info for predictor in predictors])
    chain = Pricer(graph=graph, predictors=by_name).price_step(plan, arrangement, place)
    assert isinstance(chain, Chain)
    return chain


def _time_predictions(predictor: Predictor, *, count: int = 10_000) -> float:
    """Return what predicting many slices of a convolution takes, in ms; the best of a few times."""
    layer = next(
        layer
        for layer in load_workload()
        if isinstance(layer.op, Conv2d) and layer.op.kernel == (3, 3) and layer.op.groups == 1
    )
    graph = layer.make_graph()
    ends = np.arange(count) % layer.output[2] + 1
    boxes = Boxes.whole(layer.output, count).with_axis(2, 0, ends)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        predictor.predict(graph.nodes[0], graph, boxes)
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def _draw_chain_plan(graph: Graph, names: Sequence[str], rng: np.random.Generator) -> tuple[Plan, int]:
    """Return a plan with a random chain cut between two devices, and its place; the rest is cut in halves."""
    base = plan_even(graph, devices=tuple(names), max_chain_length=1)
    assert len(base.steps) == len(graph.nodes)
    while True:
        begin = int(rng.integers(len(graph.nodes)))
        length = int(rng.integers(1, 9))
        nodes = graph.nodes[begin : begin + length]
        axis = int(rng.choice([2, 1], p=[0.8, 0.2]))
        if not all(axis in find_splittable_axes(node, graph) for node in nodes):
            continue
        members = tuple(node.name for node in nodes)
        share = rng.uniform(0.25, 0.75)
        cuts = tuple(
            Cut(tensor=tensor, axis=axis, bounds=(0, round(share * size), size))
            for tensor in find_published(members, graph)
            for size in [graph.shape(tensor)[axis]]
        )
        steps = (
            *base.steps[:begin],
            Chain(nodes=members, axis=axis, cuts=cuts),
            *base.steps[begin + len(nodes) :],
        )
        plan = Plan(devices=tuple(names), steps=steps, planner="random", fingerprint=graph.fingerprint)
        if not list(find_problems(plan, graph)):
            return plan, begin


def _summarise(errors: Sequence[float]) -> Mapping[str, float]:
    values = np.abs(errors)
    return {
        "count": len(values),
        "within_10": float(np.mean(values <= 0.10)),
        "within_15": float(np.mean(values <= 0.15)),
        "worst": float(values.max()),
    }


if __name__ == "__main__":
    sys.exit(main())

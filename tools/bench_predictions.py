"""Predicted against measured: whole networks on each device, and random chains that two devices share.

Times are measured beside the reference kernels, as the profiler does it.

Example:
    python tools/bench_predictions.py --emulate-pair --networks resnet50,mobilenet_v2 --chains 20
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import onnx

from codl.catalog.rows.copy import COPY_ROW, concat_batches
from codl.catalog.spec import Selection
from codl.catalog.stored import load_database, load_databases
from codl.devices.drivers import emulate_pair, select_devices
from codl.devices.memory import arrange
from codl.devices.opencl import Device, open_device
from codl.devices.reference import COMPUTE, MEMORY
from codl.executor.compile import compile_plan
from codl.frontend import load_model
from codl.ir.boxes import Boxes
from codl.ir.graph import Graph
from codl.ir.ops import Concat
from codl.ir.regions import find_splittable_axes
from codl.latency.predictor import Prediction, Predictor
from codl.latency.store import find_profile
from codl.partitioner.even import plan_single
from codl.plan.check import find_problems
from codl.plan.memory import plan_memory
from codl.plan.places import find_owner
from codl.plan.residency import find_published
from codl.plan.schedule import Copy, Launch, Meet, Publish, make_schedule
from codl.plan.steps import Chain, Cut, Plan
from codl.profiler.survey import Survey
from tools.networks import NAMES, build


@dataclass(slots=True)
class Pending:
    """What a device has been told to do since it was last waited for."""

    us: float = 0.0
    memory_us: float = 0.0


def main() -> int:
    """Print one row for each network and device, and one for each chain."""
    args = _parse()
    if args.emulate_pair:
        emulate_pair()
    devices = [open_device(opened.info.name) for opened in select_devices(args.devices)]
    predictors = [_open_predictor(device) for device in devices]
    errors: dict[str, list[float]] = {}
    rng = np.random.default_rng(args.seed)
    for name, graph in _iterate_graphs(args.networks.split(",")):
        for device, predictor in zip(devices, predictors, strict=True):
            plan = plan_single(graph, device=device.info.name)
            ratio = _compare(graph, plan, [device], [predictor])
            errors.setdefault(device.info.name, []).append(ratio - 1)
            print(f"{name:20} {device.info.name:12} predicted / measured {ratio:.3f}", flush=True)
        for _ in range(args.chains if len(devices) == 2 else 0):
            plan = _draw_chain_plan(graph, [device.info.name for device in devices], rng)
            ratio = _compare(graph, plan, devices, predictors)
            errors.setdefault("chains", []).append(ratio - 1)
            print(f"{name:20} {_describe(plan):40} predicted / measured {ratio:.3f}", flush=True)
    print(json.dumps({name: _summarise(values) for name, values in errors.items()}))
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--networks", default=",".join(NAMES), metavar="A,B", help="default: all")
    parser.add_argument("--devices", type=lambda text: text.split(","), metavar="A,B")
    parser.add_argument("--emulate-pair", action="store_true")
    parser.add_argument("--chains", type=int, default=0, metavar="N", help="random chains of each network")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def _open_predictor(device: Device) -> Predictor:
    profile = find_profile(device.info)
    if profile is None:
        sys.exit(f"{device.info.name}: no profile; run `codl profile`")
    return Predictor(profile, device.info, database=load_database(device.info))


def _iterate_graphs(names: Sequence[str]) -> Iterator[tuple[str, Graph]]:
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            onnx.save(build(name), str(path))
            yield name, load_model(path).graph


def _compare(graph: Graph, plan: Plan, devices: Sequence[Device], predictors: Sequence[Predictor]) -> float:
    """Return the predicted time of a plan over the measured one."""
    predicted, memory_share = predict_plan(graph, plan, predictors)
    executable = compile_plan(
        graph, plan, devices, databases=load_databases(device.info for device in devices)
    )
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal(graph.shape(name), np.float32) for name in graph.inputs}
    executable.run(feeds)
    taken = Survey(devices[0]).measure_run(partial(executable.run, feeds))
    known = predictors[0].profile.reference_us
    logs = {name: np.log(taken.ratios[name] * known[name]) for name in (COMPUTE, MEMORY)}
    return float(predicted / np.exp((1 - memory_share) * logs[COMPUTE] + memory_share * logs[MEMORY]))


def predict_plan(graph: Graph, plan: Plan, predictors: Sequence[Predictor]) -> tuple[float, float]:
    """Return the predicted time of a run in us, and how much of it memory limits.

    It walks the schedule that the executor binds: what lies between two meetings runs side by side.
    """
    arrangement = arrange([predictor.info for predictor in predictors])
    schedule = make_schedule(graph, plan, arrangement)
    blocks = plan_memory(graph, schedule, arrangement).blocks
    pending = [Pending() for _ in predictors]
    total = memory = 0.0

    def meet() -> None:
        nonlocal total, memory
        busy = [index for index, one in enumerate(pending) if one.us]
        if not busy:
            return
        total += _join(pending, predictors, busy)
        memory += max(pending[index].memory_us for index in busy)
        for index in busy:
            pending[index] = Pending()

    for action in schedule.actions:
        match action:
            case Launch(node=name, device=index, region=region, step=step):
                node = graph.nodes_by_name[name]
                predictor, boxes = predictors[index], Boxes.of([region])
                if isinstance(node.op, Concat):
                    inside = {
                        tensor
                        for tensor in node.inputs
                        for owner in [
                            find_owner(
                                tensor,
                                index,
                                blocks,
                                arrangement,
                                is_outside=tensor in schedule.shares[step][index].reads,
                            )
                        ]
                        if (tensor, owner) in blocks
                        and blocks[tensor, owner].frame != blocks[tensor, owner].region
                    }
                    if inside:
                        batches = [
                            batch
                            for batch in concat_batches(node, graph, boxes, predictor.info)
                            if batch.tensors[1].name not in inside
                        ]
                        if batches:
                            copy = Selection(implementation=COPY_ROW, parameters={})
                            _add(pending[index], predictor.predict_launches(copy, batches))
                        continue
                _add(pending[index], predictor.predict(node, graph, boxes))
            case Publish(tensor=tensor, device=index, region=region):
                us = predictors[index].predict_publish(tensor, graph.shape(tensor), Boxes.of([region]))
                pending[index].us += float(us[0])
                pending[index].memory_us += float(us[0])
            case Copy():
                sys.exit("devices that copy are not predicted here")
            case Meet():
                meet()
    meet()
    return total, min(1.0, memory / max(total, 1e-9))


def _add(pending: Pending, prediction: Prediction) -> None:
    us = float(prediction.us[0])
    pending.us += us
    pending.memory_us += us * float(prediction.memory_share[0])


def _join(pending: Sequence[Pending], predictors: Sequence[Predictor], busy: Sequence[int]) -> float:
    """Return how long busy devices take until all are done, the wait included."""
    if len(busy) == 1:
        return pending[busy[0]].us + predictors[busy[0]].profile.wait_us
    names = [predictors[index].profile.name for index in busy]
    shares = [pending[index].memory_us / pending[index].us for index in busy]
    slowed = []
    for own, other in ((0, 1), (1, 0)):
        table = np.asarray(predictors[busy[own]].profile.neighbours[names[other]].slowdown)
        mixes = [np.array([1 - shares[one], shares[one]]) for one in (own, other)]
        slowed.append(pending[busy[own]].us * float(mixes[0] @ table @ mixes[1]))
    sooner, later = (0, 1) if slowed[0] <= slowed[1] else (1, 0)
    rest = (1 - slowed[sooner] / slowed[later]) * pending[busy[later]].us
    return slowed[sooner] + rest + predictors[busy[0]].find_meeting(names[1]).median_us


def _draw_chain_plan(graph: Graph, names: Sequence[str], rng: np.random.Generator) -> Plan:
    """Return a plan with one random chain cut between two devices, the rest on the first."""
    base = plan_single(graph, device=names[0], devices=tuple(names))
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
            return plan


def _describe(plan: Plan) -> str:
    (chain,) = (step for step in plan.steps if isinstance(step, Chain))
    return f"{len(chain.nodes)} nodes from {chain.nodes[0]}, axis {chain.axis}"


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

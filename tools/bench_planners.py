"""What planners predict for two devices: gains, chains and axes, and what each idea brings.

By default for the simulated Snapdragon 855, beside what CoDL measured on the real one.

Example:
    python tools/bench_planners.py --networks vgg16,yolov2 --models /tmp/nets
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import onnx

from codl.assets import profiles_dir
from codl.catalog.candidates import describe_whole
from codl.devices.memory import arrange
from codl.frontend import load_model
from codl.ir.boxes import Boxes
from codl.ir.graph import Graph
from codl.ir.ops import HostCall
from codl.latency.features import FLOPS
from codl.latency.files import load_profile
from codl.latency.linear import LinearModel
from codl.latency.predictor import Predictor
from codl.latency.profile import Origin
from codl.latency.store import SIMULATED
from codl.partitioner.planner import Planner
from codl.partitioner.search import Method
from codl.plan.check import check_plan
from codl.plan.sharing import Arrangement
from codl.plan.steps import Chain, Plan, Run
from codl.simulator.simulate import price_plan
from tools.networks import build

PUBLISHED: Mapping[str, float] = {
    "retinaface": 993 / 680,
    "yolov2": 209 / 140,
    "vgg16": 216 / 137,
    "posenet": 341 / 244,
    "fast_style_transfer": 413 / 267,
}
"""Time of the faster processor over CoDL's on a Snapdragon 855.

Source: CoDL (MobiSys 2022), latencies read off its figure, +-15 ms.
"""
_ABLATIONS: Mapping[str, Mapping[str, Any]] = {
    "H only": {"axes": (2,)},
    "OC only": {"axes": (1,)},
    "hybrid": {},
    "no chains": {"max_chain_length": 1},
    "greedy": {"method": Method.GREEDY},
    "dynamic": {},
    "FLOPs only": {"is_flops_only": True},
}


def main() -> int:
    """Print one row for each network, then what each idea brings."""
    args = _parse()
    paths = args.profiles or [
        str(profiles_dir() / SIMULATED / f"snapdragon-855-{kind}.json") for kind in ("cpu", "gpu")
    ]
    profiles = [load_profile(Path(path)) for path in paths]
    predictors = [Predictor(profile, profile.info) for profile in profiles]
    arrangement = arrange([profile.info for profile in profiles])
    report: dict[str, Any] = {}
    for name, graph in _iterate_graphs(args.networks.split(","), args.models):
        report[name] = _study(graph, predictors, arrangement, with_ablations=args.ablations)
        print(_format_network(name, report[name]), flush=True)
    if args.ablations:
        print()
        print(_format_ablations(report))
    if args.json:
        Path(args.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--networks", default=",".join(PUBLISHED), metavar="A,B", help="default: those of CoDL"
    )
    parser.add_argument("--models", metavar="DIR", help="folder of NAME.onnx; built where there is none")
    parser.add_argument(
        "--profiles", type=lambda text: text.split(","), metavar="A,B", help="files of profiles"
    )
    parser.add_argument("--no-ablations", dest="ablations", action="store_false", help="print gains only")
    parser.add_argument("--json", metavar="FILE", help="write all of it as JSON too")
    return parser.parse_args()


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


def _study(
    graph: Graph, predictors: Sequence[Predictor], arrangement: Arrangement, *, with_ablations: bool
) -> dict[str, Any]:
    plans = {
        method: Planner(graph=graph, predictors=predictors, arrangement=arrangement).plan(method)
        for method in Method
    }
    dynamic = plans[Method.DYNAMIC]
    found: dict[str, Any] = {
        "gain": _find_gain(dynamic),
        "greedy_gain": _find_gain(plans[Method.GREEDY]),
        "planning_ms": dynamic.planning_ms,
        "ideal_gain": _find_ideal_gain(graph, predictors),
        "chain_lengths": [len(step.nodes) for step in dynamic.steps if isinstance(step, Chain)],
        "axes": _share_axes(dynamic, graph),
    }
    if with_ablations:
        found["ablations"] = {
            name: _find_gain(_ablate(graph, predictors, arrangement, **options))
            for name, options in _ABLATIONS.items()
        }
    return found


def _find_gain(plan: Plan) -> float:
    assert plan.predicted_us is not None
    assert plan.best_single_us is not None
    return plan.best_single_us / plan.predicted_us


def _find_ideal_gain(graph: Graph, predictors: Sequence[Predictor]) -> float:
    """Return the gain if sharing cost nothing: each operator at the sum of the devices' speeds."""
    times = _list_times(graph, predictors)
    return float(times.sum(axis=1).min() / (1 / (1 / np.maximum(times, 1e-9)).sum(axis=0)).sum())


def _list_times(graph: Graph, predictors: Sequence[Predictor]) -> Any:
    """Return [device, node] what whole operators take."""
    nodes = [node for node in graph.nodes if not isinstance(node.op, HostCall)]
    return np.array(
        [
            [one.predict(node, graph, Boxes.whole(graph.shape(node.output), 1)).us[0] for node in nodes]
            for one in predictors
        ]
    )


def _share_axes(plan: Plan, graph: Graph) -> dict[str, int]:
    """Return how many operators are cut along each axis, or not at all."""
    counts: dict[str, int] = {}
    for step in plan.steps:
        if isinstance(step, Chain):
            name = {2: "H", 1: "OC", 0: "N"}.get(step.axis, str(step.axis))
            counts[name] = counts.get(name, 0) + len(step.nodes)
        elif isinstance(step, Run):
            counts["whole"] = counts.get("whole", 0) + 1
    del graph
    return counts


def _ablate(
    graph: Graph,
    predictors: Sequence[Predictor],
    arrangement: Arrangement,
    *,
    method: Method = Method.DYNAMIC,
    is_flops_only: bool = False,
    **options: Any,
) -> Plan:
    """Return the plan of a lesser planner, with the prices of the full predictors."""
    believed = [_make_flops_only(one, graph) for one in predictors] if is_flops_only else predictors
    plan = Planner(graph=graph, predictors=believed, arrangement=arrangement, **options).plan(method)
    check_plan(plan, graph)
    return price_plan(plan, graph, predictors, arrangement)


def _make_flops_only(predictor: Predictor, graph: Graph) -> Predictor:
    """Return a predictor that knows one speed: that at which the whole network's arithmetic is done."""
    flops, times = 0.0, 0.0
    for node in graph.nodes:
        if isinstance(node.op, HostCall):
            continue
        whole = Boxes.whole(graph.shape(node.output), 1)
        batches = describe_whole(predictor.choose(node, graph), node, graph, predictor.info)
        flops += sum(float(batch.flops[0]) for batch in batches)
        times += float(predictor.predict(node, graph, whole).us[0])
    model = LinearModel({FLOPS: times * predictor.info.units / flops})
    rows = {name: replace(row, model=model) for name, row in predictor.profile.rows.items()}
    profile = replace(predictor.profile, rows=rows, origin=Origin.SIMULATED)
    return Predictor(profile, predictor.info)


def _format_network(name: str, found: Mapping[str, Any]) -> str:
    lengths = found["chain_lengths"] or [0]
    published = f", published {PUBLISHED[name]:.2f}" if name in PUBLISHED else ""
    axes = ", ".join(f"{count} {axis}" for axis, count in found["axes"].items())
    return (
        f"{name:20} gain {found['gain']:.2f}{published}, without sharing costs {found['ideal_gain']:.2f}; "
        f"greedy {found['greedy_gain']:.2f}, dynamic/greedy {found['gain'] / found['greedy_gain']:.3f}; "
        f"{len(found['chain_lengths'])} chains of {min(lengths)}-{max(lengths)} "
        f"(mean {np.mean(lengths):.1f}); operators: {axes}"
    )


def _format_ablations(report: Mapping[str, Any]) -> str:
    lines = [" " * 20 + "".join(f"{name:>12}" for name in _ABLATIONS)]
    for network, found in report.items():
        lines.append(f"{network:20}" + "".join(f"{found['ablations'][name]:12.2f}" for name in _ABLATIONS))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

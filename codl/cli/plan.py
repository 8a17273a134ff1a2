"""`codl plan`: which device would compute what, without running it."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from codl.analysis.slices import list_estimated, list_whole
from codl.cli.flags import add_json_flag, parse_names, parse_output
from codl.cli.output import format_bytes, print_json, print_line
from codl.cli.planning import add_plan_flags
from codl.devices.drivers import select_devices
from codl.frontend import load_model
from codl.ir.graph import Graph
from codl.latency.predictor import Predictor
from codl.machine import DeviceInfo, Precision
from codl.plan.steps import DeviceMemory, Plan
from codl.plan.text import list_plan
from codl.session import (
    DEFAULT_PLANNER,
    PROFILED,
    check_planner,
    count_memory,
    load_predictors,
    make_plan,
    resolve_planner,
    select_default_devices,
)

_MOST_NAMES = 4
"""Of operators in a line."""


def add_parser(subparsers: Any) -> None:
    """Add the verb with its flags."""
    parser = subparsers.add_parser(
        "plan",
        help="plan a model and print the plan",
        description="Plans a model and prints the plan. With --profiles no device is touched. Planning time "
        "counts all from graph and profiles in memory to the priced plan, not reading the files.",
        epilog="example: codl plan vgg16.onnx --devices intel-cpu,pocl-cpu --planner even -o plan.json",
    )
    parser.add_argument("model", help="ONNX file")
    add_plan_flags(parser)
    parser.add_argument(
        "--profiles",
        type=parse_names,
        metavar="FILE,FILE",
        help="profiles of the devices to plan for, which need not be here (default: those of --devices)",
    )
    parser.add_argument("-o", "--output", type=parse_output, metavar="FILE", help="write the plan as JSON")
    add_json_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Plan the model."""
    graph = load_model(args.model).graph  # first: opening devices may take a minute
    plan, infos, predictors = plan_model(args, graph, args.model)
    plan = count_memory(plan, graph, infos)
    if args.output:
        plan.save(args.output)
    if args.json:
        print_json(plan.to_json())
    else:
        for line in list_plan(plan, graph):
            print_line(line)
        print_line(f"memory: {'; '.join(_format_memory(memory) for memory in plan.memory)}")
        if plan.predicted_us is not None and plan.best_single_us is not None:
            print_line(_format_prediction(plan.predicted_us, plan.best_single_us, plan.planning_ms or 0.0))
        if estimated := list_estimated(plan, graph, predictors):
            print_line(_format_estimates(estimated, len(graph.nodes)))
        if whole := list_whole(plan, graph, predictors):
            print_line(f"not limited: {_list_names(whole)}, whose kernels use all compute units of a device")
    return 0


def plan_model(
    args: argparse.Namespace, graph: Graph, model: str
) -> tuple[Plan, Sequence[DeviceInfo] | None, Sequence[Predictor]]:
    """Return the plan of a model by the flags, facts of its devices and their predictors.

    Raises:
        PlanError: No such planner, or arguments it cannot work with.
        ProfileError: A profile cannot be read, or the planner needs one that is not there.
    """
    names, planner, infos, predictors = _find_devices(args)
    plan = make_plan(
        graph,
        planner=planner,
        devices=names,
        ratios=args.ratio,
        max_chain_length=args.max_chain,
        axes=args.axis,
        precision=Precision(args.precision),
        predictors=predictors,
    )
    return replace(plan, model=model), infos, predictors


def _find_devices(
    args: argparse.Namespace,
) -> tuple[Sequence[str], str, Sequence[DeviceInfo] | None, Sequence[Predictor]]:
    """Return the names of the devices, the planner, facts of the devices and their predictors.

    Devices are not opened where profiles are named, or devices and a planner that needs no profile.
    """
    if args.profiles:
        predictors = load_predictors(args.profiles)
        names = args.devices or [predictor.info.name for predictor in predictors]
        known = {predictor.info.name: predictor for predictor in predictors}
        check_planner(DEFAULT_PLANNER, names, known)
        chosen = [known[name] for name in names]
        return names, args.planner or DEFAULT_PLANNER, [one.info for one in chosen], chosen
    kind, _, single = (args.planner or "").partition(":")
    if args.devices and args.planner and args.planner not in PROFILED:
        return args.devices, args.planner, None, ()
    if kind == "single" and single and not args.devices:
        info = select_devices([single])[0].info
        return [info.name], f"single:{info.name}", [info], ()
    opened = select_default_devices() if args.devices is None else select_devices(args.devices)
    infos = [one.info.in_precision(Precision(args.precision)) for one in opened]
    planner, predictors = resolve_planner(args.planner, infos)
    return [info.name for info in infos], planner, infos, predictors


def _format_prediction(predicted_us: float, best_single_us: float, planning_ms: float) -> str:
    return (
        f"predicted: {predicted_us / 1e3:.3f} ms, {best_single_us / predicted_us:.2f} times as fast as the "
        f"best device alone ({best_single_us / 1e3:.3f} ms); planned in {planning_ms:.0f} ms"
    )


def _format_estimates(names: Sequence[str], operators: int) -> str:
    return (
        f"estimated: {len(names)} of {operators} operators ({_list_names(names)}), whose kernels have no "
        "latency model; `codl profile` measures them"
    )


def _list_names(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")


def _format_memory(memory: DeviceMemory) -> str:
    text = f"{memory.device} {format_bytes(memory.activation_bytes)} activations"
    return f"{text}, {format_bytes(memory.weight_bytes)} weights" if memory.weight_bytes else text

"""`codl inspect`: what a plan does, what each choice costs, and what the alternatives are."""

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from codl import __version__
from codl.cli.flags import add_json_flag, parse_names, parse_output
from codl.cli.output import escape, print_json, print_line, print_message, print_table, write_file
from codl.cli.plan import plan_model
from codl.cli.planning import add_plan_flags
from codl.devices.limits import count_cores
from codl.devices.processor import read_cpu_model
from codl.errors import PlanError
from codl.files import open_regular
from codl.frontend import load_model
from codl.ir.graph import Graph
from codl.latency.predictor import Predictor
from codl.plan.edit import change_plan, check_node, parse_change, read_change
from codl.plan.steps import Plan
from codl.report.annotate import annotate_model
from codl.report.difference import PlanDifference, compare, list_difference
from codl.report.folding import fold_parts
from codl.report.html import render_html
from codl.report.inspection import Inspection
from codl.report.perfetto import list_trace_events
from codl.report.picture import draw_timeline
from codl.report.table import list_columns, list_rows, list_totals, list_why
from codl.session import load_predictors
from codl.session.inspection import find_plan_predictors, inspect_plan, measure_plan


def add_parser(subparsers: Any) -> None:
    """Add the verb with its flags."""
    parser = subparsers.add_parser(
        "inspect",
        help="explain a plan: what runs where, what it costs, what it lost to",
        description="Explains the plan of a model, or a plan file. With --profiles no device is touched.",
        epilog="example: codl inspect vgg16.onnx --devices intel-cpu,nvidia-gpu --html plan.html",
    )
    parser.add_argument("target", metavar="MODEL|PLAN", help="ONNX file, or a plan as JSON")
    add_plan_flags(parser)
    add_explain_flags(parser)
    parser.add_argument("--model", metavar="FILE", help="the model of a plan (default: the one it names)")
    parser.add_argument("--measure", action="store_true", help="run the plan; show measured times too")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NODE=WHAT",
        help="what if: NODE=DEVICE, or NODE=AXIS:CUT such as conv1=H:28 or conv1=OC:0.4; may be repeated",
    )
    parser.add_argument(
        "--why", metavar="NODE", help="show what this operator could be instead, and what that would cost"
    )
    parser.add_argument("--diff", metavar="PLAN", help="show what this other plan does differently")
    parser.add_argument(
        "--perfetto",
        type=parse_output,
        metavar="FILE",
        help="write the timeline as a trace, for ui.perfetto.dev",
    )
    parser.add_argument(
        "--onnx", type=parse_output, metavar="FILE", help="write the model with all decisions in its metadata"
    )
    parser.add_argument("--png", type=parse_output, metavar="FILE", help="write the timeline as a picture")
    parser.add_argument(
        "-o",
        "--output",
        type=parse_output,
        metavar="FILE",
        help="write the plan, with its changes, as JSON",
    )
    parser.set_defaults(run=run)


def add_explain_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags about profiles and about output."""
    parser.add_argument(
        "--profiles",
        type=parse_names,
        metavar="A,B",
        help="predict with the profiles in these files or folders (default: those of the devices)",
    )
    parser.add_argument("--html", type=parse_output, metavar="FILE", help="write one self-contained page")
    add_json_flag(parser)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The model and the plan that a command line names."""

    graph: Graph
    model: str
    plan: Plan
    predictors: Sequence[Predictor]


def run(args: argparse.Namespace) -> int:
    """Explain the plan."""
    other = Plan.load(args.diff) if args.diff else None
    target = open_target(args)
    is_whole = bool(args.json or args.html) or args.why is not None
    plan, inspection = inspect_plan(target.plan, target.graph, target.predictors, with_alternatives=is_whole)
    difference = None
    if args.set:
        changes = [parse_change(text, plan, target.graph) for text in args.set]
        before = inspection
        plan, inspection = inspect_plan(
            change_plan(plan, target.graph, changes),
            target.graph,
            target.predictors,
            with_alternatives=is_whole,
        )
        difference = compare(before, inspection)
    if other is not None:
        difference = compare(inspection, _inspect_other(other, target))
    if args.measure:
        inspection = measure_plan(inspection, plan, target.graph)
    _write_files(args, target, plan, inspection)
    _print(args, inspection, difference)
    return 0


def open_target(args: argparse.Namespace) -> Target:
    """Return the model, its plan and the predictors of its devices.

    Raises:
        PlanError: The file is no plan, or none of this model.
        ModelError: The model cannot be read.
        ProfileError: A profile cannot be read, or the planner needs one that is not there.
    """
    given = Plan.load(args.target) if is_plan(args.target) else None
    model = args.target if given is None else args.model or _find_model(given, Path(args.target))
    graph = load_model(model).graph
    _check_names(args, graph)
    predictors: Sequence[Predictor] = ()
    if given is None:
        plan, _, predictors = plan_model(args, graph, model)
    else:
        plan = replace(given, model=model)
        if args.profiles is not None:
            predictors = load_predictors(args.profiles)
    return Target(
        graph=graph,
        model=model,
        plan=plan,
        predictors=predictors or find_plan_predictors(plan.devices, precision=plan.precision),
    )


def _check_names(args: argparse.Namespace, graph: Graph) -> None:
    """Raise `PlanError` where a flag names no operator or axis, before anything is measured or planned."""
    for text in getattr(args, "set", ()):
        read_change(text, graph)
    if getattr(args, "why", None) is not None:
        check_node(args.why, graph, flag="--why")


def is_plan(path: str) -> bool:
    """Return whether a file is meant as a plan: JSON, which no ONNX file begins like."""
    if Path(path).suffix.lower() == ".json":
        return True
    try:
        with open_regular(path) as (descriptor, _):
            return os.read(descriptor, 64).lstrip().startswith(b"{")
    except OSError:
        return False


def _find_model(plan: Plan, path: Path) -> str:
    """Return the model that a plan names, from here or from where the plan lies."""
    if plan.model is None:
        raise PlanError(f"{path}: got a plan that names no model, expected one that does; add --model FILE")
    beside = path.parent / plan.model
    return str(beside) if not Path(plan.model).exists() and beside.exists() else plan.model


def _inspect_other(other: Plan, target: Target) -> Inspection:
    known = {predictor.info.name for predictor in target.predictors}
    more = find_plan_predictors(
        [name for name in other.devices if name not in known], precision=other.precision
    )
    return inspect_plan(other, target.graph, (*target.predictors, *more), with_alternatives=False)[1]


def _write_files(args: argparse.Namespace, target: Target, plan: Plan, inspection: Inspection) -> None:
    if args.html:
        write_file(args.html, render_html(inspection, made=_describe_making(args.command)))
    if args.perfetto:
        write_file(args.perfetto, json.dumps(list_trace_events(inspection)))
    if args.png:
        write_file(args.png, draw_timeline(inspection))
    if args.onnx:
        names = target.graph.original_names
        outputs = {names.get(node.output, node.output): node.name for node in target.graph.nodes}
        count = annotate_model(target.model, args.onnx, inspection, outputs)
        print_message(f"{args.onnx}: decisions in {count} nodes")
    if args.output:
        plan.save(args.output)


def _describe_making(command: str) -> str:
    """Return when, where and by which command a page is made."""
    now = datetime.now().astimezone()
    machine = f"{read_cpu_model()}, {count_cores()} cores"
    return f"{now:%Y-%m-%d %H:%M %Z} on {machine}, codl {__version__}: {escape(command)}"


def _print(args: argparse.Namespace, inspection: Inspection, difference: PlanDifference | None) -> None:
    if args.json:
        values = inspection.to_json()
        if difference is not None:
            values["difference"] = difference.to_json()
        print_json(values)
        return
    if difference is not None:
        for line in list_difference(difference):
            print_line(line)
        return
    if args.why is not None:
        for line in list_why(inspection, args.why):
            print_line(line)
        return
    shown = fold_parts(inspection)
    print_table(list_columns(shown), list_rows(shown), title=_summarise(inspection))
    for line in list_totals(inspection):
        print_line(line)


def _summarise(inspection: Inspection) -> str:
    chains = sum(step.kind == "chain" for step in inspection.steps)
    where = f"{len(inspection.steps)} steps, {chains} chains, over {', '.join(inspection.devices)}"
    name, planner = Path(inspection.model).name, inspection.planner or "none"
    return f"{name}: {len(inspection.operators)} operators in {where}; planner {planner}"

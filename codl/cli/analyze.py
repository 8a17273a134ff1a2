"""`codl analyze`: the lower bound of a model on its devices, what a plan loses, and what to do about it."""

import argparse
from typing import Any

from codl.analysis.bound import assess
from codl.cli.inspect import add_explain_flags, open_target
from codl.cli.output import print_json, print_line, write_file
from codl.cli.planning import add_plan_flags
from codl.errors import ProfileError
from codl.report.assessment import list_lines
from codl.report.assessment_page import render_assessment
from codl.session.inspection import inspect_plan, measure_plan


def add_parser(subparsers: Any) -> None:
    """Add the verb with its flags."""
    parser = subparsers.add_parser(
        "analyze",
        help="compare a plan with the lower bound of its devices; say where time is lost",
        description="Finds the lower bound of a model on its devices: every layer by its best kernel, on all "
        "devices at once. With --profiles no device is touched, and nothing measured.",
        epilog="example: codl analyze resnet50.onnx --devices intel-cpu,nvidia-gpu --measure",
    )
    parser.add_argument("target", metavar="MODEL|PLAN", help="ONNX file, or a plan as JSON")
    add_plan_flags(parser)
    add_explain_flags(parser)
    parser.add_argument("--model", metavar="FILE", help="model of a plan (default: the one it names)")
    parser.add_argument("--measure", action="store_true", help="compare with the time that a run takes")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Assess the plan."""
    target = open_target(args)
    plan, inspection = inspect_plan(target.plan, target.graph, target.predictors, with_alternatives=False)
    if args.measure:
        inspection = measure_plan(inspection, plan, target.graph)
    known = {predictor.info.name: predictor for predictor in target.predictors}
    missing = [name for name in plan.devices if name not in known]
    if missing:
        raise ProfileError(
            f"analyze: got no profile of {', '.join(missing)}, expected one for each device; "
            "run `codl profile`"
        )
    found = assess(inspection, target.graph, [known[name] for name in plan.devices])
    if args.html:
        write_file(args.html, render_assessment(found))
    if args.json:
        print_json(found.to_json())
    else:
        for line in list_lines(found):
            print_line(line)
    return 0

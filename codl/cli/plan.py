"""`codl plan`: which device would compute what, without running it."""

import argparse
import time
from dataclasses import replace
from typing import Any

from codl.cli.flags import add_json_flag
from codl.cli.output import format_bytes, print_json
from codl.cli.planning import add_plan_flags
from codl.devices.drivers import select_devices
from codl.frontend import load_model
from codl.plan.steps import DeviceMemory
from codl.plan.text import format_plan
from codl.session import count_memory, make_plan


def add_parser(subparsers: Any) -> None:
    """Add the verb with its flags."""
    parser = subparsers.add_parser(
        "plan",
        help="plan a model and print the plan",
        description="Plans a model and prints the plan. With --devices no device is touched.",
        epilog="example: codl plan vgg16.onnx --devices intel-cpu,pocl-cpu --planner even -o plan.json",
    )
    parser.add_argument("model", help="ONNX file")
    add_plan_flags(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="write the plan as JSON")
    add_json_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Plan the model."""
    start = time.perf_counter()
    infos = None if args.devices else [opened.info for opened in select_devices(None)]
    names = args.devices or [info.name for info in infos or ()]
    graph = load_model(args.model).graph
    plan = make_plan(
        graph,
        planner=args.planner or f"single:{names[0]}",
        devices=names,
        ratios=args.ratio,
        max_chain_length=args.max_chain,
        axes=args.axis,
    )
    plan = replace(plan, model=args.model, planning_ms=(time.perf_counter() - start) * 1e3)
    plan = count_memory(plan, graph, infos)
    if args.output:
        plan.save(args.output)
    if args.json:
        print_json(plan.to_json())
    else:
        print(format_plan(plan, graph))
        print(f"memory: {'; '.join(_format_memory(memory) for memory in plan.memory)}")
    return 0


def _format_memory(memory: DeviceMemory) -> str:
    text = f"{memory.device} {format_bytes(memory.activation_bytes)} activations"
    return f"{text}, {format_bytes(memory.weight_bytes)} weights" if memory.weight_bytes else text

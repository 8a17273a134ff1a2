"""Flags about plans, and the options they stand for."""

import argparse
from collections.abc import Callable, Sequence
from typing import TypeVar

from codl.cli.flags import add_device_flags, parse_count
from codl.machine import Precision
from codl.options import SessionOptions

T = TypeVar("T")


def add_plan_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say which devices to use and how to plan."""
    add_device_flags(parser)
    parser.add_argument(
        "--planner",
        metavar="P",
        help="dynamic, greedy, even, or single:<device> (default: dynamic where devices have profiles, else "
        "all on the first device)",
    )
    parser.add_argument(
        "--ratio",
        type=_parse_list(float, "shares such as 0.5,0.5"),
        metavar="R,R",
        help="share of each device under --planner even (default: equal shares)",
    )
    parser.add_argument(
        "--max-chain",
        type=parse_count(1),
        default=8,
        metavar="N",
        help="most operators in a chain (default: 8)",
    )
    parser.add_argument(
        "--precision",
        choices=list(Precision),
        default=Precision.FLOAT32,
        help="what products of GPUs with matrix units may be rounded to (default: float32)",
    )
    parser.add_argument(
        "--axis",
        type=_parse_list(int, "axis numbers such as 2,1,0"),
        metavar="A,B",
        help="axes to cut along under --planner even, most wanted first (default: 2,1,0, that is H, OC, N)",
    )


def session_options(args: argparse.Namespace) -> SessionOptions:
    """Return the session options that the flags stand for."""
    options = SessionOptions(warm_up="block")
    options.devices = args.devices
    options.planner = args.planner
    options.ratios = args.ratio
    options.max_chain_length = args.max_chain
    options.axes = args.axis
    options.precision = args.precision
    return options


def _parse_list(kind: Callable[[str], T], expected: str) -> Callable[[str], Sequence[T]]:
    def parse(text: str) -> Sequence[T]:
        try:
            return [kind(part) for part in text.split(",")]
        except (ValueError, OverflowError) as error:
            raise argparse.ArgumentTypeError(f"got {text!r}, expected {expected}") from error

    return parse

"""The entry point: finds the verb, runs it, and turns what happened into an exit code.

0: done. 1: a check failed. 2: cannot, with one line on stderr that says why.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from codl import __version__
from codl.cli import analyze, bench, cache, devices, doctor, inspect, plan, profile, run, tune
from codl.cli.output import print_message
from codl.devices.drivers import emulate_pair
from codl.errors import CodlError

VERBS = (devices, doctor, profile, tune, plan, inspect, analyze, run, bench, cache)
"""Modules with `add_parser(subparsers)` and `run(args) -> int`, in the order that `--help` lists them."""
CANNOT = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    args = build_parser().parse_args(arguments)
    try:
        if getattr(args, "emulate_pair", False):
            emulate_pair()
        code: int = args.run(args)
        sys.stdout.flush()
    except CodlError as error:
        print_message(f"codl: {' '.join(str(error).split())}")
        return CANNOT
    except OSError as error:
        if isinstance(
            error, BrokenPipeError
        ):  # the reader of our output has left; Python's own flush must not fail
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        print_message(f"codl: {error}")
        return CANNOT
    except KeyboardInterrupt:
        print_message("codl: interrupted")
        return CANNOT
    return code


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of every verb."""
    parser = argparse.ArgumentParser(
        prog="codl",
        description="Run an ONNX model on all OpenCL processors of this machine at once.",
        epilog="example: codl doctor && codl devices",
    )
    parser.add_argument("--version", action="version", version=f"codl {__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="VERB")
    for verb in VERBS:
        verb.add_parser(subparsers)
    return parser

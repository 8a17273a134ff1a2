"""The entry point: runs a verb, and turns its errors into an exit code.

0: done. 1: a check failed. 2: cannot, with one line on stderr that says why. 130: interrupted.
"""

import argparse
import logging
import os
import re
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from codl import __version__
from codl._interrupts import INTERRUPTED, leave_at_once
from codl.cli import analyze, bench, cache, devices, doctor, inspect, plan, profile, run, tune
from codl.cli.flags import check_outputs
from codl.cli.hints import note_flags, noted_flags
from codl.cli.output import escape, prepare_streams, print_message
from codl.devices.drivers import emulate_pair
from codl.devices.opencl import drained_on_error
from codl.errors import CodlError, suggest

VERBS = (devices, doctor, profile, tune, plan, inspect, analyze, run, bench, cache)
"""Modules with `add_parser(subparsers)` and `run(args) -> int`, in the order that `--help` lists them."""
CANNOT = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code.

    Args:
        arguments: Without the program's name; those of the process by default.
    """
    prepare_streams()
    is_caught = signal.getsignal(signal.SIGINT) is leave_at_once
    if is_caught:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with _escaped_logs(), noted_flags():
            return _run(arguments)
    finally:
        if is_caught:  # only Python's own shutdown follows
            signal.signal(signal.SIGINT, leave_at_once)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        args = build_parser().parse_args(arguments)
        args.command = shlex.join(("codl", *(sys.argv[1:] if arguments is None else arguments)))
        note_flags(args)
        check_outputs(args)
        if getattr(args, "emulate_pair", False):
            emulate_pair()
        with drained_on_error():
            code: int = args.run(args)
        sys.stdout.flush()
    except CodlError as error:
        print_message(f"codl: {' '.join(str(error).split())}")
        return CANNOT
    except BrokenPipeError:  # the reader of our output has left
        _drop_output()
        return 0
    except OSError as error:
        _drop_output()
        print_message(f"codl: {error}")
        return CANNOT
    except MemoryError:
        print_message("codl: got no memory for this, expected enough; use a smaller model or free some")
        return CANNOT
    except RecursionError:
        print_message("codl: got an input nested too deeply, expected one of some hundred levels at most")
        return CANNOT
    except KeyboardInterrupt:
        print_message("codl: interrupted")
        return INTERRUPTED
    return code


def _drop_output() -> None:
    """Discard what stdout still holds: Python writes it again when it ends, which must not fail."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        return
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        sys.stdout.flush()


@contextmanager
def _escaped_logs() -> Iterator[None]:
    """Print codl's log messages, which may hold names from models, as other messages while the block runs."""
    handler = _MessageHandler(logging.WARNING)
    log = logging.getLogger("codl")
    if log.hasHandlers():  # the program that calls this prints them itself
        yield
        return
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


class _MessageHandler(logging.Handler):
    """Prints each record on one line of stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        print_message(record.getMessage())


class _Parser(argparse.ArgumentParser):
    """A parser whose messages show what they quote and do nothing else."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return what is parsed; an unknown flag is an error of its verb, with the flag that was meant."""
        found, extra = self.parse_known_args(args, namespace)
        if extra:
            flags = set(re.findall(r"--?[a-z][a-z-]*", found.parser.format_usage()))
            meant = suggest(extra[0].partition("=")[0], flags)
            found.parser.error(f"unrecognized arguments: {' '.join(extra)}{meant}")
        return found

    def error(self, message: str) -> NoReturn:
        """Print how to use a verb and what is wrong, and exit."""
        if wrong := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message):
            message += suggest(wrong[1], wrong[2].replace("'", "").split(", "))
        self.print_usage(sys.stderr)
        self.exit(CANNOT, f"{self.prog}: error: {escape(message)}\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help or usage: a closed stdout is no failure."""
        super()._print_message(message, file)
        with suppress(OSError, ValueError):
            (file or sys.stderr).flush()
            return
        if file is sys.stdout:
            _drop_output()


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of every verb."""
    parser = _Parser(
        prog="codl",
        description="Run an ONNX model on all OpenCL processors of this machine at once.",
        epilog="example: codl doctor && codl devices",
    )
    parser.add_argument("--version", action="version", version=f"codl {__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="VERB")
    for verb in VERBS:
        verb.add_parser(subparsers)
    for one in subparsers.choices.values():
        one.set_defaults(parser=one)
    return parser

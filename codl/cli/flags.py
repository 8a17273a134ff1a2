"""Flags that several verbs share."""

import argparse
import os
import re
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

from codl.cli.output import describe_unwritable
from codl.errors import InputError
from codl.outputs import check_output, check_output_folder

_MOST_DIGITS = 18
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST_SECONDS = 86400.0


def add_json_flag(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def add_pair_flag(parser: argparse.ArgumentParser) -> None:
    """Add `--emulate-pair`, which the entry point obeys before any driver loads."""
    parser.add_argument(
        "--emulate-pair",
        action="store_true",
        help="testbed without a GPU: two CPU drivers, each on half of the cores",
    )


def add_device_flags(parser: argparse.ArgumentParser) -> None:
    """Add `--devices` and `--emulate-pair`."""
    parser.add_argument(
        "--devices",
        type=parse_names,
        metavar="A,B",
        help="names or kinds of the devices to use, such as nvidia-gpu,pocl-cpu, or nvidia-gpu:8 for 8 of "
        "its compute units; see `codl devices`",
    )
    add_pair_flag(parser)


def parse_count(least: int) -> Callable[[str], int]:
    """Return what reads a whole number of at least ``least``."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS) or int(text) < least:
            raise argparse.ArgumentTypeError(f"got {text!r}, expected a whole number of at least {least}")
        return int(text)

    return parse


class OutputPath(str):
    """Path of a file that a command writes."""

    __slots__ = ()


def check_outputs(args: argparse.Namespace) -> None:
    """Raise `InputError` if a command would write over its model; a plan may be replaced by an edited one."""
    given = getattr(args, "model", None) or getattr(args, "target", None) or []
    models = [name for name in ([given] if isinstance(given, str) else given) if not name.endswith(".json")]
    outputs = [value for value in vars(args).values() if isinstance(value, OutputPath)]
    for model, output in product(filter(os.path.exists, models), filter(os.path.exists, outputs)):
        if os.path.samefile(model, output):
            raise InputError(f"{output}: got {model} to write over, which is read; expected another file")


def parse_output(text: str) -> OutputPath:
    """Return the path of a file that can be written, which is checked before the work begins."""
    try:
        check_output(text)
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(_explain(text, error)) from error
    return OutputPath(text)


def parse_output_folder(text: str) -> Path:
    """Return the path of a folder in which files can be written, or that can be made."""
    try:
        check_output_folder(text)
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(_explain(text, error)) from error
    return Path(text)


def _explain(text: str, error: OSError | ValueError) -> str:
    return describe_unwritable(text, error if isinstance(error, OSError) else OSError(str(error)))


def parse_seconds(text: str) -> float:
    """Return the seconds that a text such as `90`, `90s`, `5m` or `1h` stands for, from 1 s to a day."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smh]?)", text.strip(), re.ASCII)
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 0.0 < seconds <= _LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a time such as 90s, 10m or 1h, up to 24h")
    return seconds


def parse_names(text: str) -> Sequence[str]:
    """Return the names of a comma-separated list."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"got {text!r}, expected names separated by commas")
    return names

"""Flags that several verbs share."""

import argparse
from collections.abc import Callable, Sequence


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
        help="names or kinds of the devices to use, such as nvidia-gpu,pocl-cpu; see `codl devices`",
    )
    add_pair_flag(parser)


def parse_count(least: int) -> Callable[[str], int]:
    """Return what reads a whole number of at least ``least``."""

    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"got {text!r}, expected a whole number of at least {least}")
        return int(text)

    return parse


def parse_names(text: str) -> Sequence[str]:
    """Return the names of a comma-separated list."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"got {text!r}, expected names separated by commas")
    return names

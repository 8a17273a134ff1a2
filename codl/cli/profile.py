"""`codl profile`: the offline stage: measures devices and learns how long everything takes on them."""

import argparse
import re
from pathlib import Path
from typing import Any

from codl.cli.flags import add_device_flags, add_json_flag

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def add_parser(subparsers: Any) -> None:
    """Add the verb with its flags."""
    parser = subparsers.add_parser(
        "profile",
        help="measure devices and learn how long everything takes on them",
        description="Measures kernels, copies and meetings, and fits the models that plans are made by. "
        "Stopped at any time, it goes on where it was when it is started again.",
        epilog="example: codl profile --device intel-cpu --budget 5m",
    )
    add_device_flags(parser)
    parser.add_argument("--device", metavar="D", help="measure this device only")
    parser.add_argument(
        "--budget",
        type=parse_seconds,
        metavar="T",
        help="time for each device, such as 90s (default: 5m)",
    )
    parser.add_argument("--quick", action="store_true", help="60 seconds for each device")
    parser.add_argument(
        "--stale",
        action="store_true",
        help="measure only kernels that are new or changed since the profile was made",
    )
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="write profiles below this folder, not to the user's own"
    )
    add_json_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Profile the devices and print how well their latency models do."""
    from codl.cli.profiling import profile_devices  # with scikit-learn, which takes seconds

    return profile_devices(args)


def parse_seconds(text: str) -> float:
    """Return the seconds that a text such as `90`, `90s`, `5m` or `1h` stands for."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 1.0 <= seconds <= 86400.0:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a time such as 90s or 5m, from 1s to 24h")
    return seconds

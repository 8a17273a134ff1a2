"""`codl profile`: the offline stage: measures devices and learns how long everything takes on them."""

import argparse
from typing import Any

from codl.cli.flags import add_device_flags, add_json_flag, parse_output_folder, parse_seconds


def add_parser(subparsers: Any) -> None:
    """Add the verb with its flags."""
    parser = subparsers.add_parser(
        "profile",
        help="measure kernels, copies and synchronization of devices",
        description="Measures kernels, copies and synchronization, and fits the latency models that plans "
        "are made by. A second start after an interruption goes on.",
        epilog="example: codl profile --device intel-cpu --budget 3m",
    )
    add_device_flags(parser)
    parser.add_argument("--device", metavar="D", help="measure this device only")
    parser.add_argument(
        "--budget",
        type=parse_seconds,
        metavar="T",
        help="time for all devices together, such as 3m (default: 2m for each)",
    )
    parser.add_argument("--quick", action="store_true", help="40 seconds for each device")
    parser.add_argument(
        "--stale",
        action="store_true",
        help="measure only kernels that are new or changed since the profile was made",
    )
    parser.add_argument(
        "--output",
        type=parse_output_folder,
        metavar="DIR",
        help="write profiles below this folder, not to the user's own",
    )
    add_json_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Profile the devices and print how well their latency models do."""
    from codl.cli.profiling import profile_devices  # with scikit-learn, which takes seconds

    return profile_devices(args)

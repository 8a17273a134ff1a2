"""`codl devices`: what OpenCL devices there are."""

import argparse
from dataclasses import asdict
from typing import Any

from codl.cli.flags import add_json_flag, add_pair_flag
from codl.cli.output import format_bytes, print_json, print_message, print_table
from codl.devices.drivers import devices, find_problems, is_pair_emulated
from codl.devices.memory import choose_sharing
from codl.errors import ProfileError
from codl.latency.store import find_profile, find_shipped
from codl.machine import DeviceInfo

COLUMNS = ("name", "kind", "driver", "units", "memory", "sharing", "profile")


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the verb."""
    parser = subparsers.add_parser(
        "devices",
        help="list devices: name, kind, driver, units, memory, sharing, profile",
        description="List the OpenCL devices of this machine under the names that codl gives them.",
        epilog="example: codl devices --emulate-pair --json",
    )
    add_json_flag(parser)
    add_pair_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the devices."""
    found = devices()
    if args.json:
        print_json({"emulated_pair": is_pair_emulated(), "devices": [_to_json(info) for info in found]})
        return 0
    print_table(COLUMNS, [_to_row(info) for info in found])
    for problem in find_problems():
        print_message(f"note: {problem}")
    return 0


def _to_row(info: DeviceInfo) -> tuple[str, ...]:
    driver = f"{info.platform_name} {info.driver_version}"
    memory = format_bytes(info.global_memory_bytes)
    sharing = choose_sharing([info])
    return info.name, info.kind, driver, str(info.units), memory, sharing, describe_profile(info)["state"]


def _to_json(info: DeviceInfo) -> dict[str, Any]:
    return {**asdict(info), "sharing": choose_sharing([info]), "profile": describe_profile(info)}


def describe_profile(info: DeviceInfo) -> dict[str, Any]:
    """Return what profile a device has: `state` in a few words, and facts about it where there is one."""
    try:
        profile = find_profile(info)
        if profile is not None:
            stale = profile.find_stale()
            state = f"{profile.origin} {profile.date[:10]}" + (f", {len(stale)} stale" if stale else "")
            return {
                "state": state,
                "origin": str(profile.origin),
                "date": profile.date,
                "fingerprint": profile.fingerprint,
                "stale": list(stale),
            }
        shipped = find_shipped(info)
    except ProfileError as error:
        return {"state": "unusable", "problem": str(error)}
    if shipped is None:
        return {"state": "none, estimated at first use", "origin": "estimated"}
    return {"state": "shipped, scaled at first use", "origin": "borrowed"}

"""The work of `codl profile`; its flags are elsewhere, because these imports take long."""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from codl.catalog.table import IMPLEMENTATIONS, PAIRS
from codl.cli.output import print_json, print_line, print_message, print_table
from codl.devices.drivers import select_devices
from codl.devices.opencl import Device, open_device
from codl.errors import ProfileError
from codl.latency.files import load_profile, save_profile
from codl.latency.profile import DeviceKey, DeviceProfile, Quality
from codl.latency.store import user_path
from codl.machine import DeviceInfo
from codl.profiler.campaign import Campaign, Report
from codl.profiler.fit import check_installed
from codl.profiler.log import SampleLog, claim_machine, name_log
from codl.profiler.pairs import Neighbours, measure_pairs
from codl.profiler.workload import load_pairs, load_workload, share_out

DEFAULT_SECONDS, QUICK_SECONDS = 120.0, 40.0
"""Of each device."""
LEAST_SECONDS = 20.0
"""Of each device; drivers need some of it to compile before anything is measured."""
_PAIR_SHARE = 0.05
"""Of the budget, for the effects of devices on each other."""


def profile_devices(args: argparse.Namespace) -> int:
    """Profile the devices and print the quality of their latency models."""
    check_installed()
    names = [args.device] if args.device else args.devices
    devices = [open_device(opened.info.name) for opened in select_devices(names)]
    budget = args.budget or len(devices) * (QUICK_SECONDS if args.quick else DEFAULT_SECONDS)
    if budget < (least := LEAST_SECONDS * len(devices)):
        raise ProfileError(
            f"--budget: got {budget:.0f} s for {len(devices)} devices, expected at least {least:.0f} s"
        )
    end = time.monotonic() + budget
    with claim_machine(user_path(devices[0].info).parents[1]), _show_progress() as show:
        everyone = [open_device(opened.info.name) for opened in select_devices(args.devices)]
        neighbours = measure_pairs(
            everyone,
            [device.info.name for device in devices],
            seconds=_PAIR_SHARE * budget,
            report=lambda what: show(what, 0.0),
        )
        profiles = []
        for left, device in zip(range(len(devices), 0, -1), devices, strict=True):
            seconds = max(LEAST_SECONDS / 2, (end - time.monotonic()) / left)
            profiles.append(_profile(device, args, seconds, neighbours, show))
    report = _make_report([profile for profile in profiles if profile is not None])
    if args.json:
        print_json(report)
    else:
        _print_report(report)
    return 0


def _profile(
    device: Device,
    args: argparse.Namespace,
    budget: float,
    neighbours: Neighbours,
    show: Report,
) -> DeviceProfile | None:
    """Profile one device, save its profile and return it; None when nothing was stale."""
    info = device.info
    path = _find_path(info, args)
    old = _load_old(path, device)
    rows = None
    if args.stale:
        if old is None:
            raise ProfileError(
                f"{path}: got no profile of {info.name}, expected one to renew; leave out --stale"
            )
        rows = (*old.find_stale(), *_find_unlearned(old))
        if not rows:
            print_message(f"{info.name}: no kernel has changed since its profile was made")
            return None
    measured = {**(old.neighbours if old else {}), **neighbours[info.name]}
    with SampleLog(name_log(user_path(info).parent, DeviceKey.of(info))) as log:
        campaign = Campaign(
            device,
            layers=(*load_workload(), *load_pairs()),
            log=log,
            budget_seconds=budget,
            rows=rows,
            report=lambda what, share: show(f"{info.name}: {what}", share),
        )
        profile = campaign.run(neighbours=measured)
    if rows is not None and old is not None:
        renewed = {name: row for name, row in profile.rows.items() if name in rows}
        profile = replace(old.with_rows(renewed), neighbours=measured)
    elif old is not None:  # models of kernels that this campaign has not measured are kept
        profile = replace(profile, rows={**old.rows, **profile.rows})
    save_profile(profile, path)
    wanted = [row.name for row in IMPLEMENTATIONS if row.suits(info)]
    missing = [name for name in wanted if name not in profile.rows]
    if missing:
        print_message(
            f"note: {info.name}: too few samples of {', '.join(missing)}; run `codl profile` again for more"
        )
    print_message(f"{info.name}: {path}")
    return profile


def _find_unlearned(old: DeviceProfile) -> Iterator[str]:
    """Yield the kernels over several nodes that a profile has no model of and that can be measured.

    They are used only where they have a model, so newer ones would never be used.
    """
    known = (work.row.name for work in share_out(load_pairs(), old.info, PAIRS))
    return (name for name in known if name not in old.rows)


def _load_old(path: Path, device: Device) -> DeviceProfile | None:
    """Return the profile in a file; None where it cannot be read or is of another device."""
    if not path.exists():
        return None
    try:
        old = load_profile(path)
    except ProfileError as error:
        print_message(f"note: {error}")
        return None
    return old if old.key == DeviceKey.of(device.info) else None


def _find_path(info: DeviceInfo, args: argparse.Namespace) -> Path:
    """Return where the profile of a device goes."""
    path = user_path(info)
    return args.output / path.parent.name / path.name if args.output else path


@contextmanager
def _show_progress() -> Iterator[Report]:
    """Yield a report of the progress: a bar with the time left where stderr is a terminal, else nothing."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        tasks: dict[str, Any] = {}

        def show(what: str, share: float) -> None:
            device = what.partition(": ")[0]
            if device not in tasks:
                tasks[device] = progress.add_task(what, total=1.0)
            progress.update(tasks[device], description=what, completed=share)

        yield show


def _make_report(profiles: Sequence[DeviceProfile]) -> dict[str, Any]:
    """Return figures on held-out samples: those of all kernels together, and those of each device."""
    devices: list[dict[str, Any]] = []
    for profile in profiles:
        rows = sorted(profile.rows.items())
        devices.append(
            {
                "device": profile.name,
                "implementations": [{"name": name, **asdict(row.quality)} for name, row in rows],
                "pm10": _average([row.quality for _, row in rows]),
                "repeatability_pm10": profile.repeatability_pm10,
                "seconds": profile.seconds,
                "launch_us": profile.launch_us,
                "wait_us": profile.wait_us,
                "neighbours": {name: asdict(one) for name, one in sorted(profile.neighbours.items())},
            }
        )
    known = [each["repeatability_pm10"] for each in devices if each["repeatability_pm10"] is not None]
    return {
        "implementations": [
            {"device": each["device"], **row} for each in devices for row in each["implementations"]
        ],
        "repeatability_pm10": min(known, default=None),
        "seconds": sum(each["seconds"] for each in devices),
        "devices": devices,
    }


def _average(qualities: Sequence[Quality]) -> float:
    """Return the share of all held-out samples that are predicted within 10 %."""
    held = sum(quality.samples for quality in qualities)
    return sum(quality.pm10 * quality.samples for quality in qualities) / max(held, 1)


def _print_report(report: Mapping[str, Any]) -> None:
    for each in report["devices"]:
        print_table(
            ["kernel", "held out", "within 5 %", "within 10 %", "rmspe", "FLOPs only, 10 %"],
            [
                [
                    row["name"],
                    str(row["samples"]),
                    *(f"{row[name]:.0%}" for name in ("pm5", "pm10", "rmspe", "flops_pm10")),
                ]
                for row in each["implementations"]
            ],
            title=f"{each['device']}: {each['pm10']:.0%} of layers never seen are predicted within 10 %",
        )
        again = each["repeatability_pm10"]
        told = (
            "nothing was measured twice"
            if again is None
            else f"{again:.0%} of measurements repeat within 10 %"
        )
        print_line(f"{told}; {each['seconds']:.0f} s")

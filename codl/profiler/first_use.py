"""Profiles of devices at their first use: the user's own, a shipped one scaled to the device, or an estimate.

Scaling takes measurements of some seconds, which are kept for later processes.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import combinations
from statistics import geometric_mean
from typing import Any, TypeVar

from codl.devices.opencl import open_device
from codl.errors import ProfileError
from codl.files import read_text
from codl.latency.files import format_lines, format_neighbour, parse_neighbour
from codl.latency.linear import read_number
from codl.latency.profile import MEMORY, DeviceKey, DeviceProfile, Neighbour, Origin
from codl.latency.store import borrow, estimate, find_profile, find_shipped, user_path
from codl.machine import DeviceInfo, DeviceKind
from codl.outputs import write_output
from codl.profiler.pairs import measure_neighbours
from codl.profiler.sampler import STREAM_BYTES, Readings, measure_references

_LOG = logging.getLogger(__name__)
Found = TypeVar("Found")
_PAIR_SECONDS = 2.5
_REFERENCES_FILE, _NEIGHBOURS_FILE = "references.json", "neighbours.json"
_disturbed: dict[tuple[DeviceInfo, DeviceInfo], tuple[Neighbour, Neighbour]] = {}


def find_profiles(infos: Sequence[DeviceInfo]) -> dict[str, DeviceProfile]:
    """Return by name the best profiles available for devices that work together.

    A profile of the user's own is returned as it is; without one a shipped profile is scaled to the device,
    and without that everything is estimated. Effects of two devices on each other that no profile holds are
    measured and kept.

    Raises:
        DeviceError: A device that had to be measured failed.
        ProfileError: A profile of the user's own is broken or was measured with another driver.
    """
    own = {info.name: find_profile(info) for info in infos}
    borrowed = _borrow([info for info in infos if own[info.name] is None])
    found = {info.name: own[info.name] or borrowed[info.name] for info in infos}
    for first, second in combinations(infos, 2):
        pairs = ((first.name, second.name), (second.name, first.name))
        if any(
            other not in found[name].neighbours and found[name].origin is not Origin.SIMULATED
            for name, other in pairs
        ):
            for (name, other), neighbour in zip(pairs, _recall_neighbours(first, second), strict=True):
                profile = found[name]
                found[name] = replace(profile, neighbours={other: neighbour, **profile.neighbours})
    return found


def _borrow(infos: Sequence[DeviceInfo]) -> dict[str, DeviceProfile]:
    """Return by name the profiles of devices that have none of their own."""
    readings = _recall_readings(infos)
    shipped = {info.name: profile for info in infos if (profile := find_shipped(info)) is not None}
    found = {}
    for info in infos:
        taken, start_us = readings[info.name].reference_us, readings[info.name].start_us
        profile = shipped.get(info.name)
        if profile is None:
            bandwidth = STREAM_BYTES / taken[MEMORY]
            found[info.name] = estimate(info, taken, bandwidth_bytes_per_us=bandwidth, start_us=start_us)
            continue
        alike = [one.name for one in infos if one.name in shipped and _share_processor(one, info)]
        for kind in profile.reference_us.keys() & taken.keys():
            slower = [readings[name].reference_us[kind] / shipped[name].reference_us[kind] for name in alike]
            taken = {**taken, kind: profile.reference_us[kind] * geometric_mean(slower)}
        found[info.name] = borrow(profile, info, taken, start_us=start_us)
    return found


def _share_processor(one: DeviceInfo, other: DeviceInfo) -> bool:
    """Return whether two devices are equal, or CPU drivers with as many cores of one processor.

    Their profiles are scaled by one factor: how much the drivers differ is known better from their shipped
    profiles than from some seconds here, in which other programs may have disturbed one of them.

    Source:
        Two CPU drivers on a core each, readings of 2.5 s: one is 0.84 to 1.1 times as fast as the other.
        Networks: 0.97 to 1.04. Plans by one number for both are 2 to 12 % faster.
    """
    return one == other or (one.kind is other.kind is DeviceKind.CPU and one.units == other.units)


def _recall_readings(infos: Sequence[DeviceInfo]) -> dict[str, Readings]:
    """Return by name what the reference kernels take on each device; measured once, then kept.

    Devices that are measured take turns, so that other programs disturb all of them alike.
    """

    def read(told: Mapping[str, Any]) -> Readings:
        taken = {name: read_number(value, name, least=1e-6) for name, value in told["reference_us"].items()}
        return Readings(taken, read_number(told["start_us"], "start_us"))

    found: dict[str, Readings] = {}
    for info in infos:
        if (kept := _recall(info, _REFERENCES_FILE, _tell_device(info), read)) is not None:
            found[info.name] = kept
    unknown = [info for info in infos if info.name not in found]
    for info in unknown:
        text = (
            "%s: no profile yet: measuring two reference kernels, some seconds; "
            "`codl profile --device %s` measures all kernels"
        )
        _LOG.warning(text, info.name, info.name)
    measured = measure_references([open_device(info.name) for info in unknown]) if unknown else []
    for info, readings in zip(unknown, measured, strict=True):
        _keep(info, _REFERENCES_FILE, {**_tell_device(info), **asdict(readings)})
        found[info.name] = readings
    return found


def _tell_device(info: DeviceInfo) -> dict[str, Any]:
    return {"device": asdict(DeviceKey.of(info))}


def _recall_neighbours(first: DeviceInfo, second: DeviceInfo) -> tuple[Neighbour, Neighbour]:
    """Return the effects of two devices on each other, the first one's first; measured once, then kept.

    A measurement that other programs disturbed is kept for this process alone.
    """
    known = {**_tell_device(first), "other": asdict(DeviceKey.of(second))}
    where = f"{second.name}.{_NEIGHBOURS_FILE}"

    def read(told: Mapping[str, Any]) -> tuple[Neighbour, Neighbour]:
        return parse_neighbour(told["first"], "first"), parse_neighbour(told["second"], "second")

    kept = _recall(first, where, known, read) or _disturbed.get((first, second))
    if kept is not None:
        return kept
    one, two = measure_neighbours(open_device(first.name), open_device(second.name), seconds=_PAIR_SECONDS)
    if one.is_steady:
        _keep(first, where, {**known, "first": format_neighbour(one), "second": format_neighbour(two)})
    else:
        _disturbed[first, second] = one, two
    return one, two


def _recall(
    info: DeviceInfo, name: str, known: Mapping[str, Any], read: Callable[[Mapping[str, Any]], Found]
) -> Found | None:
    """Return what was kept for a device, parsed by ``read``; None where it is missing, damaged or foreign."""
    try:
        told = json.loads(read_text(user_path(info).parent / name))
        return read(told) if all(told[key] == value for key, value in known.items()) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, ProfileError):
        return None


def _keep(info: DeviceInfo, name: str, told: Mapping[str, Any]) -> None:
    path = user_path(info).parent / name
    with suppress(OSError):  # a cache that cannot be written is measured again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        write_output(path, format_lines(told), is_synced=True)

"""Profiles for devices that nobody has profiled: shipped ones, or a relative's, scaled in seconds.

Of shipped ones, what was measured with earlier kernels is scaled as well.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import combinations
from typing import Any, TypeVar

from codl.catalog.stored import load_database
from codl.devices.opencl import Device, open_device
from codl.errors import ProfileError
from codl.files import read_text
from codl.latency.files import DEVICE_FILE, format_lines, format_neighbour, parse_neighbour
from codl.latency.linear import read_number
from codl.latency.predictor import Predictor
from codl.latency.profile import DeviceKey, DeviceProfile, Neighbour, Origin, RowModel
from codl.latency.store import borrow, find_profile, find_relative, shipped_folder, user_folder
from codl.machine import DeviceInfo
from codl.outputs import write_output
from codl.profiler.calibration import Edit, measure_edits, measure_factors
from codl.profiler.pairs import Acquaintance
from codl.profiler.shared_cache import measure_shared_cache
from codl.profiler.survey import Survey

_LOG = logging.getLogger(__name__)
Found = TypeVar("Found")
_LOOKS = 3
"""At what two devices do to each other, 4 s each: a single one is easily disturbed."""
_FILE, _CARRIED_FILE, _NEIGHBOURS_FILE = "borrowed.json", "carried.json", "neighbours.json"


def find_profiles(infos: Sequence[DeviceInfo]) -> dict[str, DeviceProfile]:
    """Return by name the best profiles there are for devices that work together.

    Devices whose driver and kind nobody profiled are left out. What profiles do not say of two devices
    beside each other (a borrowed profile knows no neighbours) is measured in ten seconds, and kept.

    Raises:
        DeviceError: A device that had to be measured failed.
        ProfileError: A profile of the user's own is broken or was measured with another driver.
    """
    found = {info.name: profile for info in infos if (profile := find_or_borrow(info)) is not None}
    known = {info.name: info for info in infos}
    for pair in combinations(found, 2):
        if any(
            other not in found[name].neighbours and found[name].origin is not Origin.SIMULATED
            for name, other in (pair, pair[::-1])
        ):
            one, two = _measure_beside(known[pair[0]], known[pair[1]])
            for name, other, neighbour in ((*pair, one), (*pair[::-1], two)):
                profile = found[name]
                found[name] = replace(profile, neighbours={other: neighbour, **profile.neighbours})
    return found


def is_known(info: DeviceInfo) -> bool:
    """Return whether a device has a profile, or can borrow one; nothing is measured or judged for that."""
    folders = user_folder(info), shipped_folder(info)
    return any((one / DEVICE_FILE).exists() for one in folders) or find_relative(info) is not None


def find_or_borrow(info: DeviceInfo) -> DeviceProfile | None:
    """Return the best profile there is for a device; None where codl ships none of its driver and kind.

    Raises:
        DeviceError: A device that had to be measured failed.
        ProfileError: The user's own profile is broken or was measured with another driver.
    """
    profile = find_profile(info)
    if profile is not None:
        return settle_here(profile, open_device(info.name)) if profile.find_carried() else profile
    relative = find_relative(info)
    return None if relative is None else borrow_here(relative, open_device(info.name))


def borrow_here(relative: DeviceProfile, device: Device) -> DeviceProfile:
    """Return a relative's profile scaled to a device, where a few kernels of every sort run for that.

    What was measured, which takes about half a minute, is kept between processes.

    Raises:
        DeviceError: The device failed.
        ProfileError: The relative's profile has no references.
    """
    known = {"device": asdict(DeviceKey.of(device.info)), "relative": relative.fingerprint}

    def read(told: Mapping[str, Any]) -> DeviceProfile:
        reference_us, factors = _read_times(told["reference_us"]), _read_times(told["factors"])
        cached = int(read_number(told["shared_cache_bytes"], "shared_cache_bytes", largest=1e15))
        return borrow(relative, device.info, reference_us, factors, shared_cache_bytes=cached)

    if (kept := _recall(device.info, _FILE, known, read)) is not None:
        return kept
    _LOG.warning(
        "%s: no profile, so that of %s is scaled by some kernels, which are measured for half a minute; "
        "`codl profile --device %s` would know more",
        device.info.name,
        relative.key.device_name,
        device.info.name,
    )
    survey = Survey(device)
    scaled = borrow(relative, device.info, survey.quiet_us())
    factors = measure_factors(Predictor(scaled, device.info, database=load_database(device.info)), survey)
    reference_us = survey.quiet_us()
    shared_cache_bytes = measure_shared_cache(device)
    found = {"reference_us": reference_us, "factors": factors, "shared_cache_bytes": shared_cache_bytes}
    _keep(device.info, _FILE, {**known, **found})
    return borrow(relative, device.info, reference_us, factors, shared_cache_bytes=shared_cache_bytes)


def settle_here(profile: DeviceProfile, device: Device) -> DeviceProfile:
    """Return a device's own profile with its carried predictors scaled by what the edited kernels take now.

    What was measured, which takes some seconds, is kept between processes.

    Raises:
        DeviceError: The device failed.
    """
    known = {"device": asdict(DeviceKey.of(device.info)), "profile": profile.fingerprint}
    kept = _recall(device.info, _CARRIED_FILE, known, _read_edits)
    if kept is not None:
        return _settle(profile, kept)
    carried = ", ".join(profile.find_carried())
    _LOG.warning(
        "%s: its profile was made before %s changed, which is measured for some seconds; "
        "`codl profile --stale --device %s` would know more",
        device.info.name,
        carried,
        device.info.name,
    )
    predictor = Predictor(profile, device.info, database=load_database(device.info))
    edits = measure_edits(predictor, Survey(device))
    told = {"edits": {name: asdict(edit) for name, edit in edits.items()}}
    _keep(device.info, _CARRIED_FILE, {**known, **told})
    return _settle(profile, edits)


def _settle(profile: DeviceProfile, edits: Mapping[str, Edit]) -> DeviceProfile:
    """Return a profile that knows what edits did to kernels; those that nobody measured stay carried."""
    rows = {name: profile.rows[name] for name in profile.find_carried() if name in edits}
    return profile.with_rows({name: _settle_row(row, edits[name]) for name, row in rows.items()})


def _settle_row(row: RowModel, edit: Edit) -> RowModel:
    some_known = next(iter(row.layers), "")
    return replace(
        row,
        model=row.model.scaled({}, edit.factor),
        is_carried=False,
        doubt=max(row.find_uncertainty(""), edit.doubt),
        known_doubt=max(row.find_uncertainty(some_known), edit.doubt),
    )


def _read_edits(told: Mapping[str, Any]) -> dict[str, Edit]:
    """Return by implementation the edits that were kept.

    Raises:
        ProfileError: A value is no number of its kind.
    """
    return {
        name: Edit(
            factor=read_number(one["factor"], "factor", least=1e-6), doubt=read_number(one["doubt"], "doubt")
        )
        for name, one in told["edits"].items()
    }


def _read_times(told: Mapping[str, Any]) -> dict[str, float]:
    """Return positive numbers by name.

    Raises:
        ProfileError: A value is none.
    """
    return {name: read_number(value, name, least=1e-6) for name, value in told.items()}


def _measure_beside(first: DeviceInfo, second: DeviceInfo) -> tuple[Neighbour, Neighbour]:
    """Return what two devices do to each other, the first's first; kept between processes."""
    known = {"device": asdict(DeviceKey.of(first)), "other": asdict(DeviceKey.of(second))}
    where = f"{second.name}.{_NEIGHBOURS_FILE}"

    def read(told: Mapping[str, Any]) -> tuple[Neighbour, Neighbour]:
        return parse_neighbour(told["first"], "first"), parse_neighbour(told["second"], "second")

    if (kept := _recall(first, where, known, read)) is not None:
        return kept
    names = first.name, second.name
    acquaintance = Acquaintance([open_device(name) for name in names], names)
    acquaintance.look(_LOOKS)
    one, two = (acquaintance.find_neighbours(name)[other] for name, other in (names, names[::-1]))
    _keep(first, where, {**known, "first": format_neighbour(one), "second": format_neighbour(two)})
    return one, two


def _recall(
    info: DeviceInfo, name: str, known: Mapping[str, Any], read: Callable[[Mapping[str, Any]], Found]
) -> Found | None:
    """Return what was kept of a device as it is read; None where it is missing, damaged or of others."""
    try:
        told = json.loads(read_text(user_folder(info) / name))
        return read(told) if all(told[key] == value for key, value in known.items()) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, ProfileError):
        return None


def _keep(info: DeviceInfo, name: str, told: Mapping[str, Any]) -> None:
    path = user_folder(info) / name
    with suppress(OSError):  # a cache that cannot be written is measured again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        write_output(path, format_lines(told), is_synced=True)

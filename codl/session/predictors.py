"""Where predictors come from: the devices' profiles, files that are named, or names alone."""

import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from codl.catalog.stored import load_database
from codl.devices.drivers import find_device
from codl.errors import ProfileError
from codl.latency.files import load_profile
from codl.latency.predictor import Predictor
from codl.latency.profile import DeviceProfile
from codl.latency.store import borrow, find_profile, find_profile_named, find_shipped
from codl.machine import DeviceInfo
from codl.profiler.first_use import find_profiles

_LOG = logging.getLogger(__name__)


def find_predictors(infos: Sequence[DeviceInfo]) -> tuple[Predictor, ...]:
    """Return the predictors of devices: by their profiles, or by what was measured of them at first use.

    Raises:
        DeviceError: A device that had to be measured failed.
        ProfileError: A profile of the user's own is broken or was measured with another driver.
    """
    profiles = find_profiles(infos)
    return tuple(_make_predictor(profiles[info.name], info) for info in infos)


def find_default_predictors(infos: Sequence[DeviceInfo]) -> tuple[Predictor, ...]:
    """Return the predictors of devices that may work together, none of a single device.

    A profile of the user's own that cannot be used leaves the work to one device, as a line in the log says.
    """
    if len(infos) < 2:
        return ()
    try:
        return find_predictors(infos)
    except ProfileError as error:
        say_once(f"{infos[0].name} does all the work of {', '.join(info.name for info in infos)}: {error}")
        return ()


def guess_predictors(names: Sequence[str]) -> tuple[Predictor, ...]:
    """Return predictors of devices that tell which kernel is faster, without a measurement.

    The user's own profile counts, else a shipped one that is not scaled; devices with neither are left out.
    """
    found = []
    for name in names:
        info = find_device(name).info
        with suppress(ProfileError):
            profile = find_profile(info)
            shipped = find_shipped(info) if profile is None else None
            if shipped is not None:
                profile = borrow(shipped, info, shipped.reference_us)
            if profile is not None:
                found.append(_make_predictor(profile, info))
    return tuple(found)


def find_named_predictors(names: Sequence[str]) -> tuple[Predictor, ...]:
    """Return the predictors of all devices of these names that have a profile; no device is touched."""
    profiles = map(find_profile_named, names)
    return tuple(_make_predictor(profile, profile.info) for profile in profiles if profile is not None)


def load_predictors(paths: Sequence[str | os.PathLike[str]]) -> tuple[Predictor, ...]:
    """Return the predictors of some profiles, given by their files or folders.

    Raises:
        ProfileError: One holds no sane profile, or two are of the same device.
    """
    profiles = [load_profile(Path(path)) for path in paths]
    names = [profile.name for profile in profiles]
    for name in names:
        if names.count(name) > 1:
            raise ProfileError(f"profiles: got {names.count(name)} of {name}, expected one for each device")
    return tuple(_make_predictor(profile, profile.info) for profile in profiles)


def _make_predictor(profile: DeviceProfile, info: DeviceInfo) -> Predictor:
    return Predictor(profile, info, database=load_database(info))


@cache
def say_once(text: str) -> None:
    """Write a line to the log, the same one once a process."""
    _LOG.warning("%s", text)

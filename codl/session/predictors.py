"""Where predictors come from: the devices' profiles, files that are named, or names alone."""

import logging
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from codl.catalog.stored import load_database
from codl.errors import ProfileError
from codl.latency.files import load_profile
from codl.latency.predictor import Predictor
from codl.latency.profile import DeviceProfile
from codl.latency.store import find_profiles_named
from codl.machine import DeviceInfo
from codl.profiler.first_use import find_profiles, is_known

_LOG = logging.getLogger(__name__)


def find_predictors(infos: Sequence[DeviceInfo]) -> tuple[Predictor, ...]:
    """Return the predictors of all devices that have a profile or can borrow one, which may take seconds.

    Raises:
        DeviceError: A device that had to be measured failed.
        ProfileError: A profile of the user's own is broken or was measured with another driver.
    """
    profiles = find_profiles(infos)
    return tuple(_make_predictor(profiles[info.name], info) for info in infos if info.name in profiles)


def find_default_predictors(infos: Sequence[DeviceInfo]) -> tuple[Predictor, ...]:
    """Return the predictors of devices that all have a profile or can borrow one, else none.

    What a borrowed profile lacks is measured, which takes a minute, once. Nothing is measured where one of
    the devices cannot borrow either: then a line in the log says what would let the devices work together.
    """
    if len(infos) < 2:
        return ()
    try:
        unknown = [info.name for info in infos if not is_known(info)]
        if not unknown:
            return find_predictors(infos)
        reason = f"codl knows no profile of {', '.join(unknown)}"
    except ProfileError as error:
        reason = str(error)
    say_once(
        f"{infos[0].name} does all the work of {', '.join(info.name for info in infos)}: {reason}; "
        "run `codl profile`"
    )
    return ()


def find_named_predictors(names: Sequence[str]) -> tuple[Predictor, ...]:
    """Return the predictors of all devices of these names that have a profile; no device is touched.

    Raises:
        ProfileError: Profiles of several devices have the same name.
    """
    found = []
    for name in names:
        profiles = find_profiles_named(name)
        if len(profiles) > 1:
            facts = ", ".join(f"{one.info.device_name} with {one.info.units} units" for one in profiles)
            raise ProfileError(
                f"profile of {name}: got {len(profiles)} of that name ({facts}), expected one; "
                "name their folders (`codl plan --profiles A,B`)"
            )
        found += [_make_predictor(profile, profile.info) for profile in profiles]
    return tuple(found)


def load_predictors(paths: Sequence[str | os.PathLike[str]]) -> tuple[Predictor, ...]:
    """Return the predictors in some folders of profiles, each of which one of its files may stand for.

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

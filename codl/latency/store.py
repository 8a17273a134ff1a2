"""Where the profiles of devices are: the user's own, which win, and those that ship with codl."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from codl.assets import cache_dir, profiles_dir
from codl.catalog.stored import name_folder, name_own_folder
from codl.errors import ProfileError
from codl.latency.files import DEVICE_FILE, load_profile
from codl.latency.linear import LinearModel
from codl.latency.profile import (
    COMPUTE,
    MEMORY,
    DeviceKey,
    DeviceProfile,
    Origin,
)
from codl.machine import DeviceInfo

SIMULATED = "simulated"
"""Folder of profiles of devices that nobody here has; they are found by name only."""
_MEMORY_FEATURES = ("read", "written", "beyond_", "bytes", "far_constants", "far_paced_")
"""Beginnings of the names of features whose time is the memory's."""


def user_folder(info: DeviceInfo) -> Path:
    """Return where the user's own profile of a device is kept; `CODL_CACHE_DIR` moves it."""
    return cache_dir() / "profiles" / name_folder(info)


def shipped_folder(info: DeviceInfo) -> Path:
    """Return where a profile of a device would ship with codl.

    Where processors of several generations bear one name, as on virtual machines, the folders of later ones
    end with it, such as `_g6-167`.
    """
    own = profiles_dir() / name_own_folder(info)
    return own if (own / DEVICE_FILE).exists() else profiles_dir() / name_folder(info)


def find_profile(info: DeviceInfo) -> DeviceProfile | None:
    """Return the profile of this device with this driver: the user's own, else a shipped one, else None.

    Kernels that changed since the user's own was made are predicted as in the shipped one, if it knows them.

    Raises:
        ProfileError: The user's own profile is broken or was measured with another driver.
    """
    shipped = _find_shipped(info)
    if not (user_folder(info) / DEVICE_FILE).exists():
        return shipped
    own = load_profile(user_folder(info))
    check_device(own, info)
    return own if shipped is None else _renew(own, shipped)


def _find_shipped(info: DeviceInfo) -> DeviceProfile | None:
    if not (shipped_folder(info) / DEVICE_FILE).exists():
        return None
    profile = load_profile(shipped_folder(info))
    return profile if profile.key.find_difference(DeviceKey.of(info)) is None else None


def _renew(own: DeviceProfile, shipped: DeviceProfile) -> DeviceProfile:
    """Return a profile with the predictors of another one where its own are stale and the other's are not."""
    stale = set(own.find_stale()) - set(shipped.find_stale())
    rows = {name: shipped.rows[name] for name in sorted(stale) if name in shipped.rows}
    return own.with_rows(rows, shared_cache_bytes=shipped.shared_cache_bytes) if rows else own


def find_profiles_named(name: str) -> list[DeviceProfile]:
    """Return the profiles of devices of a name: the user's own, else those that ship.

    Simulated ones ship too. Folders that hold no sane profile are passed over.
    """
    for root in (cache_dir() / "profiles", profiles_dir(), profiles_dir() / SIMULATED):
        found = []
        for folder in sorted(root.iterdir()) if root.is_dir() else ():
            if (folder / DEVICE_FILE).is_file():
                with suppress(ProfileError):
                    found.append(load_profile(folder))
        named = [profile for profile in found if profile.name == name]
        if named:
            return named
    return []


def check_device(profile: DeviceProfile, info: DeviceInfo) -> None:
    """Raise an error when a profile is of another device or driver, or return silently.

    Raises:
        ProfileError: It is; the message tells the fact and the command to mend it.
    """
    difference = profile.key.find_difference(DeviceKey.of(info))
    if difference is not None:
        raise ProfileError(
            f"profile of {profile.name}: got one for {difference} of {info.name}; "
            f"run `codl profile --device {info.name}`"
        )


def find_relative(info: DeviceInfo) -> DeviceProfile | None:
    """Return the shipped profile of the most similar device of the same driver and kind, or None.

    Most of all vectors count, then the processor, then how many units it has.
    """
    found = []
    for folder in sorted(profiles_dir().iterdir()):
        if not (folder / DEVICE_FILE).is_file():
            continue
        profile = load_profile(folder)
        if profile.key.driver == info.driver and profile.key.kind == str(info.kind):
            key = profile.key
            unlike = (
                key.vector_width != info.vector_width,
                key.device_name != info.device_name,
                key.generation != info.generation,
                abs(key.units - info.units),
            )
            found.append((unlike, folder.name, profile))
    return min(found, key=lambda item: item[:2])[2] if found else None


def borrow(
    profile: DeviceProfile,
    info: DeviceInfo,
    reference_us: Mapping[str, float],
    factors: Mapping[str, float] = MappingProxyType({}),
    *,
    shared_cache_bytes: int = 0,
) -> DeviceProfile:
    """Return a relative's profile for a device, scaled by what the reference kernels take on it.

    Args:
        profile: Of a device of the same driver and kind.
        info: The device.
        reference_us: What the two reference kernels take on it when it is quiet.
        factors: By implementation, how many times as long as that tells its kernels take; 1 by default.
        shared_cache_bytes: What its cache holds that cores share; 0 where nobody knows.

    Raises:
        ProfileError: A reference is missing on either side.
    """
    missing = {COMPUTE, MEMORY} - (set(reference_us) & set(profile.reference_us))
    if missing:
        raise ProfileError(f"profile of {profile.name}: got no reference {sorted(missing)}, cannot be scaled")
    compute, memory = (reference_us[name] / profile.reference_us[name] for name in (COMPUTE, MEMORY))
    return replace(
        profile,
        info=info,
        origin=Origin.BORROWED,
        repeatability_pm10=None,
        reference_us=dict(reference_us),
        bandwidth_bytes_per_us=profile.bandwidth_bytes_per_us / memory,
        shared_cache_bytes=shared_cache_bytes,
        launch_us=profile.launch_us * compute,
        wait_us=profile.wait_us * compute,
        rows={
            name: replace(
                row,
                model=_scale(row.model, compute * factor, memory * factor),
                layers={},
                known=None,
                is_carried=False,
            )
            for name, row in profile.rows.items()
            for factor in [factors.get(name, 1.0)]
        },
        sharing={name: _scale(model, compute, memory) for name, model in profile.sharing.items()},
        neighbours={},
    )


def _scale(model: LinearModel, compute: float, memory: float) -> LinearModel:
    factors = {
        name: memory for name in model.features if name.rpartition(".")[2].startswith(_MEMORY_FEATURES)
    }
    return model.scaled(factors, compute)

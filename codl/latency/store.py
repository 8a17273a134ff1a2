"""Where the profiles of devices are: the user's own, which win, and those that ship with codl."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from codl.assets import cache_dir, profiles_dir
from codl.catalog.stored import name_folder
from codl.errors import ProfileError
from codl.latency.features import MEMORY_FEATURES
from codl.latency.files import PROFILE_FILE, load_profile
from codl.latency.linear import LinearModel
from codl.latency.profile import COMPUTE, MEMORY, DeviceProfile, Origin
from codl.machine import DeviceInfo, DeviceKind, split_units

SIMULATED = "simulated"
"""Folder of profiles of devices that are not here; they are found by name only."""
_INSTRUCTION_SETS = {4: "sse", 8: "avx2", 16: "avx512"}
"""Lanes of a CPU's vectors -> name of its shipped profile."""


def user_path(info: DeviceInfo) -> Path:
    """Return where the user's own profile of a device is kept; `CODL_CACHE_DIR` moves it."""
    return cache_dir() / "profiles" / name_folder(info) / PROFILE_FILE


def shipped_path(info: DeviceInfo) -> Path:
    """Return where a profile for a device's driver and instruction set would ship with codl."""
    name = str(info.kind)
    if info.kind is DeviceKind.CPU:
        name = _INSTRUCTION_SETS.get(info.vector_width, f"v{info.vector_width}")
    return profiles_dir() / info.driver / f"{name}.json"


def find_profile(info: DeviceInfo) -> DeviceProfile | None:
    """Return the user's own profile of this device with this driver, or None.

    Raises:
        ProfileError: It is broken or was measured with another driver.
    """
    if not user_path(info).exists():
        return None
    own = load_profile(user_path(info))
    own.check_device(info)
    return own


def find_shipped(info: DeviceInfo) -> DeviceProfile | None:
    """Return the shipped profile of the same driver and instruction set, else of the same driver and kind.

    None where codl ships no profile of the driver.
    """
    exact = shipped_path(info)
    others = sorted(path for path in exact.parent.glob("*.json") if path != exact)
    for path in (exact, *others):
        if path.exists():
            profile = load_profile(path)
            if profile.info.kind is info.kind:
                return profile
    return None


def find_profile_named(name: str) -> DeviceProfile | None:
    """Return the profile of a device of a name: the user's own, else one that ships; None without any.

    Of several that for the widest vectors counts, and of those the latest. Simulated ones ship too. Files
    that hold no sane profile are passed over. A part of a device without a profile has that of the device,
    scaled; the second of a name without one has that of the first.
    """
    whole, units = split_units(name)
    profile = _find_named(name)
    if profile is not None:
        return profile
    profile = _find_named(whole) or _find_named(re.sub(r"-\d+$", "", whole))
    if profile is None:
        return None
    profile = replace(profile, info=replace(profile.info, name=whole))
    return profile if units is None else take_part(profile, units)


def _find_named(name: str) -> DeviceProfile | None:
    """Return the profile in a file that is of a device of a name; None without any."""
    places = (
        (cache_dir() / "profiles", f"*/{PROFILE_FILE}"),
        (profiles_dir(), "*/*.json"),
    )
    for root, pattern in places:
        found = []
        for path in sorted(root.glob(pattern)):
            with suppress(ProfileError):
                found.append(load_profile(path))
        named = [profile for profile in found if profile.name == name]
        if named:
            return max(named, key=lambda profile: (profile.info.vector_width, profile.date))
    return None


def take_part(profile: DeviceProfile, units: int) -> DeviceProfile:
    """Return the profile of a device of which at most so many compute units are used, by the roofline.

    Each unit computes and moves as much as before; copies from and to the host take as long.

    Raises:
        ProfileError: It lacks a reference kernel, by which it would be scaled.
    """
    part = profile.info.limit(units)
    if not part.is_part:
        return profile
    share = part.units / profile.info.units
    taken = {name: us / share if name == MEMORY else us for name, us in profile.reference_us.items()}
    return replace(borrow(profile, part, taken), neighbours=profile.neighbours)


def borrow(
    profile: DeviceProfile, info: DeviceInfo, reference_us: Mapping[str, float], *, start_us: float = 0.0
) -> DeviceProfile:
    """Return a profile for a device, scaled by the times of the reference kernels on it.

    The compute-bound reference has a fixed size for each compute unit, the memory-bound one in all.

    Args:
        profile: Of a device of the same driver and kind.
        info: The device.
        reference_us: Times of the two reference kernels on it, in us.
        start_us: What a launch takes on it beyond the profile's, whatever its work.

    Raises:
        ProfileError: A reference is missing on either side.
    """
    missing = {COMPUTE, MEMORY} - (set(reference_us) & set(profile.reference_us))
    if missing:
        raise ProfileError(f"profile of {profile.name}: got no reference {sorted(missing)}, cannot be scaled")
    compute, stream = (reference_us[name] / profile.reference_us[name] for name in (COMPUTE, MEMORY))
    memory = stream * info.units / profile.info.units
    return replace(
        profile,
        info=info,
        origin=Origin.BORROWED,
        repeatability_pm10=None,
        reference_us=dict(reference_us),
        bandwidth_bytes_per_us=profile.bandwidth_bytes_per_us / stream,
        launch_us=profile.launch_us * compute + start_us,
        wait_us=profile.wait_us * compute,
        rows={
            name: replace(row, model=_scale(row.model, compute, memory), flop_us=row.flop_us * compute)
            for name, row in profile.rows.items()
        },
        sharing={name: _scale(model, compute, memory) for name, model in profile.sharing.items()},
        neighbours={},
    )


def estimate(
    info: DeviceInfo,
    reference_us: Mapping[str, float],
    *,
    bandwidth_bytes_per_us: float,
    start_us: float = 0.0,
) -> DeviceProfile:
    """Return a profile of a device of which only the reference kernels and a launch's start were measured."""
    return DeviceProfile(
        info=info,
        origin=Origin.ESTIMATED,
        reference_us=dict(reference_us),
        bandwidth_bytes_per_us=bandwidth_bytes_per_us,
        launch_us=_LAUNCH_US[info.kind] + start_us,
        wait_us=2 * _LAUNCH_US[info.kind],
    )


_LAUNCH_US = {DeviceKind.CPU: 5.0, DeviceKind.GPU: 8.0, DeviceKind.ACCELERATOR: 20.0}
"""Time that a launch usually adds to a queue, in us.

Source: drivers measured in docs/profiling.md.
"""


def _scale(model: LinearModel, compute: float, memory: float) -> LinearModel:
    return model.scaled(dict.fromkeys((*MEMORY_FEATURES, "bytes"), memory), compute)

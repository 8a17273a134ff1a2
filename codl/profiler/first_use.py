"""A profile for a device that nobody has profiled: a shipped one, or a relative's, scaled in seconds."""

import json
from dataclasses import asdict

from codl.devices.opencl import Device
from codl.devices.reference import COMPUTE, MEMORY, References
from codl.errors import ProfileError
from codl.latency.files import format_lines, write_whole
from codl.latency.linear import read_number
from codl.latency.profile import DeviceKey, DeviceProfile
from codl.latency.store import borrow, find_profile, find_relative, user_folder
from codl.profiler.survey import REFERENCE_WORK

_FILE = "reference.json"
_ROUNDS = 15
_US = 1e6


def find_or_borrow(device: Device) -> DeviceProfile | None:
    """Return the best profile there is for a device; None where codl ships none of its driver and kind.

    The reference kernels run when a relative's profile has to be scaled; what they took is kept.

    Raises:
        ProfileError: The user's own profile is broken or was measured with another driver.
    """
    profile = find_profile(device.info)
    if profile is not None:
        return profile
    relative = find_relative(device.info)
    return None if relative is None else borrow(relative, device.info, measure_references(device))


def measure_references(device: Device) -> dict[str, float]:
    """Return what the reference kernels take on a quiet device, in us; kept between processes."""
    path = user_folder(device.info) / _FILE
    key = asdict(DeviceKey.of(device.info))
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        if told["device"] == key:
            values = told["reference_us"]
            return {name: read_number(values[name], name, least=1e-3) for name in (COMPUTE, MEMORY)}
    except (OSError, ValueError, KeyError, TypeError, RecursionError, ProfileError):
        pass  # measured again
    references = References(device)
    sampler = references.sampler
    sampler.take({}, most_rounds=_ROUNDS, pause_seconds=0.0)
    found = {
        name: sampler.quiet_seconds(name) * _US * REFERENCE_WORK[name] / references.work[name]
        for name in (COMPUTE, MEMORY)
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, format_lines({"device": key, "reference_us": found}))
    except OSError:
        pass  # a cache that cannot be written is measured again next time
    return found

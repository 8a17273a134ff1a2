"""Where the constants of what is measured are: in the cache that cores share, or in memory."""

from dataclasses import replace
from hashlib import blake2s

from codl.machine import DeviceInfo
from codl.profiler.case import Case, count_constant_bytes

_NEAR_SHARE = 3
"""Constants are near up to the shared cache over this: what is moved beside them wants some of it, too."""


def place_constants(case: Case, info: DeviceInfo, *, shared_cache_bytes: int) -> Case:
    """Return a case with its constants far, always where no cache has room for them, else every other time.

    Which ones is decided by the case itself, so that a profiler that is started again asks for the same.

    Args:
        case: With its constants near.
        info: The device.
        shared_cache_bytes: What a cache keeps; where that is 0, memory is as fast, and all are near.
    """
    constants = count_constant_bytes(case, info)
    if not constants or not shared_cache_bytes:
        return case
    is_drawn = bool(blake2s(case.key.encode()).digest()[0] % 2)
    return replace(case, are_constants_far=is_drawn or constants * _NEAR_SHARE > shared_cache_bytes)

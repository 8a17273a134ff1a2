"""How much a cache that cores share keeps from one run of a network to the next."""

import numpy as np

from codl.devices.loads import prepare_read, round_read
from codl.devices.opencl import Device
from codl.devices.stopwatch import Stopwatch
from codl.ir.graph import FLOAT_BYTES

_WALKS = tuple(1 << power for power in range(22, 30))
"""Bytes that are read twice to find the size of a shared cache; the least exceeds a core's own cache."""
_SHARE_OF_MEMORY = 8
_LOOKS = 9
_LEAST_GAIN = 1.2
"""By what factor a cache must be faster than memory to count."""
_HALF_MISSED = 1.5
"""A walk through so many times a cache's size misses it half of the time, see `Predictor.find_far_share`."""


def measure_shared_cache(device: Device) -> int:
    """Return how many bytes a cache keeps from one walk to the next, 0 where memory is as fast.

    It is the part of the cache that other programs leave, not its size.

    Raises:
        DeviceError: The driver refused memory.

    Source:
        Walks of growing length, each right after one like it: the length halfway between the rate of the
        shortest and of the longest.
    """
    stopwatch = Stopwatch(device)
    timed, most = stopwatch.device, device.info.global_memory_bytes // _SHARE_OF_MEMORY
    sizes = [size for size in _WALKS if size <= max(most, 2 * _WALKS[0])]
    buffer = timed.allocate(round_read(timed, sizes[-1] // FLOAT_BYTES))
    timed.fill(buffer, 1.0)
    calls = [prepare_read(timed, buffer, size // FLOAT_BYTES) for size in sizes]
    timed_walks = [[stopwatch.time([call], before=[call]) for call in calls] for _ in range(_LOOKS)]
    rates = np.array(sizes) / np.maximum(np.median(timed_walks, axis=0), 1e-9)
    if rates[0] < _LEAST_GAIN * rates[-1]:
        return 0
    middle = float(np.sqrt(rates[0] * rates[-1]))
    after = int(np.argmax(rates < middle))
    passed = (rates[after - 1] - middle) / (rates[after - 1] - rates[after])
    return int(sizes[after - 1] * 2**passed / _HALF_MISSED)

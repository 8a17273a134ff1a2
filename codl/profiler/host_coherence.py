"""Costs of cache coherence, beyond copying, for memory that a device and the host use."""

import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from codl.devices.boundary import at_work
from codl.devices.loads import SWEPT_BYTES, prepare_read, prepare_sweep, prepare_write, round_read
from codl.devices.loads import Call as Enqueue
from codl.devices.memory import arrange, place_shared
from codl.devices.opencl import Device
from codl.devices.script import play
from codl.devices.timing import interleave
from codl.ir.graph import FLOAT_BYTES
from codl.ir.regions import Region
from codl.latency.profile import HostCoherence
from codl.plan.sharing import Sharing
from codl.profiler.coherence import SHARED_FLOATS, count_us_per_kib

_LEAST_ROUNDS = 8


def measure_host_coherence(device: Device, *, seconds: float) -> HostCoherence | None:
    """Return how much longer transfers take because a device and the host use the same memory.

    The host writes an input that the device has read before, then the device reads it; of an output it is the
    other way round. Each is compared with the same access where only one of the two uses the memory. None
    where the device, which is opened with profiling, does not compute in the host's memory.

    Raises:
        DeviceError: A driver refused a kernel or memory, or its queue keeps no times.
    """
    if arrange([device.info], Sharing.COHERENT).modes != (Sharing.COHERENT,):
        return None
    floats = round_read(device, SHARED_FLOATS)
    whole = Region.whole((floats,))
    (storage,) = place_shared(whole, [device])
    view, values = storage.view(), np.ones(floats, np.float32)
    write, read = prepare_write(device, storage, whole), prepare_read(device, storage.buffer, floats)
    put, get = partial(np.copyto, view, values), partial(np.copyto, values, view)

    def compute(call: Enqueue) -> float:
        return play([(0, call)], [device]).busy[0]

    write_there, read_there, rest = partial(compute, write), partial(compute, read), _prepare_rest(device)
    rows = {
        "put own": (put, rest, put),
        "put": (put, read_there, rest, put),
        "read own": (write_there, read_there),
        "read": (put, read_there),
        "write own": (write_there, rest, write_there),
        "write": (write_there, get, rest, write_there),
        "get own": (put, get),
        "get": (write_there, get),
    }
    taken = interleave(
        {name: partial(_time_last, device, calls) for name, calls in rows.items()},
        least_rounds=_LEAST_ROUNDS,
        most_rounds=1000,
        most_seconds=seconds,
        pause_seconds=0.0,
    )

    def compare(*names: str) -> float:
        longer = sum(max(0.0, taken.median(name) - taken.median(f"{name} own")) for name in names)
        return count_us_per_kib(longer, floats)

    return HostCoherence(input_us=compare("put", "read"), output_us=compare("write", "get"))


def _prepare_rest(device: Device) -> Callable[[], None]:
    """Return a call that fills the nearest caches of host and device with other data, as a run does."""
    sweep, values = prepare_sweep(device), np.zeros(SWEPT_BYTES // FLOAT_BYTES // 2, np.float32)
    copy = np.empty_like(values)

    def rest() -> None:
        sweep()
        np.copyto(copy, values)
        device.finish()

    return rest


def _time_last(device: Device, calls: Sequence[Callable[[], float | None]]) -> float:
    """Return the seconds of the last of some calls: those that it returns, or else those until it returns."""
    with at_work([device], f"copies on {device.info.name}"):
        for call in calls[:-1]:
            call()
        start = time.perf_counter()
        told = calls[-1]()
        return time.perf_counter() - start if told is None else told

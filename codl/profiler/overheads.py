"""What the driver takes beside kernels: launches, waits, copies between device and host."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from codl.devices.boundary import at_work
from codl.devices.loads import prepare_sweep
from codl.devices.mapping import HeldRegion
from codl.devices.memory import HostCopy, count_runs, place_host, place_in, place_shared
from codl.devices.opencl import Device
from codl.devices.script import Call, play
from codl.devices.stopwatch import SECONDS_PER_NS, Stopwatch, count_ns
from codl.devices.timing import Row, interleave
from codl.ir.graph import FLOAT_BYTES
from codl.ir.regions import Region
from codl.latency.linear import LinearModel
from codl.profiler.fit import fit_model
from codl.profiler.scripts import measure_scripts

_FEW, _MANY = 16, 40
"""Launches of a queue; drivers need longer between kernels of 100 us than between such of nothing."""
_TRIALS = 25
_SECONDS = 2.0
_COPY_FEATURES = ("calls", "bytes", "rows")
_COPIES = (
    ((1, 16, 8, 8), (1, 16, 8, 8)),
    ((1, 64, 28, 28), (1, 64, 14, 28)),
    ((1, 64, 56, 56), (1, 64, 28, 56)),
    ((1, 256, 56, 56), (1, 256, 28, 56)),
    ((1, 64, 112, 112), (1, 64, 112, 112)),
    ((1, 512, 112, 112), (1, 512, 56, 112)),
    ((1, 64, 28, 28), (1, 32, 28, 28)),
    ((1, 128, 56, 56), (1, 64, 56, 56)),
    ((1, 512, 28, 28), (1, 384, 28, 28)),
    ((1, 256, 14, 14), (1, 128, 14, 14)),
    ((1, 2048, 7, 7), (1, 1024, 7, 7)),
    ((1, 64, 112, 112), (1, 16, 112, 112)),
    ((4, 1000), (2, 1000)),
    ((1, 4096), (1, 4096)),
)
"""(tensor, part of it that is copied): slabs of rows, which lie together, and of channels, which do not."""
_US = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """What a driver takes for launches, without their kernels, in us."""

    launch_us: float
    """One more launch in a busy queue."""
    wait_us: float
    """Starting and waiting."""


def measure_launches(device: Device) -> Overhead:
    """Return what one more launch adds to a busy queue, and what starting and waiting take.

    The first is what passes between kernels, and by how much kernels take longer while the host hands over
    more: it may itself be a thread of the device.

    Args:
        device: What to measure.

    Raises:
        DeviceError: Its queues keep no times.

    Source:
        Wall clock, without the kernels, of queues of few and of many launches of about 100 us, so that the
        host is ahead of the device as in a run; and of one alone. Intel's driver and PoCL on a core of an
        Emerald Rapids: 5.4 and 3.7 us a launch, in runs of ShuffleNet and SqueezeNet 6 to 9 us; 3.7 and 1.6
        us where kernels do nothing. With both cores of a Zen 3 Intel's driver needs 8 us to take a launch,
        and computes on one core less meanwhile.
    """
    stopwatch = Stopwatch(device)
    timed = stopwatch.device
    call = prepare_sweep(timed)
    scripts: dict[str, list[Call]] = {
        name: [(0, call)] * launches for name, launches in (("wait", 1), ("few", _FEW), ("many", _MANY))
    }
    found = measure_scripts(
        {name: partial(play, script, (timed,)) for name, script in scripts.items()},
        seconds=_SECONDS,
        prepare=partial(play, scripts["wait"], (timed,)),
    )
    added = (found["many"].rest - found["few"].rest) / (_MANY - _FEW) + _find_loss(timed, call)
    return Overhead(launch_us=max(0.0, added * _US), wait_us=max(0.0, found["wait"].rest * _US))


def _find_loss(device: Device, call: Callable[[], Any]) -> float:
    """Return what kernels of a queue lose to the handing over of one launch, in seconds.

    Args:
        device: The device, with profiling.
        call: Enqueues one of many equal kernels and returns its event.
    """
    found = []
    for _ in range(_TRIALS):
        with at_work([device], f"launches on {device.info.name}"):
            events = [call() for _ in range(_MANY)]
            device.finish()
        seconds = SECONDS_PER_NS * np.array([count_ns(event) for event in events], np.float64)
        found.append((seconds - np.median(seconds[_MANY // 2 :])).mean())  # these when all was handed over
    return float(np.median(found))


def measure_copies(device: Device) -> dict[str, LinearModel]:
    """Return what rectangular copies to the host (`read`) and from it (`write`) cost.

    Reads are waited for, as the executor waits for them. Writes are enqueued and finished.
    """
    values: list[tuple[float, float, float]] = []
    times: dict[str, list[float]] = {"read": [], "write": []}
    for shape, part in _COPIES:
        tensor, region = Region.whole(shape), Region.whole(part)
        storage = place_in(tensor, device.allocate(tensor.size))
        copy = HostCopy(device=device, storage=storage, host=place_host(region), region=region)
        rows = {"read": _time(device, copy.read), "write": _time(device, copy.write)}
        taken = interleave(rows, most_rounds=9, pause_seconds=0.0)
        values.append((1.0, float(region.size * FLOAT_BYTES), float(count_runs(region, tensor))))
        for name in rows:
            times[name].append(taken.median(name) * _US)
    return {name: fit_model(_COPY_FEATURES, np.array(values), np.array(us)) for name, us in times.items()}


def measure_maps(device: Device) -> dict[str, LinearModel]:
    """Return what it costs to take hold of a region in shared memory (`map`) and to give it back (`unmap`).

    Devices with memory of their own map nothing: they have no such costs.
    """
    if not device.info.is_unified:
        return {}
    values: list[tuple[float, float]] = []
    times: dict[str, list[float]] = {"map": [], "unmap": []}
    for shape, part in _COPIES:
        tensor, region = Region.whole(shape), Region.whole(part)
        storage = place_shared(tensor, [device])[0]
        held = HeldRegion(device=device, storage=storage, region=region, is_written=True)
        taken: dict[str, list[float]] = {"map": [], "unmap": []}
        with at_work([device], f"maps on {device.info.name}"):
            for _ in range(_TRIALS):
                for name, call in (("map", held.map), ("unmap", held.unmap)):
                    start = time.perf_counter()
                    call()
                    device.finish()
                    taken[name].append(time.perf_counter() - start)
        values.append((1.0, float(held.size_bytes)))
        for name, seconds in taken.items():
            times[name].append(float(np.median(seconds)) * _US)
    return {name: fit_model(("calls", "bytes"), np.array(values), np.array(us)) for name, us in times.items()}


def _time(device: Device, call: Callable[[], object]) -> Row:
    def measure() -> float:
        with at_work([device], f"copies on {device.info.name}"):
            start = time.perf_counter()
            call()
            device.finish()
            return time.perf_counter() - start

    return measure

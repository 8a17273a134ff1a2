"""Costs of a driver beyond kernels: launches, waits, transfers between device and host."""

import time
from collections.abc import Callable, Mapping, Sequence
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
from codl.devices.timing import interleave
from codl.ir.graph import FLOAT_BYTES
from codl.ir.regions import Region
from codl.latency.linear import LinearModel
from codl.profiler.fit import fit_model
from codl.profiler.scripts import measure_scripts

_FEW, _MANY = 16, 40
"""Launches of a queue; drivers need longer between kernels of 100 us than between empty ones."""
_TRIALS = 25
_SECONDS = 2.0
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


def measure_launches(device: Device) -> tuple[float, float]:
    """Return the us that one more launch adds to a busy queue, and those of starting and waiting.

    The first is the time between kernels, and by how much kernels take longer while the host enqueues more:
    the host may share a core with the device.

    Raises:
        DeviceError: The device's queues keep no times.

    Source:
        Wall clock, without the kernels, of queues of few and of many launches of about 100 us, so that the
        host is ahead of the device as in a run; and of one alone. Intel's driver and PoCL on a core of an
        Emerald Rapids: 5.4 and 3.7 us a launch, in runs of ShuffleNet and SqueezeNet 6 to 9 us; 3.7 and 1.6
        us where kernels do nothing. On both cores of a Zen 3 Intel's driver needs 8 us to enqueue a launch,
        and computes on one core fewer meanwhile.
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
    return max(0.0, added * _US), max(0.0, found["wait"].rest * _US)


def _find_loss(device: Device, call: Callable[[], Any]) -> float:
    """Return by how much equal kernels of a queue take longer while one more is enqueued, in seconds."""
    found = []
    for _ in range(_TRIALS):
        with at_work([device], f"launches on {device.info.name}"):
            events = [call() for _ in range(_MANY)]
            device.finish()
        seconds = SECONDS_PER_NS * np.array([count_ns(event) for event in events], np.float64)
        found.append((seconds - np.median(seconds[_MANY // 2 :])).mean())  # these run when all are enqueued
    return float(np.median(found))


def measure_copies(device: Device) -> dict[str, LinearModel]:
    """Return the costs of rectangular copies to the host (`read`) and from it (`write`).

    Reads are waited for, as the executor waits for them. Writes are enqueued and finished.
    """

    def measure(tensor: Region, region: Region) -> tuple[int, dict[str, float]]:
        storage = place_in(tensor, device.allocate(tensor.size))
        copy = HostCopy(device=device, storage=storage, host=place_host(region, beside=device), region=region)
        rows = {"read": partial(_time, device, copy.read), "write": partial(_time, device, copy.write)}
        taken = interleave(rows, most_rounds=9, pause_seconds=0.0)
        return region.size * FLOAT_BYTES, {name: taken.median(name) for name in rows}

    return _fit(measure, ("calls", "bytes", "rows"))


def measure_maps(device: Device) -> dict[str, LinearModel]:
    """Return the costs of mapping a region of shared memory for the host (`map`) and unmapping it (`unmap`).

    Empty for devices with memory of their own, which map nothing.
    """

    def measure(tensor: Region, region: Region) -> tuple[int, dict[str, float]]:
        (storage,) = place_shared(tensor, [device])
        held = HeldRegion(device=device, storage=storage, region=region, is_written=True)
        taken = [(_time(device, held.map), _time(device, held.unmap)) for _ in range(_TRIALS)]
        map_seconds, unmap_seconds = np.median(taken, axis=0).tolist()
        return held.size_bytes, {"map": map_seconds, "unmap": unmap_seconds}

    return _fit(measure, ("calls", "bytes")) if device.info.is_unified else {}


def _fit(
    measure: Callable[[Region, Region], tuple[int, Mapping[str, float]]], features: Sequence[str]
) -> dict[str, LinearModel]:
    """Return by kind of transfer the model of its time.

    Args:
        measure: Returns the bytes of a transfer, and by kind its time in seconds, given a tensor and a part.
        features: Of the model.
    """
    values: list[tuple[float, ...]] = []
    times: dict[str, list[float]] = {}
    for shape, part in _COPIES:
        tensor, region = Region.whole(shape), Region.whole(part)
        bytes_, taken = measure(tensor, region)
        values.append((1.0, float(bytes_), float(count_runs(region, tensor)))[: len(features)])
        for name, seconds in taken.items():
            times.setdefault(name, []).append(seconds * _US)
    return {name: fit_model(features, np.array(values), np.array(us)) for name, us in times.items()}


def _time(device: Device, call: Callable[[], object]) -> float:
    """Return how long a call takes until the device is idle, in seconds."""
    with at_work([device], f"transfers on {device.info.name}"):
        start = time.perf_counter()
        call()
        device.finish()
        return time.perf_counter() - start

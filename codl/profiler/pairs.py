"""Two devices at once: what it costs that they meet, and how they slow each other down."""

import time
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from codl.catalog.choose import choose
from codl.catalog.layers import Layer
from codl.catalog.stored import load_database
from codl.devices.limits import pinned_caller
from codl.devices.loads import Call, prepare_sweep, prepare_write
from codl.devices.meeting import Turn, take_turns
from codl.devices.memory import place_in
from codl.devices.opencl import Device
from codl.devices.stopwatch import Stopwatch
from codl.ir.ops import Conv2d
from codl.ir.regions import Region
from codl.latency.profile import COMPUTE, MEMORY, Meeting, Neighbour
from codl.profiler.case import Case, ConstantPool, PreparedCase
from codl.profiler.guard import Guard
from codl.profiler.watch import Watch

PATIENCE_SECONDS = 3.0
"""For both directions and the meeting."""
_LOADS_BESIDE = 4
"""Of the other device, for one of the device that is timed: it is busy from before to after."""
_LOAD_SECONDS = 5e-4
"""A load that is timed takes about this long."""
_STREAM_BYTES = 1 << 26
_CONVOLUTIONS = tuple(
    Layer(
        op=Conv2d(kernel=(size, size), pads=(size // 2,) * 4),
        inputs=((1, channels, length, length), (channels, channels, size, size)),
        constants=(1,),
        output=(1, channels, length, length),
    )
    for size, channels, length in ((3, 64, 56), (1, 256, 28))
)
"""What a device computes while it is not bound by memory.

Source:
    Two virtual cores of a cloud machine that are hardware threads of one core: convolutions take 1.5 to 1.8
    times as long beside each other, multiply-adds in registers 1.1 times.
"""
_US = 1e6


def measure_neighbours(
    first: Device, second: Device, *, patience_seconds: float = PATIENCE_SECONDS
) -> tuple[Neighbour, Neighbour]:
    """Return what the second device does to the first, and the first to the second.

    Args:
        first: One device.
        second: The other.
        patience_seconds: How long to read on, in all, until readings agree.

    Raises:
        DeviceError: A driver refused a kernel or memory.
    """
    watch = Watch([Guard(Stopwatch(device)) for device in (first, second)])
    loads = _prepare_loads(first), _prepare_loads(second)
    share = patience_seconds / 3
    meeting = measure_meeting((first, second), watch, patience_seconds=share)
    return (
        Neighbour(slowdown=_measure_slowdown(watch, first, second, loads, share), meeting=meeting),
        Neighbour(slowdown=_measure_slowdown(watch, second, first, loads[::-1], share), meeting=meeting),
    )


def measure_meeting(devices: Sequence[Device], watch: Watch, *, patience_seconds: float) -> Meeting:
    """Return what it takes to start all devices and wait for all, when each has next to nothing to do.

    They have rested before: threads that were busy just now begin much sooner. It is what the executor does
    at a meeting, through the same `devices/meeting.py`.

    Args:
        devices: Who meets.
        watch: Of all of them.
        patience_seconds: How long to read on until readings agree.
    """
    calls = []
    for device in devices:
        scrap = place_in(Region.whole((64,)), device.allocate(64))
        calls.append(prepare_write(device, scrap, scrap.region))
    script: list[Call] = []
    everyone = range(len(devices))
    for turn, index in take_turns([device.info for device in devices], fed=everyone, awaited=everyone):
        if turn is Turn.FEED:
            script += [calls[index], devices[index].queue.flush]
        else:
            script.append(devices[index].finish)
    times: list[float] = []

    def meet() -> tuple[float]:
        with pinned_caller():
            start = time.perf_counter()
            for call in script:
                call()
            times.append(time.perf_counter() - start)
        return (times[-1],)

    seconds = watch.measure({"meeting": meet}, patience_seconds=patience_seconds)["meeting"][0]
    late = float(np.percentile(times, 95)) / max(float(np.median(times)), 1e-9)
    return Meeting(median_us=seconds * _US, p95_us=late * seconds * _US, samples=len(times))


def _measure_slowdown(
    watch: Watch, device: Device, other: Device, loads: Sequence[Mapping[str, Call]], patience_seconds: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return [own work][the other's work], compute- and memory-bound: time beside the other / time alone."""
    own, theirs = loads
    table = []
    for name in (COMPUTE, MEMORY):
        rows = {"alone": partial(_time, device, own[name])}
        for load in (COMPUTE, MEMORY):
            rows[load] = partial(_time, device, own[name], other, theirs[load])
        taken = watch.measure(rows, patience_seconds=patience_seconds / 2)
        ratios = [taken[load][0] / taken["alone"][0] for load in (COMPUTE, MEMORY)]
        table.append((max(1.0, ratios[0]), max(1.0, ratios[1])))
    return table[0], table[1]


def _prepare_loads(device: Device) -> Mapping[str, Call]:
    """Return a load of each sort that takes about as long as the other's."""
    convolve = _prepare_convolutions(device)
    plays = max(1, round(_LOAD_SECONDS / max(min(_time(device, convolve)[0] for _ in range(3)), 1e-6)))

    def compute() -> None:
        for _ in range(plays):
            convolve()

    return {COMPUTE: compute, MEMORY: prepare_sweep(device, footprint=_STREAM_BYTES)}


def _prepare_convolutions(device: Device) -> Call:
    """Return a call that enqueues the convolutions, each by the kernel that would compute it."""
    stopwatch, pool = Stopwatch(device, uses_events=False), ConstantPool(device)
    sweep, database = prepare_sweep(device), load_database(device.info)
    prepared = []
    for layer in _CONVOLUTIONS:
        graph = layer.make_graph()
        selection = choose(graph.nodes[0], graph, device.info, database)
        case = Case(layer=layer, selection=selection, region=Region.whole(layer.output))
        prepared.append(PreparedCase(case, stopwatch, sweep, pool))
        prepared[-1].run()

    def convolve() -> None:
        for case in prepared:
            case.enqueue()

    return convolve


def _time(
    device: Device, load: Call, other: Device | None = None, beside: Call | None = None
) -> tuple[float]:
    """Return how long a load takes, in seconds, while the other device is busy from before to after it."""
    with pinned_caller():
        if other is not None and beside is not None:
            for _ in range(_LOADS_BESIDE):
                beside()
            other.queue.flush()
            time.sleep(2e-4)
        start = time.perf_counter()
        load()
        device.finish()
        taken = time.perf_counter() - start
        if other is not None:
            other.finish()
    return (taken,)

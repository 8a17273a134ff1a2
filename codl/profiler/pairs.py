"""Two devices at once: what it costs that they meet and share memory, how they slow each other down."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import combinations, product
from statistics import mean, median
from typing import TypeVar

import numpy as np

from codl.catalog.choose import choose
from codl.catalog.layers import Layer
from codl.catalog.stored import load_database
from codl.devices.loads import Call as Enqueue
from codl.devices.loads import prepare_sweep
from codl.devices.opencl import Device
from codl.devices.pools import ConstantPool
from codl.devices.script import Call, Played, play
from codl.devices.stopwatch import Stopwatch
from codl.ir.ops import Conv2d
from codl.ir.regions import Region
from codl.latency.profile import (
    COMPUTE,
    MEMORY,
    Coherence,
    DeviceProfile,
    HostCoherence,
    Meeting,
    Neighbour,
    Slowdown,
)
from codl.profiler.case import Case, PreparedCase
from codl.profiler.coherence import measure_coherence
from codl.profiler.guard import Guard
from codl.profiler.host_coherence import measure_host_coherence
from codl.profiler.meetings import measure_handing, measure_meeting, measure_signals
from codl.profiler.watch import Watch

Costs = TypeVar("Costs", Coherence, HostCoherence)
_LOOK_SECONDS = 3.75
"""To read on until readings agree, in one look: at both directions, meetings, handing over and the memory."""
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
_SORTS = (COMPUTE, MEMORY)


class Acquaintance:
    """What devices do to each other, from looks at each pair of them that may lie minutes apart.

    Args:
        devices: All that may work together.
        wanted: Names of those whose pairs count.

    Source:
        Single looks of 3 s on a shared machine, minutes apart, had meetings of 39, 83 and 477 us; work bound
        by memory took 1.03, 1.57 and 2.18 times as long beside the other device. On another one seven looks
        in a row had 1.53 for what six looks half an hour later found to be 1.05.
    """

    def __init__(self, devices: Sequence[Device], wanted: Collection[str]) -> None:
        self._looks: dict[tuple[str, str], list[Neighbour]] = {}
        self._pairs = [
            pair for pair in combinations(devices, 2) if {device.info.name for device in pair} & {*wanted}
        ]

    def look(self, looks: int, report: Callable[[str], None] = lambda what: None) -> None:
        """Measure each pair some times more.

        Raises:
            DeviceError: A driver refused a kernel or memory, or its queues keep no times.
        """
        for first, second in self._pairs:
            one, other = first.info.name, second.info.name
            report(f"{one} beside {other}")
            for _ in range(looks):
                found = measure_neighbours(first, second)
                for key, neighbour in zip(((one, other), (other, one)), found, strict=True):
                    self._looks.setdefault(key, []).append(neighbour)

    def find_neighbours(self, name: str) -> dict[str, Neighbour]:
        """Return what others do to a device, by their names, over all looks."""
        return {other: _join(looks) for (one, other), looks in self._looks.items() if one == name}

    def introduce(self, profile: DeviceProfile) -> DeviceProfile:
        """Return a device's profile with what others do to it."""
        return replace(profile, neighbours={**profile.neighbours, **self.find_neighbours(profile.name)})


def measure_neighbours(first: Device, second: Device) -> tuple[Neighbour, Neighbour]:
    """Return what the second device does to the first, and the first to the second, by a single look.

    Args:
        first: One device.
        second: The other.

    Raises:
        DeviceError: A driver refused a kernel or memory, or its queues keep no times.
    """
    stopwatches = Stopwatch(first), Stopwatch(second)
    watch = Watch([Guard(stopwatch) for stopwatch in stopwatches])
    share, devices = _LOOK_SECONDS / 5, [one.device for one in stopwatches]
    hosts = [measure_host_coherence(device, patience_seconds=share / 2) for device in devices]
    meeting = measure_meeting(devices, watch, patience_seconds=share)
    signal = measure_signals(devices, watch, patience_seconds=share)
    own, others = _measure_slowdowns(stopwatches, watch, patience_seconds=share)
    one, other = measure_coherence(devices, watch, patience_seconds=share) or (None, None)
    handing = measure_handing(devices, watch, patience_seconds=share)
    found = Neighbour(
        slowdown=own, meeting=meeting, signal=signal, coherence=one, host=hosts[0], handing_us=handing[0]
    )
    return found, replace(found, slowdown=others, coherence=other, host=hosts[1], handing_us=handing[1])


def _join(looks: Sequence[Neighbour]) -> Neighbour:
    """Return the median of what meetings take, and the mean of what devices cost each other all the time.

    A virtual machine's cores share a cache for some seconds, and then they do not: memory-bound work takes
    1.7 and 1.0 times as long beside the other device, and caches hand over nearly for nothing, or at a price.
    What a plan is worth is what it takes in the mean.
    """
    (calm, mixed), (disturbed, both) = np.mean([look.slowdown for look in looks], axis=0).tolist()
    return Neighbour(
        slowdown=((calm, mixed), (disturbed, both)),
        meeting=_join_meetings([look.meeting for look in looks]),
        signal=_join_meetings([look.signal for look in looks]),
        coherence=_join_costs([look.coherence for look in looks]),
        host=_join_costs([look.host for look in looks]),
        handing_us=median(look.handing_us for look in looks),
    )


def _join_costs(looks: Sequence[Costs | None]) -> Costs | None:
    known = [look for look in looks if look is not None]
    if not known:
        return None
    names = (one.name for one in fields(known[0]))
    return replace(known[0], **{name: mean(getattr(one, name) for one in known) for name in names})


def _join_meetings(looks: Sequence[Meeting | None]) -> Meeting | None:
    known = [look for look in looks if look is not None]
    if not known:
        return None
    return Meeting(
        median_us=median(one.median_us for one in known),
        p95_us=median(one.p95_us for one in known),
        samples=sum(one.samples for one in known),
    )


def _measure_slowdowns(
    stopwatches: Sequence[Stopwatch], watch: Watch, *, patience_seconds: float
) -> tuple[Slowdown, Slowdown]:
    """Return for each of two devices [own work][the other's work], compute- and memory-bound.

    It is what kernels take while the other is busy from before to after, over what they take alone.
    """
    devices = [stopwatch.device for stopwatch in stopwatches]
    loads = [_prepare_loads(stopwatch) for stopwatch in stopwatches]
    rows: dict[str, Callable[[], Played]] = {}
    for own, name, beside in product((0, 1), _SORTS, ("", *_SORTS)):
        other, script = 1 - own, list[Call]()
        if beside:
            script += [(None, call) for call in loads[other][beside]] * _LOADS_BESIDE
            script.append((None, devices[other].queue.flush))
        script += [(own, call) for call in loads[own][name]]
        rows[f"{own} {name} {beside}"] = partial(play, script, devices)
    taken = watch.measure(rows, patience_seconds=patience_seconds)

    def compare(own: int, name: str, beside: str) -> float:
        with_other, alone = (taken[f"{own} {name} {one}"].busy[own] for one in (beside, ""))
        return max(1.0, with_other / alone)

    def tabulate(own: int) -> Slowdown:
        (calm, mixed), (disturbed, both) = (
            [compare(own, name, beside) for beside in _SORTS] for name in _SORTS
        )
        return (calm, mixed), (disturbed, both)

    return tabulate(0), tabulate(1)


def _prepare_loads(stopwatch: Stopwatch) -> Mapping[str, Sequence[Enqueue]]:
    """Return a load of each sort that takes about as long as the other's."""
    device, convolve = stopwatch.device, _prepare_convolutions(stopwatch)
    script: list[Call] = [(0, call) for call in convolve]
    seconds = min(play(script, (device,)).busy[0] for _ in range(3))
    plays = max(1, round(_LOAD_SECONDS / max(seconds, 1e-6)))
    return {COMPUTE: [*convolve] * plays, MEMORY: [prepare_sweep(device, footprint=_STREAM_BYTES)]}


def _prepare_convolutions(stopwatch: Stopwatch) -> Sequence[Enqueue]:
    """Return what enqueues the convolutions, each by the kernel that would compute it."""
    device = stopwatch.device
    pool, sweep, database = ConstantPool(device), prepare_sweep(device), load_database(device.info)
    prepared: list[Enqueue] = []
    for layer in _CONVOLUTIONS:
        graph = layer.make_graph()
        selection = choose(graph.nodes[0], graph, device.info, database)
        case = PreparedCase(
            Case(layer=layer, selection=selection, region=Region.whole(layer.output)), stopwatch, sweep, pool
        )
        case.run()
        prepared += [partial(_call, enqueue, case) for enqueue in case.enqueues]
    return prepared


def _call(enqueue: Enqueue, _keep: PreparedCase) -> object:
    """Return the event of a kernel whose buffers the case keeps."""
    return enqueue()

"""Two devices at once: synchronization cost, shared memory, and how they slow each other down."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, product

from codl.devices.opencl import Device
from codl.devices.script import Call, Played, play
from codl.devices.stopwatch import Stopwatch
from codl.latency.profile import COMPUTE, MEMORY, Neighbour, Slowdown
from codl.profiler.coherence import measure_coherence
from codl.profiler.host_coherence import measure_host_coherence
from codl.profiler.meetings import measure_handing, measure_meeting, measure_signals
from codl.profiler.sampler import References
from codl.profiler.scripts import measure_scripts

_LOADS_BESIDE = 4
"""Of the other device, for one of the device that is timed: it is busy from before to after."""
_LOAD_SECONDS = 5e-4
"""A load that is timed takes about this long."""
_KINDS = (COMPUTE, MEMORY)

Neighbours = dict[str, dict[str, Neighbour]]
"""Device -> other device -> what the other does to it."""


def measure_pairs(
    devices: Sequence[Device],
    wanted: Collection[str],
    *,
    seconds: float,
    report: Callable[[str], None] = lambda what: None,
) -> Neighbours:
    """Return what devices do to each other.

    Args:
        devices: All that may work together.
        wanted: Names of those whose pairs count.
        seconds: How long to measure each pair.
        report: Is given the pair that is measured.

    Raises:
        DeviceError: A driver refused a kernel or memory, or its queues keep no times.
    """
    found: Neighbours = {device.info.name: {} for device in devices}
    for pair in combinations(devices, 2):
        one, other = (device.info.name for device in pair)
        if {one, other} & {*wanted}:
            report(f"{one} and {other}")
            found[one][other], found[other][one] = measure_neighbours(*pair, seconds=seconds)
    return found


def measure_neighbours(first: Device, second: Device, *, seconds: float) -> tuple[Neighbour, Neighbour]:
    """Return what the second device does to the first, and the first to the second.

    Args:
        first: One device.
        second: The other.
        seconds: How long to measure, about.

    Raises:
        DeviceError: A driver refused a kernel or memory, or its queues keep no times.
    """
    stopwatches = Stopwatch(first), Stopwatch(second)
    devices, share = [one.device for one in stopwatches], seconds / 6
    hosts = [measure_host_coherence(device, seconds=share / 2) for device in devices]
    meeting = measure_meeting(devices, seconds=share)
    signal = measure_signals(devices, seconds=share)
    own, others = _measure_slowdowns(stopwatches, seconds=2 * share)
    one, other = measure_coherence(devices, seconds=share) or (None, None)
    handing = measure_handing(devices, seconds=share)
    found = Neighbour(
        slowdown=own, meeting=meeting, signal=signal, coherence=one, host=hosts[0], handing_us=handing[0]
    )
    return found, replace(found, slowdown=others, coherence=other, host=hosts[1], handing_us=handing[1])


def _measure_slowdowns(stopwatches: Sequence[Stopwatch], *, seconds: float) -> tuple[Slowdown, Slowdown]:
    """Return for each of two devices [own work][the other's work], compute- and memory-bound.

    It is what a reference kernel takes while the other device is busy from before to after, over what it
    takes alone.
    """
    devices = [stopwatch.device for stopwatch in stopwatches]
    loads = [_prepare_loads(stopwatch) for stopwatch in stopwatches]
    scripts: dict[str, Callable[[], Played]] = {}
    for own, kind, beside in product((0, 1), _KINDS, ("", *_KINDS)):
        other, script = 1 - own, list[Call]()
        if beside:
            script += [(None, call) for _, call in loads[other][beside]] * _LOADS_BESIDE
            script.append((None, devices[other].queue.flush))
        script += [(own, call) for _, call in loads[own][kind]]
        scripts[f"{own} {kind} {beside}"] = partial(play, script, devices)
    taken = measure_scripts(scripts, seconds=seconds)

    def compare(own: int, kind: str, beside: str) -> float:
        with_other, alone = (taken[f"{own} {kind} {one}"].busy[own] for one in (beside, ""))
        return max(1.0, with_other / alone)

    def tabulate(own: int) -> Slowdown:
        (aa, am), (ma, mm) = ([compare(own, kind, beside) for beside in _KINDS] for kind in _KINDS)
        return (aa, am), (ma, mm)

    return tabulate(0), tabulate(1)


def _prepare_loads(stopwatch: Stopwatch) -> dict[str, list[Call]]:
    """Return each reference kernel as often as takes about as long as the other device's."""
    references = References(stopwatch)
    taken = references.read()
    return {
        kind: [(0, call)] * max(1, round(_LOAD_SECONDS / max(taken[kind], 1e-6)))
        for kind, call in references.calls.items()
    }

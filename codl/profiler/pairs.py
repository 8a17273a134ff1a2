"""Two devices at once: synchronization cost, shared memory, and how they slow each other down."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, product

from codl.devices.loads import Call as Enqueue
from codl.devices.opencl import Device
from codl.devices.script import Call, Played, play
from codl.devices.stopwatch import Stopwatch
from codl.latency.profile import COMPUTE, MEMORY, Neighbour, Slowdown
from codl.profiler.coherence import measure_coherence
from codl.profiler.host_coherence import measure_host_coherence
from codl.profiler.meetings import measure_handing, measure_meeting, measure_signals
from codl.profiler.sampler import References
from codl.profiler.scripts import measure_scripts

_OTHER_LOADS = 4
"""Loads of the other device for one of the device that is timed: it is busy before and after."""
_LOAD_SECONDS = 5e-4
"""Time of a load that is timed, about."""
_KINDS = (COMPUTE, MEMORY)

Neighbours = dict[str, dict[str, Neighbour]]
"""Device -> other device -> effects of the other on it."""


def measure_pairs(
    devices: Sequence[Device],
    wanted: Collection[str],
    *,
    seconds: float,
    report: Callable[[str], None] = lambda what: None,
) -> Neighbours:
    """Return the effects of devices on each other.

    Args:
        devices: All that may work together.
        wanted: Names of devices; only pairs with one of them are measured.
        seconds: How long to measure each pair.
        report: Called with the names of each pair before it is measured.

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
    """Return the effects of the second device on the first, and of the first on the second.

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
    """Return for each of two devices the slowdown by the other one.

    It is the time of a reference kernel while the other device is busy, over its time alone.
    """
    devices = [stopwatch.device for stopwatch in stopwatches]
    loads = [_prepare_loads(stopwatch) for stopwatch in stopwatches]
    scripts: dict[str, Callable[[], Played]] = {}
    for own, kind, other_kind in product((0, 1), _KINDS, ("", *_KINDS)):
        other, script = 1 - own, list[Call]()
        if other_kind:
            script += [(None, call) for call in loads[other][other_kind]] * _OTHER_LOADS
            script.append((None, devices[other].queue.flush))
        script += [(own, call) for call in loads[own][kind]]
        scripts[f"{own} {kind} {other_kind}"] = partial(play, script, devices)
    taken = measure_scripts(scripts, seconds=seconds)

    def compare(own: int, kind: str) -> tuple[float, float]:
        alone, *others = (taken[f"{own} {kind} {one}"].busy[own] for one in ("", *_KINDS))
        return max(1.0, others[0] / alone), max(1.0, others[1] / alone)

    first, second = ((compare(own, COMPUTE), compare(own, MEMORY)) for own in (0, 1))
    return first, second


def _prepare_loads(stopwatch: Stopwatch) -> dict[str, list[Enqueue]]:
    """Return launches of each reference kernel that take about as long on every device."""
    references = References(stopwatch)
    taken = references.read()
    return {
        kind: [call] * max(1, round(_LOAD_SECONDS / max(taken[kind], 1e-6)))
        for kind, call in references.calls.items()
    }

"""Synchronization costs: the host waits for several devices, or their kernels wait for each other.

Devices are opened with profiling; ``seconds`` is how long to measure.
"""

from collections.abc import Sequence
from functools import partial

from codl.devices.loads import prepare_sweep
from codl.devices.meeting import can_signal, start_order
from codl.devices.opencl import Device
from codl.devices.script import Call, play
from codl.devices.signals import Signals
from codl.latency.profile import Meeting
from codl.profiler.scripts import measure_scripts

_SIGNALLED = 15
"""Synchronizations in a row by signals; after the first few all launches have long been enqueued."""
_HANDED, _LOADS_BEFORE = 96, 8
"""Empty launches enqueued on one device, and loads that the other one has to do meanwhile."""
_US = 1e6


def measure_meeting(devices: Sequence[Device], *, seconds: float) -> Meeting:
    """Return the time to start all devices and wait for all, beyond the longest of their kernels.

    Their work is about as long as between synchronizations of a run, because threads that were busy a moment
    ago begin much sooner. The calls are those of the executor, through the same `devices/meeting.py`.
    """
    work = [prepare_sweep(device) for device in devices]
    script: list[Call] = []
    for index in start_order([device.info for device in devices]):
        script += [(index, work[index]), (None, devices[index].queue.flush)]
    meet = partial(play, script, devices)  # played before each reading too: caches are then as in a run
    found = measure_scripts({"met": meet}, seconds=seconds, prepare=meet)["met"]
    us = found.rest * _US
    return Meeting(median_us=us, p95_us=max(us, found.late * _US), samples=found.rounds)


def measure_signals(devices: Sequence[Device], *, seconds: float) -> Meeting | None:
    """Return the cost of a synchronization by signals, or None where kernels cannot wait for each other.

    It is the time that a row of synchronizations adds to the same work without any, through the same
    `devices/signals.py` as in a run.
    """
    infos = [device.info for device in devices]
    if not can_signal(infos):
        return None
    signals, work = Signals(devices), [prepare_sweep(device) for device in devices]
    order, everyone = start_order(infos), range(len(devices))
    apart: list[Call] = []
    met: list[Call] = [(None, signals.reset)]
    for number in range(1 + _SIGNALLED):
        for index in order if number else ():
            meeting = signals.bind(index, number=number, says=True, awaited=everyone)
            met += [(None, meeting), (None, devices[index].queue.flush)]
        for index in order:
            stretch: list[Call] = [(index, work[index]), (None, devices[index].queue.flush)]
            met += stretch
            apart += stretch
    scripts = {"met": partial(play, met, devices), "apart": partial(play, apart, devices)}
    with signals.turn:
        found = measure_scripts(scripts, seconds=seconds)
    median_us, p95_us = (
        max(0.0, (rest - found["apart"].rest) / _SIGNALLED * _US)
        for rest in (found["met"].rest, found["met"].late)
    )
    samples = found["met"].rounds * _SIGNALLED
    return Meeting(median_us=median_us, p95_us=max(median_us, p95_us), samples=samples)


def measure_handing(devices: Sequence[Device], *, seconds: float) -> tuple[float, float]:
    """Return by how many us either of two devices begins later for each launch enqueued on the other.

    It is how much longer a device takes for the same work if the host, before it waits, enqueues launches on
    the other device: 0 where the host does so on a core that the device does not use. It is 0 as well where
    the two cannot wait for each other by signals, as so many launches are then never enqueued at once.
    """
    if not can_signal([device.info for device in devices]):
        return 0.0, 0.0
    signals, rows = Signals(devices), {}
    for own, other in ((0, 1), (1, 0)):
        work = prepare_sweep(devices[own])
        empty = signals.bind(other, number=1, says=True, awaited=())
        begun: list[Call] = [(own, work)] * _LOADS_BEFORE + [(None, devices[own].queue.flush)]
        more: list[Call] = [(None, empty)] * _HANDED + [(None, devices[other].queue.flush)]
        rows[f"{own} alone"] = partial(play, begun, devices)
        rows[f"{own} with more"] = partial(play, begun + more, devices)
    with signals.turn:
        found = measure_scripts(rows, seconds=seconds)
    first, second = (
        max(0.0, found[f"{own} with more"].rest - found[f"{own} alone"].rest) / _HANDED * _US
        for own in (0, 1)
    )
    return first, second

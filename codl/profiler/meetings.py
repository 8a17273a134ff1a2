"""What it costs that devices meet: the host waits for them, or they wait for each other."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from codl.devices.loads import prepare_sweep
from codl.devices.meeting import can_signal, start_order
from codl.devices.opencl import Device
from codl.devices.script import Call, Played, play
from codl.devices.signals import Signals
from codl.latency.profile import Meeting
from codl.profiler.scripts import measure_scripts

_SIGNALLED = 15
"""Meetings in a row that devices have by themselves; behind the first few, all has long been handed over."""
_HANDED, _WORK_BESIDE = 96, 8
"""Launches of nothing that are handed over to one device while the other one has so much to do."""
_US = 1e6


def measure_meeting(devices: Sequence[Device], *, seconds: float) -> Meeting:
    """Return what it takes to start all devices and wait for all, beyond the longest work among theirs.

    They work about as long as between meetings of a run: threads that were busy just now begin much sooner.
    It is what the executor does at a meeting, through the same `devices/meeting.py`.

    Args:
        devices: Who meets, with profiling.
        seconds: How long to measure.
    """
    work = [prepare_sweep(device) for device in devices]
    script: list[Call] = []
    for index in start_order([device.info for device in devices]):
        script += [(index, work[index]), (None, devices[index].queue.flush)]
    rests: list[float] = []

    def meet() -> Played:
        played = play(script, devices)
        rests.append(played.rest * _US)
        return played

    rows, before = {"meeting": meet}, partial(play, script, devices)  # which leaves caches as in a run
    found = measure_scripts(rows, seconds=seconds, prepare=before)
    us = found["meeting"].rest * _US
    return Meeting(median_us=us, p95_us=max(us, float(np.percentile(rests, 95))), samples=len(rests))


def measure_signals(devices: Sequence[Device], *, seconds: float) -> Meeting | None:
    """Return what it takes that devices wait for each other by themselves, or None where they cannot.

    It is what a row of meetings adds to the same work without any, through the same `devices/signals.py` as
    in a run.

    Args:
        devices: Who meets, with profiling.
        seconds: How long to measure.
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
    rests: list[float] = []

    def meet() -> Played:
        with signals.turn:
            played = play(met, devices)
        rests.append(played.rest)
        return played

    def stay_apart() -> Played:
        return play(apart, devices)

    found = measure_scripts({"met": meet, "apart": stay_apart}, seconds=seconds)
    plain = found["apart"].rest
    median_us, p95_us = (
        max(0.0, (rest - plain) / _SIGNALLED * _US)
        for rest in (found["met"].rest, float(np.percentile(rests, 95)))
    )
    return Meeting(median_us=median_us, p95_us=max(median_us, p95_us), samples=len(rests) * _SIGNALLED)


def measure_handing(devices: Sequence[Device], *, seconds: float) -> tuple[float, float]:
    """Return by how much either of two devices begins later for each launch handed over to the other, in us.

    It is how much longer a device takes for the same work if the host, before it waits, has launches for the
    other one to hand over: nothing where it does so on a core that the device does not use. Where devices do
    not wait for each other by themselves nobody hands over so much at once, and it is nothing as well.

    Args:
        devices: Both, with profiling.
        seconds: How long to measure.
    """
    if not can_signal([device.info for device in devices]):
        return 0.0, 0.0
    signals, rows = Signals(devices), {}
    for own, other in ((0, 1), (1, 0)):
        work = prepare_sweep(devices[own])
        nothing = signals.bind(other, number=1, says=True, awaited=())
        begun: list[Call] = [(own, work)] * _WORK_BESIDE + [(None, devices[own].queue.flush)]
        handed: list[Call] = [(None, nothing)] * _HANDED + [(None, devices[other].queue.flush)]
        rows[f"{own} alone"] = partial(play, begun, devices)
        rows[f"{own} beside"] = partial(play, begun + handed, devices)
    with signals.turn:
        found = measure_scripts(rows, seconds=seconds)
    first, second = (
        max(0.0, found[f"{own} beside"].rest - found[f"{own} alone"].rest) / _HANDED * _US for own in (0, 1)
    )
    return first, second

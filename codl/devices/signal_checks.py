"""Whether kernels of two drivers really wait for each other, and then see what the other has written."""

from collections.abc import Iterator

import pyopencl as cl

from codl.devices.drivers import OpenedDevice
from codl.devices.findings import Finding
from codl.devices.meeting import SIGNALS_VARIABLE, can_signal
from codl.devices.opencl import Device, open_devices
from codl.devices.pages import allocate_host
from codl.devices.probe import tell_reason
from codl.devices.signals import Signals

_ROUNDS = 200
_LENGTH = 1 << 12


def check_signals(first: OpenedDevice, second: OpenedDevice) -> Iterator[Finding]:
    """Yield whether two CPU drivers see each other's writes behind their own meetings, if they have any."""
    if not can_signal([first.info, second.info]):
        return
    subject, remedy = f"{first.info.name} + {second.info.name}", f"set {SIGNALS_VARIABLE}=0"
    try:
        lost = _count_lost_rounds(open_devices([first.info.name, second.info.name]))
        message = f"{lost} of {_ROUNDS} meetings without the host lost writes"
    except Exception as error:  # whatever a driver raises is its fault
        lost, message = _ROUNDS, f"meetings without the host fail ({tell_reason(error)})"
    yield Finding.judge(subject, "signals", message, is_right=not lost, remedy=remedy)


def _count_lost_rounds(devices: tuple[Device, ...]) -> int:
    """Return in how many rounds what one device copied first was not what the other one copied on."""
    arrays = [allocate_host(_LENGTH) for _ in range(3)]
    signals, lost = Signals(devices), 0
    views = [[device.wrap(array) for array in arrays] for device in devices]
    meetings = [
        (
            signals.bind(writer, number=1, says=True, awaited=()),
            signals.bind(1 - writer, number=1, says=False, awaited=(writer,)),
        )
        for writer in (0, 1)
    ]
    for index in range(_ROUNDS):
        writer = index % 2
        says, waits = meetings[writer]
        arrays[0][:] = index
        signals.reset()
        waits()
        cl.enqueue_copy(devices[1 - writer].queue, views[1 - writer][2], views[1 - writer][1])
        devices[1 - writer].queue.flush()
        cl.enqueue_copy(devices[writer].queue, views[writer][1], views[writer][0])
        says()
        for device in devices:
            device.queue.flush()
        for device in devices:
            device.finish()
        signals.check()
        lost += not bool((arrays[2] == index).all())
    return lost

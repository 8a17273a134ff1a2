"""Devices that wait for each other by themselves: a kernel of each looks at what the others' have said.

The host hands over a run without waiting in between. None of its threads or a driver has to wake up at such
a meeting.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np
import pyopencl as cl

from codl.devices.boundary import driver_calls
from codl.devices.forks import keep_in_children, make_rlock
from codl.devices.meeting import SIGNALS_VARIABLE
from codl.devices.opencl import Device
from codl.devices.pages import allocate_host
from codl.errors import DeviceError

_SOURCE, _ENTRY = "meeting/meeting__buffer.cl", "meeting__buffer"
_LINE = 32
"""Words from one flag to the next: no two share a line of a cache, or neighbours."""
_TURN: AbstractContextManager[object] = make_rlock()


class Signals:
    """How far each device of a run has come, in memory that all of them see.

    While a device waits, so does all that stands behind in its queue. So kernels of two runs must come in one
    order in all queues: a run with signals holds the `turn`.

    Args:
        devices: Those that meet, which `can_signal`.

    Raises:
        BuildError: A driver refused the kernel.
        DeviceError: A driver refused the memory.
    """

    def __init__(self, devices: Sequence[Device]) -> None:
        self._devices = tuple(devices)
        keep_in_children(self)
        self._flags = allocate_host((1 + 2 * len(devices)) * _LINE).view(np.int32)
        self.reset()
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        names = " and ".join(one.info.name for one in devices)
        with driver_calls(names, f"cannot share {self._flags.nbytes} bytes"):
            self._buffers = [cl.Buffer(one.context, flags, hostbuf=self._flags) for one in devices]

    @property
    def turn(self) -> AbstractContextManager[object]:
        """What to hold from the first kernel of a run until its last one is done."""
        return _TURN

    def bind(self, device: int, *, number: int, says: bool, awaited: Collection[int]) -> Callable[[], Any]:
        """Return what enqueues a device's part of a meeting, and returns its event.

        Args:
            device: Whose queue.
            number: Of the meeting; it rises within a run, from 1.
            says: Whether others wait for the device.
            awaited: Devices that it waits for.
        """
        kernel = self._devices[device].kernel(_SOURCE, _ENTRY, {"LINE": _LINE})
        bits = sum(1 << other for other in awaited if other != device)
        numbers = map(np.int32, (len(self._devices), device, says, bits, number))
        self._devices[device].bind(kernel, self._buffers[device], *numbers)
        return partial(cl.enqueue_nd_range_kernel, self._devices[device].queue, kernel, (1,), (1,))

    def reset(self) -> None:
        """Begin a run: no device has reached a synchronization. All kernels of the last run must be done."""
        self._flags.fill(0)

    def give_up(self) -> None:
        """Release all kernels that wait, in a run that has failed."""
        self._flags[0] = 1

    def check(self) -> None:
        """End a run.

        Raises:
            DeviceError: A kernel waited for minutes in vain, or was told to give up.
        """
        if self._flags[0]:
            names = " and ".join(one.info.name for one in self._devices)
            raise DeviceError(
                f"{names}: a device waited for another for minutes, expected it to come; "
                f"run `codl doctor`, or set {SIGNALS_VARIABLE}=0 to let the host wait"
            )

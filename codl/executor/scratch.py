"""Memory that one launch of a node hands on to the next: one block a device, shared by all of its nodes."""

from typing import Any

from codl.devices.boundary import driver_calls
from codl.devices.launch import BoundLaunch
from codl.devices.memory import allocate_own
from codl.devices.opencl import Device


class Scratch:
    """Scratch memory of one device in one executable; its queue keeps the nodes that use it apart."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._requests: list[BoundLaunch] = []
        self.floats = 0
        """What the most demanding launch takes."""

    def request(self, launch: BoundLaunch, floats: int) -> None:
        """Note that a launch takes so many floats of scratch memory."""
        self._requests.append(launch)
        self.floats = max(self.floats, floats)

    def bind(self) -> Any:
        """Return the buffer, large enough for every request, after it is set in each kernel.

        Raises:
            DeviceError: The driver refused the memory.
        """
        buffer = allocate_own(self._device, self.floats)
        with driver_calls(self._device.info.name, "driver refused scratch memory"):
            for launch in self._requests:
                launch.kernel.set_arg(launch.scratch_position, buffer)
        return buffer

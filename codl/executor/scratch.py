"""Memory that one launch of a node hands on to the next: one block a device, shared by all of its nodes."""

from typing import Any

from codl.devices.boundary import driver_calls
from codl.devices.memory import allocate_own
from codl.devices.opencl import Device


class Scratch:
    """Scratch memory of one device in one executable; its queue keeps the nodes that use it apart."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._requests: list[tuple[Any, int]] = []
        self.floats = 0
        """What the most demanding launch takes."""

    def request(self, kernel: Any, position: int, floats: int) -> None:
        """Note that a kernel takes so many floats as its argument at ``position``."""
        self._requests.append((kernel, position))
        self.floats = max(self.floats, floats)

    def bind(self) -> Any:
        """Return the buffer, large enough for every request, after it is set in each kernel.

        Raises:
            DeviceError: The driver refused the memory.
        """
        buffer = allocate_own(self._device, self.floats)
        with driver_calls(self._device.info.name, "driver refused scratch memory"):
            for kernel, position in self._requests:
                kernel.set_arg(position, buffer)
        return buffer

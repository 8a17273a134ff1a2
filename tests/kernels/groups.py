"""Devices taken for GPUs, so that the rows of GPUs are chosen on them."""

from codl.devices.opencl import Device
from codl.machine import DeviceKind


def as_gpu(device: Device) -> Device:
    """Return a device taken for a GPU with memory of its own."""
    return device.with_facts(kind=DeviceKind.GPU, is_unified=False)

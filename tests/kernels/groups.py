"""Devices taken for GPUs, so that the rows of GPUs are chosen on them."""

from codl.devices.opencl import Device
from codl.machine import DeviceKind, Precision


def as_gpu(device: Device, *, precision: Precision = Precision.FLOAT32) -> Device:
    """Return a device taken for a GPU with memory of its own, and with matrix units for other precisions."""
    return device.with_facts(
        kind=DeviceKind.GPU,
        is_unified=False,
        has_matrix_units=precision is not Precision.FLOAT32,
        precision=precision,
    )

"""Devices taken for GPUs, so that the rows of GPUs are chosen on them."""

from codl.catalog.groups import LOCAL_BYTES
from codl.devices.opencl import Device
from codl.machine import DeviceKind, Precision


def as_gpu(device: Device, *, precision: Precision = Precision.FLOAT32) -> Device:
    """Return a device taken for a GPU with memory of its own, and with matrix units for other precisions.

    It has the local memory that groups need.
    """
    return device.with_facts(
        kind=DeviceKind.GPU,
        is_unified=False,
        local_memory_bytes=max(device.info.local_memory_bytes, LOCAL_BYTES),
        has_matrix_units=precision is not Precision.FLOAT32,
        precision=precision,
    )

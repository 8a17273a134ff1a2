"""Work for devices that tests wait for."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl

from codl.devices.opencl import Device
from codl.devices.reference import count_items


def prepare_spin(device: Device, *, rounds: int) -> Callable[[], Any]:
    """Return a call that enqueues multiply-adds in registers: ``rounds`` for each of many chains."""
    name, items = "reference_fma__buffer", count_items(device)
    kernel = device.kernel(f"reference/{name}.cl", name, {"VECTOR": 4, "GROUP": 1})
    dst = device.allocate(items)
    device.bind(kernel, dst, np.float32(0.999), np.int32(rounds))

    def spin(_keep: Any = dst) -> Any:
        return cl.enqueue_nd_range_kernel(device.queue, kernel, (items, 1, 1), (1, 1, 1))

    return spin

"""What rows for GPUs share: work-groups of 256 work-items that take the places of an operator in turns.

Their kernels are bodies (kernels/walk) that a launch of their own and the device's walker call alike.
"""

import numpy as np

from codl.catalog.spec import Accepts, Describe, Implementation, Parameters
from codl.ir.regions import IntArray
from codl.machine import DeviceInfo, DeviceKind, Precision

GROUP = 256
"""Work-items of a group (GROUP of kernels/common/group.h)."""
LOCAL_BYTES = 46 << 10
"""Local memory that a group may take."""
PRECISIONS = tuple(range(len(Precision)))
"""Values of PRECISION (kernels/walk/matrix_units.h)."""
MOST_GROUPS = 1 << 15
"""Groups of a launch at most; each takes several places where there are more of them."""


def takes_groups(info: DeviceInfo) -> bool:
    """Return whether a device computes by such groups: GPUs with enough local memory."""
    has_room = info.max_work_group_size >= GROUP and info.local_memory_bytes >= LOCAL_BYTES
    return info.kind is DeviceKind.GPU and has_room


def choose_assembly(info: DeviceInfo) -> Parameters:
    """Return PTX: whether the device's compiler takes NVIDIA's assembly."""
    return {"PTX": int(info.driver == "nvidia")}


def choose_products(info: DeviceInfo) -> Parameters:
    """Return PTX, and PRECISION: what factors are rounded to, by its place in `Precision`."""
    used = info.precision if info.has_matrix_units else Precision.FLOAT32
    return {"PRECISION": list(Precision).index(used), **choose_assembly(info)}


def make_row(folder: str, name: str, accepts: Accepts, describe: Describe) -> Implementation:
    """Return a row whose only parameter is PTX; its file lies in a folder below kernels/."""
    return Implementation(
        name=name,
        source=f"{folder}/{name}.cl",
        allowed={"PTX": (0, 1)},
        uses_groups=True,
        accepts=accepts,
        describe=describe,
    )


def size_grid(places: IntArray) -> IntArray:
    """Return the global size, [count, 3], of launches over so many places each."""
    size = np.ones((len(places), 3), np.int64)
    size[:, 0] = np.minimum(places, MOST_GROUPS) * GROUP
    return size

"""Whose memory a device reads and writes a tensor in."""

from collections.abc import Mapping

from codl.plan.residency import HOST
from codl.plan.sharing import Arrangement

SHARED = HOST
"""Stands for the memory of the host, and of all who share it, where a device index is expected."""
Place = tuple[str, int]
"""(tensor, device or `SHARED`)"""


def find_owner(
    tensor: str,
    device: int,
    places: Mapping[Place, object],
    arrangement: Arrangement,
    *,
    is_outside: bool,
) -> int:
    """Return whose memory a device uses for a tensor: its own, or the shared one.

    Args:
        tensor: Name of the tensor.
        device: Index of the device that reads or writes it.
        places: Where tensors lie.
        arrangement: How the devices share memory.
        is_outside: Whether it was published by an earlier step, and not computed in the present one.
    """
    if arrangement.is_discrete(device):
        return device
    return SHARED if is_outside or (tensor, device) not in places else device

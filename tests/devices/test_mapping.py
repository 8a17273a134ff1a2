"""Held regions: the bytes that are mapped, and what each side sees."""

import numpy as np
import pytest

from codl.devices.drivers import OpenedDevice
from codl.devices.mapping import HeldRegion
from codl.devices.memory import place_in, place_shared
from codl.devices.opencl import Device, open_device
from codl.ir.graph import FLOAT_BYTES
from codl.ir.regions import Region

WHOLE = Region.whole((1, 4, 6, 5))
"""Stored as 6 rows of 5 pixels of 4 channels."""


@pytest.fixture(params=("intel-cpu", "pocl-cpu", "pocl-cpu-2"))
def device(request: pytest.FixtureRequest, devices: tuple[OpenedDevice, ...]) -> Device:
    """Each device that computes in the host's memory."""
    if request.param not in {opened.info.name for opened in devices if opened.info.is_unified}:
        pytest.skip("not here, or with memory of its own")
    return open_device(request.param)


def hold(device: Device, region: Region, *, is_written: bool, base: int = 0) -> HeldRegion:
    storage = place_in(WHOLE, device.allocate(base + WHOLE.size), base=base)
    return HeldRegion(device=device, storage=storage, region=region, is_written=is_written)


@pytest.mark.parametrize(
    ("region", "first", "last"),
    [
        (WHOLE, 0, 119),
        (Region((0, 0, 2, 0), (1, 4, 4, 5)), 40, 79),
        (Region((0, 1, 0, 0), (1, 3, 6, 5)), 1, 118),
        (Region((0, 3, 5, 4), (1, 4, 6, 5)), 119, 119),
    ],
    ids=["whole", "rows", "channels", "one element"],
)
@pytest.mark.parametrize("base", [0, 256])
def test_bytes_reach_from_the_first_to_the_last_element(
    device: Device, region: Region, first: int, last: int, base: int
) -> None:
    held = hold(device, region, is_written=False, base=base)
    assert held.begin_bytes == (base + first) * FLOAT_BYTES
    assert held.size_bytes == (last - first + 1) * FLOAT_BYTES
    held.map()
    held.unmap()
    device.finish()


def test_host_reads_what_the_device_wrote_and_the_device_what_the_host_wrote(device: Device) -> None:
    (storage,) = place_shared(WHOLE, [device])
    assert storage.host is not None
    reading = HeldRegion(device=device, storage=storage, region=WHOLE, is_written=False)
    writing = HeldRegion(device=device, storage=storage, region=WHOLE, is_written=True)
    for value in (1.0, 2.0, 3.0):
        device.fill(storage.buffer, value)
        reading.map()
        assert (storage.host == value).all()
        reading.unmap()
        writing.map()
        storage.host[:] = np.arange(WHOLE.size)
        writing.unmap()
        device.fill(storage.buffer, value)  # after the unmap, or the host's numbers would be left
        device.finish()
        assert (storage.view() == value).all()

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codl.devices.memory import (
    PAGE_BYTES,
    HostCopy,
    Sharing,
    Storage,
    allocate_host,
    choose_sharing,
    dense_strides,
    place_host,
    place_in,
    place_shared,
)
from codl.devices.opencl import Device, open_devices
from codl.errors import DeviceError
from codl.ir.graph import FloatArray
from codl.ir.regions import Region

PAIR = ("intel-cpu", "pocl-cpu")


@st.composite
def nested_regions(draw: st.DrawFn) -> tuple[Region, Region, Region]:
    """Two storages of rank 1 to 4 and a region that lies in both."""
    rank = draw(st.integers(1, 4))
    inner, first, second = [], [], []
    for _ in range(rank):
        low = draw(st.integers(3, 8))
        high = draw(st.integers(low + 1, low + 5))
        inner.append((low, high))
        first.append((draw(st.integers(0, low)), draw(st.integers(high, high + 3))))
        second.append((draw(st.integers(0, low)), draw(st.integers(high, high + 3))))
    return tuple(  # type: ignore[return-value]
        Region(tuple(b for b, _ in part), tuple(e for _, e in part)) for part in (inner, first, second)
    )


def whole_view(storage: Storage, region: Region) -> FloatArray:
    """The part of a host storage that ``region`` names."""
    slices = tuple(
        slice(b - o, e - o) for b, e, o in zip(region.begin, region.end, storage.region.begin, strict=True)
    )
    return storage.view()[slices]


@pytest.mark.parametrize("device", open_devices(PAIR), ids=PAIR)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(regions=nested_regions())
def test_a_region_survives_the_way_to_a_device_and_back(
    device: Device, regions: tuple[Region, Region, Region]
) -> None:
    region, near, far = regions
    storage = place_in(near, device.allocate(near.size))
    source, target = place_host(far), place_host(far)
    assert source.host is not None
    assert target.host is not None
    source.host[:] = np.arange(source.host.size)
    target.host.fill(-1)
    device.fill(storage.buffer, -2)
    HostCopy(device=device, storage=storage, host=source, region=region).write()
    HostCopy(device=device, storage=storage, host=target, region=region).read()
    assert np.array_equal(whole_view(target, region), whole_view(source, region))
    assert (target.host == -1).sum() == far.size - region.size


def test_shared_memory_is_seen_by_both_drivers_without_a_map() -> None:
    devices = open_devices(PAIR)
    first, second = place_shared(Region.whole((4, 1024)), devices)
    devices[0].fill(first.buffer, 7.0)
    devices[0].finish()
    assert first.host is second.host
    assert (first.view() == 7.0).all()


def test_host_memory_stands_on_a_page() -> None:
    assert allocate_host(10).ctypes.data % PAGE_BYTES == 0
    assert allocate_host(10).size == 10


def test_image_tensors_keep_channels_innermost_and_others_onnx_order() -> None:
    assert dense_strides((2, 3, 4, 5)) == (60, 1, 15, 3)
    assert dense_strides((2, 3, 4)) == (12, 4, 1)
    assert dense_strides(()) == ()


def test_sharing_can_be_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    infos = [device.info for device in open_devices(PAIR)]
    monkeypatch.delenv("CODL_SHARING", raising=False)
    assert choose_sharing(infos) is Sharing.COHERENT
    monkeypatch.setenv("CODL_SHARING", "copied")
    assert choose_sharing(infos) is Sharing.COPIED
    monkeypatch.setenv("CODL_SHARING", "telepathy")
    with pytest.raises(DeviceError, match="telepathy"):
        choose_sharing(infos)

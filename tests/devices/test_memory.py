from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codl.devices.drivers import OpenedDevice
from codl.devices.memory import (
    HostCopy,
    Storage,
    allocate_own,
    arrange,
    choose_sharing,
    dense_strides,
    place_host,
    place_in,
    place_shared,
)
from codl.devices.opencl import open_device
from codl.errors import DeviceError
from codl.ir.graph import FloatArray
from codl.ir.regions import Region
from codl.machine import DeviceInfo, DeviceKind
from codl.plan.residency import HOST
from codl.plan.sharing import Sharing
from tests.exactness import DEVICES


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


@pytest.mark.parametrize("name", DEVICES)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(regions=nested_regions(), in_onnx_order=st.booleans(), is_pinned=st.booleans())
def test_a_region_survives_the_way_to_a_device_and_back(
    name: str, regions: tuple[Region, Region, Region], *, in_onnx_order: bool, is_pinned: bool
) -> None:
    device = open_device(name)
    region, near, far = regions
    storage = place_in(near, device.allocate(near.size), in_onnx_order=in_onnx_order)
    beside = device if is_pinned else None
    source, target = (place_host(far, beside=beside, in_onnx_order=in_onnx_order) for _ in range(2))
    assert source.host is not None
    assert target.host is not None
    source.host[:] = np.arange(source.host.size)
    target.host.fill(-1)
    device.fill(storage.buffer, -2)
    HostCopy(device=device, storage=storage, host=source, region=region).write()
    HostCopy(device=device, storage=storage, host=target, region=region).read()
    assert np.array_equal(whole_view(target, region), whole_view(source, region))
    assert (target.host == -1).sum() == far.size - region.size


def test_shared_memory_is_seen_by_all_cpu_drivers_without_a_map(devices: tuple[OpenedDevice, ...]) -> None:
    names = [opened.info.name for opened in devices if opened.info.kind is DeviceKind.CPU]
    if len(names) < 2:
        pytest.skip("needs two CPU drivers")
    first, second = place_shared(Region.whole((4, 1024)), [open_device(name) for name in names[:2]])
    filler = open_device(names[0])
    filler.fill(first.buffer, 7.0)
    filler.finish()
    assert first.host is second.host
    assert (first.view() == 7.0).all()


def test_memory_that_the_host_has_not_is_refused_in_a_sentence(devices: tuple[OpenedDevice, ...]) -> None:
    for opened in devices:
        with pytest.raises(DeviceError, match="cannot allocate"):
            allocate_own(open_device(opened.info.name), 1 << 58)


def test_image_tensors_keep_channels_innermost_and_others_onnx_order() -> None:
    assert dense_strides((2, 3, 4, 5)) == (60, 1, 15, 3)
    assert dense_strides((2, 3, 4)) == (12, 4, 1)
    assert dense_strides(()) == ()


def facts(kind: DeviceKind, *, is_unified: bool) -> DeviceInfo:
    return replace(open_device(DEVICES[0]).info, kind=kind, is_unified=is_unified)


CPU = partial(facts, DeviceKind.CPU, is_unified=True)
UNIFIED_GPU = partial(facts, DeviceKind.GPU, is_unified=True)
DISCRETE_GPU = partial(facts, DeviceKind.GPU, is_unified=False)
MIXED = (CPU, UNIFIED_GPU, DISCRETE_GPU)


@pytest.mark.parametrize(
    ("wish", "modes"),
    [
        (None, (Sharing.COHERENT, Sharing.MAPPED, Sharing.COPIED)),
        ("coherent", (Sharing.COHERENT, Sharing.MAPPED, Sharing.COPIED)),
        ("mapped", (Sharing.MAPPED, Sharing.MAPPED, Sharing.COPIED)),
        ("copied", (Sharing.COPIED, Sharing.COPIED, Sharing.COPIED)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_device_shares_as_its_facts_and_the_environment_say(
    wish: str | None, modes: tuple[Sharing, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    if wish is None:
        monkeypatch.delenv("CODL_SHARING", raising=False)
    else:
        monkeypatch.setenv("CODL_SHARING", wish)
    assert arrange([device() for device in MIXED]).modes == modes


def test_two_devices_share_as_the_one_that_needs_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CODL_SHARING", raising=False)
    arrangement = arrange([device() for device in (CPU, *MIXED)])
    assert arrangement.between(0, 1) is Sharing.COHERENT
    assert arrangement.between(0, 2) is Sharing.MAPPED
    assert arrangement.between(2, HOST) is Sharing.MAPPED
    assert arrangement.between(2, 3) is Sharing.COPIED
    assert arrangement.shared == (0, 1, 2)


def test_sharing_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODL_SHARING", "telepathy")
    with pytest.raises(DeviceError, match="telepathy"):
        choose_sharing([CPU()])

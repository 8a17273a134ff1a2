"""Memory that cases share: what lies where, and who keeps it."""

import numpy as np
import pyopencl as cl
import pytest

from codl.devices import pools
from codl.devices.drivers import OpenedDevice
from codl.devices.loads import prepare_read, round_read
from codl.devices.memory import Storage
from codl.devices.opencl import Device, open_device
from codl.devices.pools import ActivationPool, ConstantPool
from codl.ir.regions import Region


@pytest.fixture(scope="module")
def device(devices: tuple[OpenedDevice, ...]) -> Device:
    return open_device(devices[0].info.name)


def span(storage: Storage) -> range:
    return range(storage.base, storage.base + storage.region.size)


def test_tensors_of_a_case_lie_apart_and_aligned(device: Device) -> None:
    shapes = {"x": (1, 3, 5, 7), "y": (1, 8, 5, 7), "z": (2, 3)}
    places = ActivationPool(device).place({name: Region.whole(shape) for name, shape in shapes.items()})

    spans = [set(span(storage)) for storage in places.values()]
    assert len(set.union(*spans)) == sum(map(len, spans))
    assert all(storage.base * 4 % device.info.alignment_bytes == 0 for storage in places.values())
    assert len({storage.buffer.int_ptr for storage in places.values()}) == 1


def test_another_case_lies_in_the_same_memory(device: Device) -> None:
    pool, region = ActivationPool(device), Region.whole((1, 4, 4, 4))
    first, second = pool.place({"x": region}), pool.place({"a": region})
    assert first["x"].buffer is second["a"].buffer
    assert first["x"].base != second["a"].base
    assert pool.take_scratch(10) is pool.take_scratch(5)


def test_who_needs_more_leaves_others_theirs(device: Device) -> None:
    pool, small, large = ActivationPool(device, least_floats=64), (1, 1, 4, 4), (1, 1, 16, 16)
    first = pool.place({"x": Region.whole(small)})["x"]
    first.view()[...] = 3.0
    second = pool.place({"x": Region.whole(large)})["x"]
    second.view()[...] = 4.0
    np.testing.assert_array_equal(first.view(), np.full(small, 3.0, np.float32))
    assert pool.take_scratch(100) is not pool.take_scratch(1000)


def test_near_weights_lie_behind_each_other(device: Device) -> None:
    pool = ConstantPool(device)
    first, second = pool.take_near(100), pool.take_near(1000)
    assert second[1].size >= 1000
    if device.info.is_unified:
        assert first[0].offset + first[0].size <= second[0].offset


def test_near_weights_may_be_more_than_there_are(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_NEAR", 64)
    pool = ConstantPool(device)
    few, many = pool.take_near(64), pool.take_near(100_001)
    assert many[1].size == round_read(device, 100_001) >= 100_001
    assert few[1].size == round_read(device, 64)


def test_far_weights_lie_behind_each_other_and_begin_anew(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "_MOST_FAR", 10_000)
    pool = ConstantPool(device)
    taken = [pool.take_far(floats) for floats in (3000, 5000, 1000, 8000)]
    for floats, (buffer, host) in zip((3000, 5000, 1000, 8000), taken, strict=True):
        assert host.size == floats
        assert buffer.size == 4 * floats
        found = np.empty(floats, np.float32)
        cl.enqueue_copy(device.queue, found, buffer)
        np.testing.assert_array_equal(found, host)
    places = [buffer.offset // 4 for buffer, _ in taken]
    assert places == [0, 3072, 8192, 0]
    assert pool.take_far(20_000)[1].size == 20_000


def test_reading_leaves_a_buffer_as_it_is(device: Device) -> None:
    _, host = pool = ConstantPool(device).take_near(5000)
    before = host.copy()
    prepare_read(device, pool[0], 5000)()
    device.finish()
    found = np.empty(host.size, np.float32)
    cl.enqueue_copy(device.queue, found, pool[0])
    np.testing.assert_array_equal(found, before)

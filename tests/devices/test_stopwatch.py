"""Timing launches, and the loads that come before or beside them."""

import numpy as np
import pytest

from codl.devices.drivers import OpenedDevice
from codl.devices.loads import prepare_sweep, prepare_write
from codl.devices.memory import place_shared
from codl.devices.opencl import Device, open_device
from codl.devices.stopwatch import Stopwatch
from codl.ir.regions import Region
from tests.devices.loads import prepare_spin


@pytest.fixture(scope="module", params=[True, False], ids=["events", "wall"])
def stopwatch(request: pytest.FixtureRequest, devices: tuple[OpenedDevice, ...]) -> Stopwatch:
    stopwatch = Stopwatch(open_device(devices[0].info.name))
    stopwatch.has_events = stopwatch.has_events and request.param
    return stopwatch


@pytest.fixture(scope="module")
def device(stopwatch: Stopwatch) -> Device:
    return stopwatch.device


def test_more_work_takes_longer(stopwatch: Stopwatch, device: Device) -> None:
    short, long = (prepare_spin(device, rounds=rounds) for rounds in (1 << 10, 1 << 18))

    assert 0 < stopwatch.time([short], plays=5) < stopwatch.time([long], plays=5)


def test_what_comes_before_is_not_counted(stopwatch: Stopwatch, device: Device) -> None:
    short, long = (prepare_spin(device, rounds=rounds) for rounds in (1 << 10, 1 << 18))
    alone = stopwatch.time([long], plays=5)

    assert stopwatch.time([short], before=[long], plays=5) < alone


def test_nothing_takes_no_time(stopwatch: Stopwatch) -> None:
    assert stopwatch.time([]) < 1e-3


def test_sweep_runs_over_any_footprint(device: Device) -> None:
    for footprint in (1 << 12, 100_000, 1 << 22):
        prepare_sweep(device, footprint=footprint)()
    device.finish()


@pytest.mark.parametrize("rows", [(0, 6), (2, 3), (5, 6)])
def test_write_covers_its_region_and_no_byte_outside_the_span(device: Device, rows: tuple[int, int]) -> None:
    whole = Region.whole((1, 8, 6, 4))
    (storage,) = place_shared(whole, [device])
    assert storage.host is not None
    storage.host.fill(-1)
    region = whole.cut(2, *rows)

    prepare_write(device, storage, region, value=3.0)()
    device.finish()

    expected = np.full((1, 8, 6, 4), -1, np.float32)
    expected[:, :, rows[0] : rows[1]] = 3
    np.testing.assert_array_equal(storage.view(), expected)


def test_large_write_leaves_no_gap(device: Device) -> None:
    whole = Region.whole((100_003,))
    (storage,) = place_shared(whole, [device])
    assert storage.host is not None
    storage.host.fill(-1)

    prepare_write(device, storage, whole)()
    device.finish()

    assert (storage.view() == 1).all()

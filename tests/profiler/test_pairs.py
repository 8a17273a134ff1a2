"""Two devices at once, measured for real: meetings cost something, neighbours never speed anything up."""

import numpy as np
import pytest

from codl.devices.drivers import OpenedDevice
from codl.devices.meeting import can_signal
from codl.devices.memory import count_runs
from codl.devices.opencl import Device, open_device
from codl.ir.regions import Region
from codl.profiler.overheads import measure_copies, measure_launches, measure_maps
from codl.profiler.pairs import measure_pairs


def test_neighbours_cost_something(devices: tuple[OpenedDevice, ...]) -> None:
    if len(devices) < 2:
        pytest.skip("one device")
    pair = [open_device(opened.info.name) for opened in devices[:2]]

    names = [device.info.name for device in pair]
    found = measure_pairs(pair, names[:1], seconds=1.0)

    for name, other in zip(names, names[::-1], strict=True):
        neighbour = found[name][other]
        assert all(1 <= slowdown < 1000 for row in neighbour.slowdown for slowdown in row)
        assert neighbour.meeting is not None
        assert 0 < neighbour.meeting.median_us <= neighbour.meeting.p95_us
        assert (neighbour.signal is not None) == can_signal([device.info for device in pair])
        assert neighbour.signal is not None or neighbour.handing_us == 0
        assert neighbour.coherence is not None
        assert 0 <= neighbour.coherence.fetch_us < 100
        assert 0 <= neighbour.coherence.reclaim_us < 100
        assert neighbour.host is not None
        assert 0 <= neighbour.host.input_us < 100
        assert 0 <= neighbour.host.output_us < 100
        assert 0 <= neighbour.handing_us < 1000
        if neighbour.signal is not None:
            assert 0 <= neighbour.signal.median_us <= neighbour.signal.p95_us


def test_launches_and_waits_cost_something(device: Device) -> None:
    launch_us, wait_us = measure_launches(device)

    assert 0 <= launch_us < wait_us + 1e4
    assert wait_us > 0


def test_more_bytes_take_longer_to_copy(device: Device) -> None:
    for model in measure_copies(device).values():
        names = tuple(model.coefficients)
        small, large = np.ones((1, len(names))), np.full((1, len(names)), 1e6)
        assert 0 < model.predict_us(names, small)[0] < model.predict_us(names, large)[0]


def test_maps_are_known_where_memory_is_shared(device: Device) -> None:
    assert set(measure_maps(device)) == ({"map", "unmap"} if device.info.is_unified else set())


@pytest.mark.parametrize(
    ("region", "runs"),
    [
        (Region((0, 0, 0, 0), (1, 8, 6, 4)), 1),
        (Region((0, 0, 2, 0), (1, 8, 4, 4)), 1),
        (Region((0, 2, 0, 0), (1, 4, 6, 4)), 24),
        (Region((0, 0, 0, 1), (1, 8, 6, 3)), 6),
    ],
    ids=["whole", "rows", "channels", "columns"],
)
def test_runs_of_a_region(region: Region, runs: int) -> None:
    assert count_runs(region, Region.whole((1, 8, 6, 4))) == runs

"""The guard: readings like the quietest ones are quiet, others are not."""

import pytest

from codl.devices.opencl import Device
from codl.devices.stopwatch import Stopwatch
from codl.profiler.guard import Guard


@pytest.fixture(scope="module")
def guard(device: Device) -> Guard:
    return Guard(Stopwatch(device))


def test_slow_readings_are_not_quiet(guard: Guard) -> None:
    for _ in range(3000):
        guard.is_quiet(1e-4)

    assert guard.is_quiet(1.1e-4)
    assert not guard.is_quiet(1.4e-4)


def test_long_disturbance_becomes_what_is_usual(guard: Guard) -> None:
    for seconds in (1e-4, 2e-4):
        for _ in range(3000):
            guard.is_quiet(seconds)

    assert guard.is_quiet(2e-4)


def test_waiting_ends(guard: Guard) -> None:
    for _ in range(3000):
        guard.is_quiet(1e-9)

    assert not guard.wait(0.03)

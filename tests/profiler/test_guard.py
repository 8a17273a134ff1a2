"""The guard, by which what kernels take on a machine that is not quiet is judged."""

import pytest

from codl.devices.loads import prepare_sweep
from codl.devices.opencl import Device
from codl.devices.stopwatch import Stopwatch
from codl.profiler.guard import Guard


@pytest.fixture(scope="module")
def guard(device: Device) -> Guard:
    return Guard(Stopwatch(device))


def test_quiet_is_what_the_guard_takes_at_its_best(guard: Guard) -> None:
    for _ in range(200):
        guard.relate(1e-9, 1e-3, 1e-9)

    assert guard.quiet_seconds == pytest.approx(1e-9)


def test_guard_is_much_longer_than_a_launch(guard: Guard, device: Device) -> None:
    stopwatch = Stopwatch(device)
    short = prepare_sweep(stopwatch.device, footprint=1 << 15)
    stopwatch.time([short])  # drivers compile at the first launch

    for again in (guard, Guard(stopwatch)):
        assert again.rounds >= 16
        assert min(again.read() for _ in range(20)) > min(stopwatch.time([short]) for _ in range(20))


def test_watching_ends_and_is_remembered(device: Device) -> None:
    guard = Guard(Stopwatch(device))
    guard.watch(0.03)

    assert guard.read() > 0
    assert guard.quiet_seconds > 0

"""The guard, by which what kernels take on a machine that is not quiet is judged."""

from collections.abc import Sequence
from itertools import chain, repeat

import numpy as np
import numpy.typing as npt
import pytest

from codl.devices.loads import prepare_sweep
from codl.devices.opencl import Device
from codl.devices.stopwatch import Call, Stopwatch
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


class SleepyStopwatch(Stopwatch):
    """Tells what guards of more and more walks take, but at first 1 s: some cores wake up late."""

    def __init__(self, device: Device, seconds: Sequence[float]) -> None:
        super().__init__(device)
        self._seconds = chain(*([1.0] * 3 + [one] * 12 for one in seconds), repeat(seconds[-1]))

    def time_groups(self, groups: Sequence[Sequence[Call]], *, plays: int = 1) -> npt.NDArray[np.float64]:
        return np.full((plays, len(groups)), next(self._seconds))


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param((1e-6, 2e-6, 1e-5, 8e-5), id="walks"),
        pytest.param((1e-4, 1.01e-4, 1.1e-4, 2.3e-4), id="handing-over"),
    ],
)
def test_guard_is_long_enough_and_most_of_it_walks(device: Device, seconds: tuple[float, ...]) -> None:
    assert Guard(SleepyStopwatch(device, seconds)).rounds == 1024


def test_watching_ends_and_is_remembered(device: Device) -> None:
    guard = Guard(Stopwatch(device))
    guard.watch(0.03)

    assert guard.read() > 0
    assert guard.quiet_seconds > 0

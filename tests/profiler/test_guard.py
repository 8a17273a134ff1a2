"""The guard: what kernels would take on a quiet machine is found from readings on one that is not."""

import numpy as np
import pytest

from codl.devices.loads import prepare_sweep
from codl.devices.opencl import Device
from codl.devices.stopwatch import Stopwatch
from codl.profiler.guard import Calm, Guard, Reading, find_quiet


@pytest.fixture(scope="module")
def guard(device: Device) -> Guard:
    return Guard(Stopwatch(device))


def test_quiet_readings_stay_as_they_are() -> None:
    seconds, spread = find_quiet([Reading(2e-3, 1e-4)] * 9, 1e-4)

    assert seconds == pytest.approx(2e-3)
    assert spread == pytest.approx(0.0)


def test_disturbance_that_guards_see_is_taken_out() -> None:
    slowness = np.linspace(1.0, 1.6, 25)
    readings = [Reading(2e-3 * slow, 1e-4 * slow) for slow in slowness]

    seconds, spread = find_quiet(readings, 1e-4)

    assert seconds == pytest.approx(2e-3)
    assert spread < 1e-6


def test_few_interruptions_do_not_count() -> None:
    readings = [Reading(1e-3, 1e-4)] * 20 + [Reading(9e-3, 1e-4)] * 4

    assert find_quiet(readings, 1e-4)[0] == pytest.approx(1e-3)


def test_interrupted_guard_does_not_make_work_free() -> None:
    assert find_quiet([Reading(1e-3, 1.0)], 1e-4)[0] > 2e-4


def test_error_falls_with_more_readings() -> None:
    rng = np.random.default_rng(0)
    readings = [Reading(float(1e-3 * np.exp(noise)), 1e-4) for noise in rng.normal(0, 0.1, 400)]

    few, many = find_quiet(readings[:16], 1e-4)[1], find_quiet(readings, 1e-4)[1]

    assert many == pytest.approx(0.1 * 1.2533 / 20, rel=0.2)
    assert few > 2 * many


def test_quiet_is_what_the_guard_takes_at_its_best(guard: Guard) -> None:
    for _ in range(200):
        guard.relate(1e-9, 1e-3, 1e-9)

    assert guard.quiet_seconds == pytest.approx(1e-9)


def test_rounds_are_calm_where_most_guards_take_what_they_usually_do() -> None:
    calm = Calm()
    for _ in range(5):
        calm.add([Reading(1e-3, 1e-4)] * 10)

    quiet = calm.add([Reading(1e-3, 1e-4 * slowness) for slowness in (0.9, 1.0, 1.0, 1.05, 1.05, 1.9)])
    mixed = calm.add([Reading(1e-3, 1e-4 * slowness) for slowness in (0.9, 1.0, 1.0, 1.0, 1.4, 1.5)])

    assert calm.is_calm(quiet)
    assert not calm.is_calm(mixed)


def test_rounds_are_calm_where_cores_are_near_each_other() -> None:
    calm = Calm()
    near = [calm.add([Reading(1e-3, 1e-4)], [1e-5, 1.1e-5]) for _ in range(4)]
    far = [calm.add([Reading(1e-3, 1e-4)], [2e-5]) for _ in range(6)]

    assert all(map(calm.is_calm, near))
    assert not any(map(calm.is_calm, far))


def test_half_of_all_rounds_are_calm_on_any_machine() -> None:
    calm, rng = Calm(), np.random.default_rng(0)
    for _ in range(50):
        calm.add([Reading(1e-3, slow) for slow in 1e-4 * rng.uniform(1, 9, 20)])

    assert sum(map(calm.is_calm, range(50))) >= 25


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

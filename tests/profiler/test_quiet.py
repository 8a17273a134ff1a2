"""What would be read on a quiet machine is found from what was read on one that is not."""

import numpy as np
import pytest

from codl.profiler.quiet import Calm, Distance, Looks, Mood, Reading, find_quiet


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


def test_guards_that_scatter_are_judged_by_their_round() -> None:
    rng = np.random.default_rng(0)
    mood = Mood(guard_seconds=1.5e-4, upper_seconds=1.6e-4, crossing_seconds=0.0)
    guards = 1.5e-4 * np.exp(rng.normal(0, 0.1, 40))

    seconds, spread = find_quiet([Reading(3e-3, float(guard), mood) for guard in guards], 1e-4)

    assert seconds == pytest.approx(2e-3, rel=0.01)
    assert spread < 0.1 / 40**0.5 / 2


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_distance_of_cores_is_taken_out_as_far_as_it_slows(power: float) -> None:
    apart = np.linspace(1.0, 1.3, 24)
    moods = [Mood(guard_seconds=1e-4, upper_seconds=1e-4, crossing_seconds=4e-6 * ratio) for ratio in apart]
    readings = [Reading(1e-3 * ratio**power, 1e-4, mood) for ratio, mood in zip(apart, moods, strict=True)]

    assert find_quiet(readings, 1e-4, near_seconds=4e-6)[0] == pytest.approx(1e-3, rel=0.01)


def test_nothing_is_faster_with_cores_further_apart() -> None:
    moods = [Mood(guard_seconds=1e-4, upper_seconds=1e-4, crossing_seconds=one) for one in (4e-6, 5e-6) * 8]
    readings = [Reading(2e-3 - 2e2 * mood.crossing_seconds, 1e-4, mood) for mood in moods]

    assert find_quiet(readings, 1e-4, near_seconds=4e-6)[0] == pytest.approx(1.1e-3, rel=0.01)


def test_few_interruptions_do_not_count() -> None:
    readings = [Reading(1e-3, 1e-4)] * 20 + [Reading(9e-3, 1e-4)] * 4

    assert find_quiet(readings, 1e-4)[0] == pytest.approx(1e-3)


def test_interrupted_guard_does_not_make_work_free() -> None:
    assert find_quiet([Reading(1e-3, 1.0)], 1e-4)[0] > 2e-4


def test_error_falls_with_more_readings() -> None:
    rng = np.random.default_rng(0)
    readings = [Reading(float(1e-3 * np.exp(noise)), 1e-4) for noise in rng.normal(0, 0.1, 400)]

    few, many = find_quiet(readings[:16], 1e-4)[1], find_quiet(readings, 1e-4)[1]

    assert many == pytest.approx(0.1 * 1.05 / 20, rel=0.2)
    assert few > 2 * many


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
    near = [calm.add([Reading(1e-3, 1e-4)], Looks(crossings=[1e-5, 1.1e-5])) for _ in range(4)]
    far = [calm.add([Reading(1e-3, 1e-4)], Looks(crossings=[2e-5])) for _ in range(6)]

    assert all(map(calm.is_calm, near))
    assert not any(map(calm.is_calm, far))


def test_rounds_of_other_work_tell_how_near_cores_can_be() -> None:
    distance = Distance()
    distance.add([1e-5])
    calm = Calm(distance)
    far = [calm.add([Reading(1e-3, 2e-4)], Looks(crossings=[2e-5])) for _ in range(2)]
    near = calm.add([Reading(1e-3, 2e-4)], Looks(crossings=[1.1e-5]))

    assert calm.is_calm(near)
    assert not any(map(calm.is_calm, far))
    assert distance.near_seconds == calm.distance.near_seconds


def test_cores_that_were_nearer_before_are_far() -> None:
    calm = Calm()
    calm.distance.expected_seconds = 1e-5
    far = [calm.add([Reading(1e-3, 1e-4)], Looks(crossings=[2e-5])) for _ in range(4)]
    near = calm.add([Reading(1e-3, 1e-4)], Looks(crossings=[1.2e-5]))

    assert calm.is_calm(near)
    assert not any(map(calm.is_calm, far))


@pytest.mark.parametrize("is_met", [False, True])
def test_cores_are_near_by_this_session_where_they_never_are_by_another(is_met: bool) -> None:
    calm = Calm()
    calm.distance.expected_seconds = 1e-5
    for _ in range(is_met):
        calm.add([Reading(1e-3, 1e-4)], Looks(crossings=[1e-5]))
    far = [calm.add([Reading(1e-3, 1e-4)], Looks(crossings=[2e-5])) for _ in range(99)]
    assert not any(map(calm.is_calm, far))

    far += [calm.add([Reading(1e-3, 1e-4)], Looks(crossings=[2e-5])) for _ in range(101)]
    assert any(map(calm.is_calm, far)) != is_met


def test_rounds_are_calm_where_most_sweeps_take_what_they_usually_do() -> None:
    calm = Calm()
    usual = [calm.add([Reading(1e-3, 1e-4)], Looks(sweeps=[1e-4, 1.05e-4] * 200)) for _ in range(6)]
    lucky = calm.add([Reading(1e-3, 1e-4)], Looks(sweeps=[0.9e-4] * 200))
    disturbed = [calm.add([Reading(1e-3, 1e-4)], Looks(sweeps=[1.1e-4] * 200)) for _ in range(3)]

    assert all(map(calm.is_calm, [*usual, lucky]))
    assert not any(map(calm.is_calm, disturbed))


def test_few_sweeps_count_together_with_those_before() -> None:
    calm = Calm()
    calm.add([Reading(1e-3, 1e-4)], Looks(sweeps=[1e-4] * 200))

    few = calm.add([Reading(1e-3, 1e-4)], Looks(sweeps=[3e-4] * 8))
    many = calm.add([Reading(1e-3, 1e-4)], Looks(sweeps=[3e-4] * 200))

    assert few.sweep_seconds == pytest.approx(1e-4)
    assert many.sweep_seconds == pytest.approx(3e-4)


def test_guards_beside_other_work_do_not_tell_what_is_usual() -> None:
    before = Calm()
    before.add([Reading(1e-3, 1e-4)])
    calm = Calm(before.distance)

    assert calm.is_calm(calm.add([Reading(1e-3, 2e-4)]))


def test_half_of_all_rounds_are_calm_on_any_machine() -> None:
    calm, rng = Calm(), np.random.default_rng(0)
    moods = [calm.add([Reading(1e-3, slow) for slow in 1e-4 * rng.uniform(1, 9, 20)]) for _ in range(50)]

    assert sum(map(calm.is_calm, moods)) >= 25

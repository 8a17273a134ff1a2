"""Cases taken in turn: what nobody saw the machine calm beside is left out where that is asked for."""

from collections.abc import Iterator, Sequence
from itertools import islice

import pytest

from codl.catalog.spec import can_steal
from codl.devices.opencl import Device
from codl.latency.profile import COMPUTE
from codl.profiler.guard import Guard, Play
from codl.profiler.quiet import Calm, Mood, Reading
from codl.profiler.survey import CROSSING, LEAST_ROUNDS, Survey, Task
from codl.profiler.workload import iterate_row, share_out
from tests.profiler.layers import small_layers

COUNT = 3


@pytest.fixture(scope="module")
def survey(device: Device) -> Survey:
    return Survey(device)


def list_tasks(device: Device) -> Iterator[Task]:
    work = next(work for work in share_out(small_layers(), device.info) if "unary" in work.row.name)
    return (Task(case=case) for case in islice(iterate_row(work, device.info), COUNT))


def test_every_case_is_measured(survey: Survey, device: Device) -> None:
    samples = list(survey.measure(list_tasks(device)))

    assert len({sample.key for sample in samples}) == COUNT
    assert all(sample.rounds >= LEAST_ROUNDS for sample in samples)
    assert all(min(sample.ratios.values()) > 0 for sample in samples)


def test_plays_take_places_in_turn(survey: Survey, device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[Play] = []

    def surround(guard: Guard, plays: Sequence[Play]) -> Reading:
        played.extend(plays)
        return Reading(1e-6, 1e-4)

    monkeypatch.setattr(Guard, "surround", surround)
    prepared = survey.prepare(next(list_tasks(device)).case)
    for _ in range(4):
        prepared.read(survey.guard)
    prepared.run()  # short ones play more often from here on
    for _ in range(4):
        prepared.read(survey.guard)

    places = [id(play) for play in played]
    assert len(set(places)) == 4
    assert places == [places[turn % 4] for turn in range(len(places))]


def test_watching_tells_how_near_cores_are_where_there_are_several(survey: Survey, device: Device) -> None:
    survey.watch(0.1)

    assert (survey.distance.near_seconds > 0) == can_steal(device.info)


def test_nearest_cores_of_earlier_sessions_are_known(device: Device) -> None:
    survey = Survey(device)
    survey.expect([{COMPUTE: 100.0}, {COMPUTE: 100.0, CROSSING: 1e-3}, {COMPUTE: 100.0, CROSSING: 9e3}])
    survey.watch(0.1)

    expected = {CROSSING: pytest.approx(1e-5 * survey.quiet_us()[COMPUTE], rel=0.5)}
    assert survey.near_us() == (expected if can_steal(device.info) else {})


def test_what_was_never_calm_is_left_out_on_request(
    survey: Survey, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Calm, "is_calm", lambda calm, mood: False)

    assert not list(survey.measure(list_tasks(device), only_calm=True))
    assert len(list(survey.measure(list_tasks(device)))) == COUNT


def test_disturbed_readings_do_not_count(
    survey: Survey, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers: dict[int, int] = {}

    def is_odd(calm: Calm, mood: Mood) -> bool:
        return numbers.setdefault(id(mood), len(numbers)) % 2 == 1

    monkeypatch.setattr(Calm, "is_calm", is_odd)

    samples = list(survey.measure(list_tasks(device)))

    assert len(samples) == COUNT
    assert all(sample.rounds >= 2 * LEAST_ROUNDS for sample in samples)

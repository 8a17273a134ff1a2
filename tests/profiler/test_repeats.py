"""What is measured once more: some of all, and what did not settle, each once in a session."""

import json
from dataclasses import replace
from itertools import count, islice

import pytest

from codl.profiler.log import Sample
from codl.profiler.repeats import Repeats
from codl.profiler.survey import SETTLED, Task
from codl.profiler.workload import iterate_row, share_out
from tests.catalog.nodes import device_info
from tests.profiler.layers import small_layers
from tests.profiler.test_log import sample

INFO = device_info(8)
WORK = next(work for work in share_out(small_layers(), INFO) if work.row.name == "pool2d_direct__buffer")
CASES = list(islice(iterate_row(WORK, INFO), 100))
NEW = Task(case=next(iterate_row(WORK, INFO, seed=1)))
NOW = 1e6


def take(number: int, *, spread: float = 0.01, at: float = 0.0) -> Sample:
    """Return a sample of one of the cases."""
    case = CASES[number]
    return replace(
        sample(case.key),
        row=WORK.row.name,
        layer=json.loads(case.layer.key),
        parameters=dict(case.selection.parameters),
        begin=case.region.begin,
        end=case.region.end,
        spread=spread,
        at=at,
    )


def mix(samples: list[Sample], tasks: int) -> list[Task]:
    """Return what is measured beside so many new cases."""
    repeats = Repeats([WORK], samples, apart_seconds=60.0)
    return [task for task in repeats.mix(NEW for _ in range(tasks)) if task is not NEW]


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: NOW)


def test_one_of_eight_cases_is_measured_again() -> None:
    samples = [take(number, at=float(number)) for number in range(5)]

    again = mix(samples, 80)

    assert {task.case.key: task.repeat_of for task in again} == {one.key: one.at for one in samples}
    assert len(again) == 5
    assert len(mix(samples, 24)) == 3


def test_what_did_not_settle_is_measured_once_more() -> None:
    samples = [take(0, spread=0.1), take(1, spread=0.1), take(1, spread=0.1), take(2, spread=SETTLED)]

    retried = [task for task in mix(samples, 80) if task.repeat_of is None]

    assert [task.case.key for task in retried] == [samples[0].key, samples[1].key]


def test_what_settled_at_last_is_not_measured_once_more() -> None:
    samples = [take(0, spread=0.1), take(0, spread=SETTLED)]

    assert [task for task in mix(samples, 80) if task.repeat_of is None] == []


def test_two_times_of_a_case_lie_apart() -> None:
    assert mix([take(0, spread=0.1, at=NOW - 59.0)], 80) == []


def test_what_others_measure_is_not_measured_again() -> None:
    assert mix([replace(take(0, spread=0.1), row="gemm_plain__buffer")], 80) == []


def test_samples_join_while_a_session_goes_on() -> None:
    samples: list[Sample] = []
    repeats = Repeats([WORK], samples, apart_seconds=60.0)
    mixed = repeats.mix(NEW for _ in count())

    assert [next(mixed) for _ in range(16)] == [NEW] * 16
    samples.append(take(0))
    assert [task.case.key for task in islice(mixed, 9) if task is not NEW] == [samples[0].key]

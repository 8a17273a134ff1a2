"""Bounds and pruning against recorded measurements: every candidate of five shapes, on both drivers.

Recorded on one core of a Zen 5 each, with the loops and references of that day (`codl tune` without pruning).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from codl.catalog.spec import Selection
from codl.catalog.table import IMPLEMENTATIONS
from codl.devices.timing import Ratio
from codl.tuner.measurement import Measurement, read_measurement
from codl.tuner.search import Final, SearchResult, search

DATA = Path(__file__).parents[1] / "data"
ROWS = {row.name: row for row in IMPLEMENTATIONS}
DRIVERS = ("intel",)


def read(driver: str) -> Iterator[Measurement]:
    for line in (DATA / f"tuning_{driver}.jsonl").read_text().splitlines():
        measurement = read_measurement(json.loads(line))
        assert measurement is not None
        yield measurement


class RecordedJudge:
    """Answers with what was recorded for one shape; a first one is the default of that day."""

    def __init__(self, measurements: Sequence[Measurement]) -> None:
        quick = [one for one in measurements if one.stage == "quick"]
        self.candidates = [
            Selection(implementation=ROWS[one.implementation], parameters=one.parameters) for one in quick
        ]
        self.times = {one.candidate: one.ratio for one in quick if one.ratio}
        self.bounds = {one.candidate: one.bound_ratio for one in quick if one.bound_ratio}

    def prepare(self, selections: Sequence[Selection]) -> None:
        """Nothing is to be learned."""

    def bound(self, selection: Selection, *, is_rough: bool = False) -> float:
        return self.bounds[str(selection)]

    def count_wins(self, selection: Selection) -> int:
        return 0

    def try_out(self, selections: Sequence[Selection]) -> Mapping[str, float]:
        return {str(one): self.times[str(one)] for one in selections}

    def compare(self, selections: Sequence[Selection]) -> Mapping[str, Final]:
        anchor = self.times[str(selections[0])]
        return {
            name: Final(ratio=time, to_anchor=Ratio(median=time / anchor, low=0.0, high=time / anchor))
            for name, time in self.try_out(selections).items()
        }

    def find_error(self, selection: Selection) -> float:
        return 0.0


def replay(measurements: Sequence[Measurement]) -> tuple[RecordedJudge, SearchResult]:
    judge = RecordedJudge(measurements)
    return judge, search(judge, judge.candidates, default=judge.candidates[0])


def shapes(driver: str) -> list[list[Measurement]]:
    """Return the measurements of each shape."""
    found: dict[str, list[Measurement]] = {}
    for measurement in read(driver):
        found.setdefault(measurement.shape, []).append(measurement)
    return list(found.values())


@pytest.mark.parametrize("driver", DRIVERS)
def test_no_measurement_passes_its_bound(driver: str) -> None:
    passed = [
        (one.shape, one.candidate, one.stage, one.bound_ratio, one.ratio)
        for one in read(driver)
        if one.ratio is not None and one.bound_ratio is not None and one.ratio < one.bound_ratio
    ]

    assert passed == []


@pytest.mark.parametrize("driver", DRIVERS)
def test_bounds_are_not_far_from_the_best(driver: str) -> None:
    for measurements in shapes(driver):
        best = min(measurements, key=lambda one: one.ratio or float("inf"))
        assert best.ratio is not None
        assert best.bound_ratio is not None
        assert best.bound_ratio > 0.5 * best.ratio, best.shape


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_pruned_search_is_as_good_as_measuring_everything(driver: str) -> None:
    recorded = shapes(driver)
    assert len(recorded) == 5
    measured = candidates = 0
    for measurements in recorded:
        judge, found = replay(measurements)
        assert found.ratio <= 1.02 * min(judge.times.values()), measurements[0].shape
        measured, candidates = measured + found.measured, candidates + found.candidates

    assert measured <= 0.25 * candidates

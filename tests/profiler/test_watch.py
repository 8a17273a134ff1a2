"""Readings between guards: by how much a machine was disturbed, it would have been shorter."""

from collections.abc import Sequence

import pytest

from codl.profiler.watch import LEAST_ROUNDS, Watch


class FakeGuard:
    """Reads what it is told to."""

    quiet_seconds = 2.0

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def read(self) -> float:
        return self._seconds


def watch(*seconds: float) -> Watch:
    return Watch([FakeGuard(each) for each in seconds])  # type: ignore[misc]


def play() -> Sequence[float]:
    return 6.0, 3.0


def test_quiet_readings_are_what_they_are() -> None:
    assert watch(2.0, 2.0).measure({"row": play}, patience_seconds=0)["row"] == pytest.approx((6.0, 3.0))


def test_disturbed_readings_count_for_less() -> None:
    total, part = watch(2.0, 4.0).measure({"row": play}, patience_seconds=0)["row"]

    assert 3.0 < total < 6.0
    assert part == pytest.approx(total / 2)


def test_what_comes_before_is_done_before_each_reading() -> None:
    done: list[str] = []

    def row() -> tuple[float]:
        done.append("row")
        return (1.0,)

    watch(2.0).measure({"row": row}, patience_seconds=0, prepare=lambda: done.append("before"))

    assert done == ["before", "row"] * LEAST_ROUNDS

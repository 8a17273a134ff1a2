"""Readings between guards: by how much a machine was disturbed, it would have been shorter."""

import pytest

from codl.devices.script import Played
from codl.profiler.quiet import Distance, Looks
from codl.profiler.watch import LEAST_ROUNDS, Watch


class FakeGuard:
    """Reads what it is told to."""

    quiet_seconds = 2.0

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def read(self) -> float:
        return self._seconds


class FakeMemory:
    """Is disturbed now and then."""

    def __init__(self, sweeps: list[float]) -> None:
        self.distance = Distance()
        self._sweeps = iter(sweeps)

    def look(self, count: int) -> Looks:
        return Looks(sweeps=[next(self._sweeps)] * 200 * count)


def watch(*seconds: float) -> Watch:
    return Watch([FakeGuard(each) for each in seconds])  # type: ignore[misc]


def play_both() -> Played:
    return Played(10.0, (6.0, 3.0))


def test_quiet_readings_are_what_they_are() -> None:
    taken = watch(2.0, 2.0).measure({"row": play_both}, patience_seconds=0)["row"]

    assert taken.busy == pytest.approx((6.0, 3.0))
    assert taken.total == pytest.approx(10.0)
    assert taken.rest == pytest.approx(4.0)


def test_kernels_of_a_disturbed_device_count_for_less() -> None:
    taken = watch(2.0, 4.0).measure({"row": play_both}, patience_seconds=0)["row"]

    assert taken.busy[0] == pytest.approx(6.0)
    assert 1.5 <= taken.busy[1] < 3.0
    assert taken.rest == pytest.approx(4.0)


def test_rare_long_waits_count_for_nothing() -> None:
    totals = iter([8.0, 30.0, 8.0, 8.0] * LEAST_ROUNDS)

    taken = watch(2.0).measure({"row": lambda: Played(next(totals), (6.0,))}, patience_seconds=0)["row"]

    assert taken.rest == pytest.approx(2.0)


def test_what_comes_before_is_done_before_each_reading() -> None:
    done: list[str] = []

    def row() -> Played:
        done.append("row")
        return Played(1.0, (1.0,))

    watch(2.0).measure({"row": row}, patience_seconds=0, prepare=lambda: done.append("before"))

    assert done == ["before", "row"] * LEAST_ROUNDS


def test_rounds_count_in_which_the_memory_of_all_devices_was_calm() -> None:
    slow = LEAST_ROUNDS // 2
    taken = iter([9.0] * slow + [6.0] * (2 * LEAST_ROUNDS - slow))
    memory = FakeMemory([2.0] * slow + [1.0] * (2 * LEAST_ROUNDS - slow))

    def row() -> Played:
        seconds = next(taken)
        return Played(seconds, (seconds,))

    found = Watch([FakeGuard(2.0)], [memory]).measure({"row": row}, patience_seconds=60)["row"]  # type: ignore[list-item]

    assert found.busy == pytest.approx((6.0,))
    assert len(list(taken)) == 0


def test_all_rounds_count_where_none_was_calm() -> None:
    memory = FakeMemory([1.0] * LEAST_ROUNDS)
    memory.distance.expected_seconds = memory.distance.near_seconds = -1.0

    found = Watch([FakeGuard(2.0)], [memory]).measure(  # type: ignore[list-item]
        {"row": lambda: Played(6.0, (6.0,))}, patience_seconds=0
    )["row"]

    assert found.busy == pytest.approx((6.0,))

"""The measurement loop, with rows that only pretend to take time."""

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from codl.devices import timing
from codl.devices.timing import Rounds, Sampler, interleave, lead_in, repeat_row, rest, summarise_ratios


def constant(seconds: float, log: list[str] | None = None, name: str = "") -> Callable[[], float]:
    def run() -> float:
        if log is not None:
            log.append(name)
        return seconds

    return run


class FakeClock:
    """A process with one thread that works for a while and one that sleeps."""

    def __init__(self, *, busy_seconds: float) -> None:
        self._now, self._busy_seconds = 0.0, busy_seconds

    def sleep(self, seconds: float) -> None:
        self._now += seconds

    def perf_counter(self) -> float:
        return self._now

    def process_time(self) -> float:
        return min(self._now, self._busy_seconds)


def test_stops_early_when_the_ratio_is_known() -> None:
    rounds = interleave({"a": constant(2.0), "b": constant(1.0)}, watch=[("a", "b")], least_rounds=10)

    assert rounds.count == 10
    assert rounds.ratio("a", "b").median == 2.0


def test_goes_on_while_the_ratio_is_unsure() -> None:
    generator = np.random.default_rng(1)

    rounds = interleave(
        {"a": lambda: float(generator.uniform(1, 9)), "b": constant(1.0)}, watch=[("a", "b")], most_rounds=40
    )

    assert rounds.count == 40


def test_stops_when_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    fake = SimpleNamespace(perf_counter=lambda: float(next(clock)))
    monkeypatch.setattr(timing, "time", fake)
    monkeypatch.setattr(timing, "rest", lambda _: None)

    assert interleave({"a": constant(1.0)}, most_seconds=3).count == 3


def test_rests_until_the_process_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(busy_seconds=0.055)
    monkeypatch.setattr(timing, "time", clock)

    rest(0.01)

    assert 0.055 < clock.perf_counter() < 0.1


def test_rests_no_longer_than_it_should_where_threads_never_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(busy_seconds=1e9)
    monkeypatch.setattr(timing, "time", clock)

    rest(0.01)

    assert clock.perf_counter() < 0.3


def test_a_pause_of_nothing_looks_at_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(busy_seconds=1e9)
    monkeypatch.setattr(timing, "time", clock)

    rest(0.0)

    assert clock.perf_counter() == 0.0


@pytest.mark.parametrize(("seconds", "runs"), [(0.009, 5), (0.3, 1)])
def test_runs_on_its_own_before_what_is_timed(
    monkeypatch: pytest.MonkeyPatch, seconds: float, runs: int
) -> None:
    clock, untimed = FakeClock(busy_seconds=0.0), []
    monkeypatch.setattr(timing, "time", clock)

    def run() -> float:
        clock.sleep(seconds)
        untimed.append(clock.perf_counter())
        return clock.perf_counter()

    assert lead_in(run)() == pytest.approx((runs + 1) * seconds)
    assert len(untimed) == runs + 1


def test_takes_the_rounds_it_must_when_time_is_up() -> None:
    rounds = interleave({"a": constant(1.0)}, most_seconds=0.0, sure_rounds=4, pause_seconds=0.0)

    assert rounds.count == 4


def test_takes_one_round_whatever_the_limit() -> None:
    assert interleave({"a": constant(1.0)}, most_seconds=0, warmup=0).count == 1


def test_order_rotates_and_turns_from_round_to_round() -> None:
    log: list[str] = []
    rows = {name: constant(1.0, log, name) for name in "abc"}

    interleave(rows, most_rounds=3, warmup=0)

    assert "".join(log) == "abcacbcab"


def test_warmup_rounds_do_not_count() -> None:
    times = iter([100.0, 1.0, 1.0])

    assert interleave({"a": lambda: next(times)}, warmup=1, most_rounds=2).median("a") == 1.0


def test_control_times_a_row_twice() -> None:
    rounds = interleave({"a": constant(1.0), "b": constant(2.0)}, control="b", most_rounds=4)

    assert rounds.ratio("b", "b#2").median == 1.0


def test_ratio_of_several_rows_counts_the_slowest_of_each_round() -> None:
    rounds = Rounds(seconds={"a": np.array([1.0, 4.0]), "b": np.array([2.0, 3.0]), "c": np.array([2.0, 2.0])})

    assert rounds.ratio(("a", "b"), "c").median == 1.5


def test_ratio_survives_a_machine_that_slows_down() -> None:
    drift = np.linspace(1, 3, 50)
    rounds = Rounds(seconds={"a": 2 * drift, "b": drift})

    ratio = rounds.ratio("a", "b")

    assert (ratio.low, ratio.median, ratio.high) == (2.0, 2.0, 2.0)


def test_interval_covers_the_median_nine_times_in_ten() -> None:
    generator = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        ratio = summarise_ratios(generator.lognormal(0.0, 0.3, size=31))
        covered += ratio.low <= 1.0 <= ratio.high

    assert 0.84 <= covered / 200 <= 0.97


def test_percentiles_and_medians_are_those_of_numpy() -> None:
    rounds = Rounds(seconds={"a": np.arange(11.0)})

    assert rounds.median("a") == 5.0
    assert rounds.percentile("a", 90) == 9.0
    assert rounds.count == 11


def test_sampler_interleaves_references_and_remembers_their_quiet_time() -> None:
    times = iter(np.tile([5.0, 1.0, 3.0, 2.0, 4.0], 20))
    sampler = Sampler({"reference": lambda _: float(next(times))})

    first = sampler.take({"a": constant(6.0)}, most_rounds=5, warmup=0, pause_seconds=0.0)
    sampler.take({"b": constant(1.0)}, most_rounds=5, warmup=0, pause_seconds=0.0)

    assert first.ratio("a", "reference").median == 2.0
    assert sampler.quiet_seconds("reference") == pytest.approx(1.0)


def test_references_run_as_long_as_what_they_are_compared_with(monkeypatch: pytest.MonkeyPatch) -> None:
    times, clock = iter([1.0, 3.0, 4.0, 2.0, 2.0, 5.0]), [0.0]
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: clock[0]))

    def run() -> float:
        seconds = next(times)
        clock[0] += seconds
        return 10.0 * seconds  # told for more work than a launch does

    taken = Sampler({"reference": repeat_row(run)}).take(
        {"a": constant(8.0)}, seconds=7.0, most_rounds=2, warmup=0, pause_seconds=0.0
    )

    assert taken.seconds["reference"].tolist() == [80.0 / 3.0, 30.0]


def test_only_the_references_asked_for_run() -> None:
    sampler = Sampler({"near": lambda _: 1.0, "far": lambda _: 2.0})

    taken = sampler.take({"a": constant(8.0)}, references={"far"}, most_rounds=2, warmup=0, pause_seconds=0.0)

    assert set(taken.seconds) == {"a", "far"}
    assert sampler.quiet_seconds("far") == 2.0


def test_rounds_settle_when_the_fastest_agree() -> None:
    whole, torn = np.array([1.0, 9.0, 1.01, 5.0, 1.02]), np.array([1.0, 9.0, 1.5, 5.0, 7.0])

    assert Rounds(seconds={"a": whole}).is_settled
    assert not Rounds(seconds={"a": whole, "b": torn}).is_settled
    assert not Rounds(seconds={"a": whole[:2]}).is_settled


def test_settled_ratio_is_that_of_the_rounds_nobody_disturbed() -> None:
    rounds = Rounds(
        seconds={"a": np.array([2.0, 9.0, 2.0, 8.0, 2.0]), "b": np.array([7.0, 1.0, 1.0, 6.0, 1.0])}
    )

    assert rounds.settled_ratio("a", "b") == 2.0


def test_settled_ratio_of_three_rounds_is_that_of_the_fastest() -> None:
    rounds = Rounds(seconds={"a": np.array([2.0, 2.0, 3.0]), "b": np.array([1.9, 1.0, 1.8])})

    assert rounds.settled_ratio("a", "b") == 2.0


def test_stops_when_settled_if_that_is_all_that_is_wanted() -> None:
    rows = {"a": constant(1.0)}

    assert interleave(rows, least_rounds=5, until_settled=True, pause_seconds=0.0).count == 5
    assert interleave(rows, least_rounds=5, most_rounds=12, pause_seconds=0.0).count == 12

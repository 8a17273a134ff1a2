"""Whichever side is faster wins its trial."""

import pytest

from codl.session.trial import Trial


def decide(host: float, plan: float) -> tuple[bool, int]:
    """Return whether ONNX Runtime wins where runs take so long, and after how many runs."""
    trial = Trial()
    for runs in range(1, 1000):
        trial.note(host if trial.is_host_next else plan)
        winner = trial.find_winner()
        if winner is not None:
            return winner, runs
    raise AssertionError("undecided")


@pytest.mark.parametrize(("host", "plan", "is_host"), [(1.0, 3.0, True), (3.0, 1.0, False)])
def test_clear_cases_are_decided_soon(host: float, plan: float, is_host: bool) -> None:
    assert decide(host, plan) == (is_host, 16)


@pytest.mark.parametrize(("host", "plan", "is_host"), [(1.0, 1.05, True), (1.05, 1.0, False)])
def test_close_cases_take_more_runs(host: float, plan: float, is_host: bool) -> None:
    assert decide(host, plan) == (is_host, 40)


def test_the_plan_wins_a_tie() -> None:
    assert decide(1.0, 1.01) == (False, 40)


def test_the_first_run_of_each_turn_does_not_count() -> None:
    trial = Trial()
    for runs in range(16):
        trial.note(100.0 if runs % 4 == 0 else 1.0)

    assert trial.ratio == 1.0

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codl.errors import PlanError
from codl.partitioner.even import plan_even, plan_single, share_bounds
from codl.plan.check import find_problems
from codl.plan.steps import Chain, Run
from tests.graphs import residual_block

GRAPH = residual_block()


@pytest.mark.parametrize(("length", "steps"), [(1, 4), (2, 2), (3, 2), (4, 1), (8, 1)])
def test_chains_are_as_long_as_allowed(length: int, steps: int) -> None:
    plan = plan_even(GRAPH, devices=("left", "right"), max_chain_length=length)
    assert len(plan.steps) == steps
    assert list(find_problems(plan, GRAPH)) == []


def test_axis_that_is_wanted_first_is_cut() -> None:
    plan = plan_even(GRAPH, devices=("left", "right"), axes=(1, 2), max_chain_length=1)
    assert {step.axis for step in plan.steps if isinstance(step, Chain)} == {1}


def test_single_runs_everything_on_one_device() -> None:
    plan = plan_single(GRAPH, device="left")
    assert [step.device for step in plan.steps if isinstance(step, Run)] == ["left"] * 4


@pytest.mark.parametrize("ratios", [(0.5,), (0.5, 0.6), (-0.5, 1.5)])
def test_ratios_that_are_no_shares_are_refused(ratios: tuple[float, ...]) -> None:
    with pytest.raises(PlanError, match="ratios"):
        plan_even(GRAPH, devices=("left", "right"), ratios=ratios)


@given(length=st.integers(1, 500), weights=st.lists(st.integers(0, 9), min_size=1, max_size=4).filter(any))
def test_bounds_cover_the_axis_and_rise(length: int, weights: list[int]) -> None:
    bounds = share_bounds(length, [weight / sum(weights) for weight in weights])
    assert bounds[0] == 0
    assert bounds[-1] == length
    assert list(bounds) == sorted(bounds)
    assert len(bounds) == len(weights) + 1

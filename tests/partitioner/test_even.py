import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codl.errors import PlanError
from codl.ir.graph import Graph, Node, Tensor
from codl.ir.ops import Conv2d
from codl.partitioner.even import plan_even, share_bounds
from codl.plan.check import find_problems
from codl.plan.single import plan_single
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


@pytest.mark.parametrize(("channels", "tile", "steps"), [(16, 1, 1), (256, 1, 4), (16, 4, 1), (96, 4, 4)])
def test_chain_ends_where_halos_cost_more_than_a_meeting(channels: int, tile: int, steps: int) -> None:
    graph = window_chain(channels, tile=tile, length=4)
    plan = plan_even(graph, devices=("left", "right"))
    assert len(plan.steps) == steps
    assert list(find_problems(plan, graph)) == []


def window_chain(channels: int, *, tile: int, length: int) -> Graph:
    """Return 3 x 3 convolutions of 56 x 56 pixels, one after the other."""
    shape, names = (1, channels, 56, 56), [f"t{index}" for index in range(length + 1)]
    op = Conv2d(kernel=(3, 3), pads=(1, 1, 1, 1), has_bias=False, tile=(tile, tile))
    weight = np.zeros((channels, channels, 3, 3), np.float32)
    return Graph(
        name="windows",
        nodes=tuple(
            Node(name=f"conv{index}", op=op, inputs=(names[index], "w"), output=names[index + 1])
            for index in range(length)
        ),
        inputs=(names[0],),
        outputs=(names[-1],),
        tensors={
            **{name: Tensor(name=name, shape=shape) for name in names},
            "w": Tensor(name="w", shape=weight.shape),
        },
        constants={"w": weight},
    )

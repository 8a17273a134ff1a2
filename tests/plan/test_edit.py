"""Plans changed by hand stay sound, whatever is changed, or nothing is."""

import pytest

from codl.errors import PlanError
from codl.frontend import load_graph
from codl.ir.graph import Graph
from codl.partitioner.even import plan_even
from codl.plan.check import check_plan
from codl.plan.edit import Change, change_plan, parse_change
from codl.plan.residency import step_nodes
from codl.plan.single import plan_single
from codl.plan.steps import Chain, Run
from tests.graphs import host_between, residual_block
from tools.networks import build

NAMES = ("left", "right")
GRAPH = residual_block(height=64)
WHOLE = plan_even(GRAPH, devices=NAMES, max_chain_length=8)


@pytest.fixture(scope="module")
def branching() -> Graph:
    return load_graph(build("resnet50", size=64, width=0.25).SerializeToString())


def test_operator_leaves_its_chain_for_a_device() -> None:
    changed = change_plan(WHOLE, GRAPH, [parse_change("conv_b=right", WHOLE, GRAPH)])

    assert [step_nodes(step) for step in changed.steps] == [("conv_a",), ("conv_b",), ("conv_c", "pool")]
    assert isinstance(changed.steps[1], Run)
    assert changed.steps[1].device == "right"
    assert isinstance(changed.steps[2], Chain)
    assert changed.steps[2].cuts == WHOLE.steps[0].cuts  # type: ignore[union-attr]


def test_a_part_of_a_device_is_no_cut() -> None:
    plan = plan_even(GRAPH, devices=("pocl-cpu", "nvidia-gpu:8"), max_chain_length=8)

    assert parse_change("conv_b=nvidia-gpu:8", plan, GRAPH) == Change(node="conv_b", device="nvidia-gpu:8")
    with pytest.raises(PlanError, match=r"got 'nvidia-gpu:4', expected one of .*'nvidia-gpu:8'"):
        parse_change("conv_b=nvidia-gpu:4", plan, GRAPH)


@pytest.mark.parametrize(
    ("text", "axis", "bounds"),
    [("conv_b=H:20", 2, (0, 20, 64)), ("conv_b=OC:0.25", 1, (0, 2, 8)), ("conv_b=2:64", 2, (0, 64, 64))],
    ids=["height", "share_of_channels", "number_of_axis"],
)
def test_operator_is_cut_elsewhere(text: str, axis: int, bounds: tuple[int, ...]) -> None:
    changed = change_plan(WHOLE, GRAPH, [parse_change(text, WHOLE, GRAPH)])

    step = changed.steps[1]
    assert isinstance(step, Chain)
    assert (step.axis, step.cuts[0].bounds) == (axis, bounds)


def test_every_operator_of_a_branching_network_can_be_changed(branching: Graph) -> None:
    plan = plan_even(branching, devices=NAMES, max_chain_length=8)

    for node in branching.nodes:
        changed = change_plan(plan, branching, [Change(node=node.name, device="left")])

        check_plan(changed, branching)
    assert any(isinstance(step, Chain) and len(step.nodes) > 3 for step in plan.steps)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("conv_b", "NODE=DEVICE"),
        ("conv_x=left", "conv_x"),
        ("conv_b=middle", "middle"),
        ("conv_b=D:3", "'D'"),
        ("conv_b=H:nan", "nan"),
        ("conv_b=H:-1", "-1"),
        ("conv_b=H:65", "65"),
        ("conv_b=H:1,2", "1 numbers"),
        ("conv_b=H:1.5", "1.5"),
    ],
)
def test_what_cannot_be_is_refused_in_words(text: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        change_plan(WHOLE, GRAPH, [parse_change(text, WHOLE, GRAPH)])


def test_host_call_cannot_be_given_to_a_device() -> None:
    graph = host_between()
    plan = plan_single(graph, device="left", devices=NAMES)

    with pytest.raises(PlanError, match="host"):
        change_plan(plan, graph, [Change(node="top", device="right")])

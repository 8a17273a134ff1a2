"""Operators that the executor computes in one launch are priced as one launch, and sought as one."""

from functools import cache

import pytest

from codl.executor.fusions import find_fusions
from codl.frontend import load_model
from codl.ir.boxes import Boxes
from codl.ir.graph import Graph, Node
from codl.ir.ops import Concat
from codl.partitioner.even import plan_even
from codl.partitioner.planner import Planner
from codl.partitioner.search import Method
from codl.plan.pairs import find_pairs
from codl.plan.schedule import make_schedule
from codl.plan.sharing import Sharing
from codl.plan.single import plan_single
from codl.plan.steps import Plan, Run
from codl.simulator.fused import FusedLaunches
from codl.simulator.simulate import price_plan
from tests.arrangements import arrange_alike
from tests.graphs import residual_block
from tests.partitioner.searching import estimate_us, list_cuts, price_us
from tests.simulator.profiles import make_predictors, teach_pairs
from tools.networks import build

DEVICES = ("left", "right")
PREDICTORS = make_predictors(meeting_us=5.0)
ALONE, BESIDE = (arrange_alike(Sharing.COHERENT, count) for count in (1, 2))
NETWORKS = ("yolov2", "mobilenet_v2")
"""Maxima behind convolutions; depthwise convolutions before others."""


@cache
def load(name: str) -> Graph:
    """Return a small network."""
    return load_model(build(name, size=64).SerializeToString()).graph


def find_riders(graph: Graph, pairs: FusedLaunches) -> set[str]:
    """Return the names of all but one of what a device computes at once."""
    schedule = make_schedule(graph, plan_single(graph, device="left"), ALONE)
    groups = [
        [graph.nodes_by_name[launch.node] for launch in (last, *firsts)]
        for last, (firsts, _) in find_pairs(graph, schedule, pairs.list_choices).items()
    ]
    return {node.name for nodes in groups for node in nodes if node is not pairs.find_main(nodes[::-1])}


def make_plans(graph: Graph) -> dict[str, Plan]:
    planner = Planner(graph=graph, predictors=PREDICTORS, arrangement=BESIDE)
    return {
        "one device": plan_single(graph, device="right", devices=DEVICES),
        "chains": plan_even(graph, devices=DEVICES, max_chain_length=8),
        "each alone": plan_even(graph, devices=DEVICES, max_chain_length=1),
        "dynamic": planner.plan(Method.DYNAMIC),
    }


@pytest.mark.parametrize("name", NETWORKS)
def test_pairs_of_a_schedule_are_those_that_the_executor_fuses(name: str) -> None:
    graph, infos = load(name), [one.info for one in PREDICTORS]
    pairs = FusedLaunches(graph, PREDICTORS)

    counts = {}
    for case, plan in make_plans(graph).items():
        schedule = make_schedule(graph, plan, BESIDE)
        found = find_pairs(graph, schedule, pairs.list_choices)
        fused = find_fusions(graph, schedule, infos)
        assert {key: first for key, (first, _) in found.items()} == {
            key: first for key, (first, _) in fused.items()
        }
        counts[case] = len(fused)
    assert counts["one device"] > 0
    assert counts["each alone"] == 0


@pytest.mark.parametrize("name", NETWORKS)
def test_one_device_saves_a_launch_and_the_traffic_of_each_rider(name: str) -> None:
    graph, (predictor, _) = load(name), PREDICTORS
    pairs = FusedLaunches(graph, [predictor])
    riders = find_riders(graph, pairs)

    priced = price_plan(plan_single(graph, device="left"), graph, [predictor], ALONE)

    expected = predictor.profile.wait_us
    for node in graph.nodes:
        if isinstance(node.op, Concat):  # its inputs lie where it does
            continue
        found = predictor.predict(node, graph, Boxes.whole(graph.shape(node.output), 1))
        us, share = float(found.us[0]), float(found.memory_share[0])
        rest = max(us * (1 - share) - predictor.profile.launch_us, 0.0)
        expected += rest if node.name in riders else us
    assert riders
    assert priced.predicted_us == pytest.approx(expected)


@pytest.mark.parametrize("name", NETWORKS)
def test_estimates_know_of_pairs(name: str) -> None:
    predictors = make_predictors(meeting_us=1.0)  # kernels are what the estimate is about
    planner = Planner(graph=load(name), predictors=predictors, arrangement=BESIDE)

    (first, *_) = planner.search.find_choices(Method.DYNAMIC, 1)

    assert estimate_us(planner.search, first) == pytest.approx(price_us(planner, first), rel=0.02)


def test_pairs_that_a_profile_knows_to_be_slow_are_sought_apart() -> None:
    graph, predictors = load("yolov2"), [teach_pairs(one) for one in PREDICTORS]
    planner = Planner(graph=graph, predictors=predictors, arrangement=BESIDE)
    first, last = FusedLaunches(graph, predictors).groups[0].nodes

    (single, pair, *_) = list_cuts(planner.search, graph.positions[first.name])

    behind = list_cuts(planner.search, graph.positions[last.name])[0]
    assert (pair.span_us > 1.5 * (single.span_us + behind.span_us)).all()


@pytest.mark.parametrize("name", NETWORKS)
def test_launches_that_a_profile_knows_are_priced_by_it(name: str) -> None:
    graph, (predictor, _) = load(name), PREDICTORS
    known = teach_pairs(predictor)
    schedule = make_schedule(graph, plan_single(graph, device="left"), ALONE)
    found = find_pairs(graph, schedule, FusedLaunches(graph, [known]).list_choices)

    before, after = (
        price_plan(plan_single(graph, device="left"), graph, [one], ALONE) for one in (predictor, known)
    )
    us, old_us = (
        {step.node: step.compute_us for step in plan.steps if isinstance(step, Run)}
        for plan in (after, before)
    )

    assert found
    for last, (firsts, how) in found.items():
        assert how is not None
        names = [last.node, *(first.node for first in firsts)]
        node = graph.nodes_by_name[last.node]
        told = known.predict(node, graph, Boxes.of([last.region]), selection=how)
        assert sum(us.pop(one) or 0.0 for one in names) == pytest.approx(float(told.us[0]))
        assert sum(old_us.pop(one) or 0.0 for one in names) != pytest.approx(float(told.us[0]))
    assert us == pytest.approx(old_us)


def test_whole_pairs_are_sought_on_each_device() -> None:
    graph = load("yolov2")
    planner = Planner(graph=graph, predictors=PREDICTORS, arrangement=BESIDE)
    first, last = FusedLaunches(graph, PREDICTORS).groups[0].nodes

    (single, pair, *_) = list_cuts(planner.search, graph.positions[first.name])

    behind = list_cuts(planner.search, graph.positions[last.name])[0]
    assert (pair.first, pair.last) == (graph.positions[first.name], graph.positions[last.name])
    assert (pair.span_us < single.span_us + behind.span_us).all()


def test_of_three_in_a_row_two_are_a_pair() -> None:
    graph = residual_block()

    def choose(node: Node, device: int) -> list[tuple[int, str]]:
        return [(1, f"on {device}")] if node.name in {"conv_b", "conv_c"} else []

    schedule = make_schedule(graph, plan_single(graph, device="left"), ALONE)
    found = find_pairs(graph, schedule, choose)

    assert [(last.node, first.node, how) for last, ((first,), how) in found.items()] == [
        ("conv_c", "conv_b", "on 0")
    ]

"""The whole campaign at full size: hours of CI are not what it is for, so it hides behind `-m heavy`."""

import os
from functools import cache

import numpy as np
import pytest

from codl.devices.opencl import open_devices
from codl.ir.graph import Graph
from codl.ir.regions import find_splittable_axes
from codl.partitioner.even import plan_even, plan_single
from codl.plan.steps import Chain, Plan
from tests.exactness import DEVICES, Case, cut_every_node, find_operator_errors, unique_nodes
from tests.random_plans import draw_plan
from tools.networks import NAMES, build

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(3600)]

SPINE = ("resnet50", "vgg16", "yolov2", "mobilenet_v2")
NETWORKS = (*SPINE, *(name for name in NAMES if name not in SPINE))
PLANS_EACH = int(os.environ.get("CODL_TEST_PLANS", "50"))
"""Random plans of each network of the spine; each other one gets a quarter as many."""


@cache
def full(name: str, batch: int = 1) -> Case:
    full.cache_clear()
    return Case(build(name, batch=batch))


@pytest.mark.parametrize("network", NETWORKS)
def test_each_device_alone(network: str) -> None:
    case = full(network)
    for device in DEVICES:
        assert list(case.find_errors(plan_single(case.graph, device=device), open_devices((device,)))) == []


@pytest.mark.parametrize("network", NETWORKS)
def test_every_node_cut(network: str) -> None:
    case = full(network)
    for axis, position in [
        (2, None),
        (1, None),
        (2, 1),
        (2, 7),
        (1, 4),
        (2, 0),
        (1, 0),
        (2, 10**6),
        (1, 10**6),
    ]:
        plan = cut_every_node(case.graph, DEVICES, axis, position)
        assert list(case.find_errors(plan, open_devices(DEVICES))) == [], (axis, position)


@pytest.mark.parametrize("network", NETWORKS)
def test_batch_of_three_cut(network: str) -> None:
    case = full(network, 3)
    for position in (None, 1, 2):
        plan = cut_every_node(case.graph, DEVICES, 0, position)
        assert list(case.find_errors(plan, open_devices(DEVICES))) == []


@pytest.mark.parametrize("network", NETWORKS)
def test_chains_of_two_to_eight(network: str) -> None:
    case = full(network)
    for length in range(2, 9):
        plan = plan_even(case.graph, devices=DEVICES, max_chain_length=length)
        assert list(case.find_errors(plan, open_devices(DEVICES))) == [], length


@pytest.mark.parametrize("network", NETWORKS)
def test_random_plans(network: str) -> None:
    case = full(network)
    count = PLANS_EACH if network in SPINE else -(-PLANS_EACH // 4)
    plans = [draw_plan(case.graph, DEVICES, np.random.default_rng(seed)) for seed in range(count)]
    if network in SPINE:  # branches of other networks leave no room for chains as long
        check_campaign(plans, case.graph)
    for seed, plan in enumerate(plans):
        assert list(case.find_errors(plan, open_devices(DEVICES))) == [], seed


@pytest.mark.parametrize("network", NETWORKS)
def test_every_operator_alone(network: str) -> None:
    case = full(network)
    devices = open_devices(DEVICES)
    problems = [
        problem
        for node in unique_nodes(case.graph)
        for problem in find_operator_errors(case, node, devices, positions=(0, 1, 4, 7))
    ]
    assert problems == []


def check_campaign(plans: list[Plan], graph: Graph) -> None:
    """Assert that the plans are as hard as promised: nodes split, channel cuts, long chains."""
    chains = [step for plan in plans for step in plan.steps if isinstance(step, Chain)]
    splittable = sum(bool(find_splittable_axes(node, graph)) for node in graph.nodes)
    split = sum(len(chain.nodes) for chain in chains) / (splittable * len(plans))
    with_channels = sum(any(isinstance(s, Chain) and s.axis == 1 for s in plan.steps) for plan in plans)
    long = sum(len(chain.nodes) >= 4 for chain in chains) / len(chains)
    assert split >= 0.8
    assert with_channels / len(plans) >= 0.3
    assert long >= 0.3

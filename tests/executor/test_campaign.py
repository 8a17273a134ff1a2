"""The whole campaign at full size: hours of CI are not what it is for, so it hides behind `-m heavy`."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from codl.devices.drivers import OpenedDevice
from codl.devices.opencl import open_devices
from codl.ir.graph import Graph
from codl.ir.regions import find_splittable_axes
from codl.partitioner.even import plan_even
from codl.plan.single import plan_single
from codl.plan.steps import Chain, Plan, Run
from tests.exactness import (
    ARRANGEMENTS,
    DEVICES,
    Case,
    cut_every_node,
    declare_discrete,
    find_operator_errors,
    unique_nodes,
)
from tests.random_plans import draw_plan
from tools.networks import NAMES, build

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(3600)]

SPINE = ("resnet50", "vgg16", "yolov2", "mobilenet_v2")
NETWORKS = (*SPINE, *(name for name in NAMES if name not in SPINE))
PLANS_EACH = int(os.environ.get("CODL_TEST_PLANS", "32"))
"""Random plans of each network of the spine; each other one gets a quarter as many."""
LAST_SHARE = 0.1
"""The most that a third device gets of an axis: the PoCL wheel is eight times slower than the others."""


@dataclass(frozen=True)
class Draw:
    """One random plan of the campaign: over what, and how its devices share memory."""

    network: str
    seed: int
    arrangement: str
    is_over_three: bool


def draw_campaign() -> Iterator[Draw]:
    """Yield all random plans: arrangements in turn, and of each one every fifth over three devices."""
    index = 0
    for network in NETWORKS:
        for seed in range(PLANS_EACH if network in SPINE else -(-PLANS_EACH // 4)):
            turn, place = divmod(index, len(ARRANGEMENTS))
            yield Draw(network, seed, list(ARRANGEMENTS)[place], is_over_three=turn % 5 == 0)
            index += 1


CAMPAIGN = tuple(draw_campaign())


@pytest.fixture(scope="module")
def tally() -> Iterator[Counter[str]]:
    """Count what random plans were run, and print it at the end."""
    counts: Counter[str] = Counter()
    yield counts
    print("\nrandom plans:", ", ".join(f"{count} {what}" for what, count in sorted(counts.items())))


@pytest.fixture(scope="module")
def trio(devices: tuple[OpenedDevice, ...]) -> tuple[str, ...]:
    """The devices that networks are split over and one more, if there is one."""
    others = [opened.info.name for opened in devices if opened.info.name not in DEVICES]
    return (*DEVICES, *others[:1])


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


def test_campaign_covers_what_it_promises() -> None:
    """Sixteen networks, 200 plans and more, a fifth over three devices, each way of sharing in a fifth."""
    if "CODL_TEST_PLANS" in os.environ:
        pytest.skip("another number of plans is asked for")
    assert len({draw.network for draw in CAMPAIGN}) == len(NAMES) == 16
    assert len(CAMPAIGN) >= 200
    assert 5 * sum(draw.is_over_three for draw in CAMPAIGN) >= len(CAMPAIGN)
    for is_over_three in (True, False):
        ways = Counter(draw.arrangement for draw in CAMPAIGN if draw.is_over_three is is_over_three)
        assert set(ways) == set(ARRANGEMENTS)
        assert min(ways.values()) >= 0.19 * ways.total()


@pytest.mark.parametrize("network", NETWORKS)
def test_random_plans(network: str, trio: tuple[str, ...], tally: Counter[str]) -> None:
    case = full(network)
    plans = []
    for draw in (draw for draw in CAMPAIGN if draw.network == network):
        sharing, discrete = ARRANGEMENTS[draw.arrangement]
        names = trio if draw.is_over_three else DEVICES
        share = LAST_SHARE if len(names) > len(DEVICES) else 1.0
        devices = declare_discrete(open_devices(names), *discrete)
        for graph in (case.graph, case.plain_graph):  # every tensor seen; memory and views used again
            plan = draw_plan(graph, names, np.random.default_rng(draw.seed), last_share=share)
            tally["Host steps"] += sum(not isinstance(step, Run | Chain) for step in plan.steps)
            errors = list(case.find_errors(plan, devices, graph=graph, sharing=sharing))
            assert errors == [], (draw, graph is case.graph)
        plans.append(plan)
        tally.update(["in all", draw.arrangement, f"over {len(names)} devices", f"of {network}"])
    assert tally["Host steps"] == 0
    if network in SPINE and "CODL_TEST_PLANS" not in os.environ:  # others have branches, few plans luck
        check_campaign(plans, case.plain_graph)


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

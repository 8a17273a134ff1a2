"""Small networks, split every way; the full-size campaign is in test_campaign.py."""

from functools import cache

import numpy as np
import pytest

from codl.devices.drivers import OpenedDevice
from codl.devices.opencl import open_devices
from codl.partitioner.even import plan_even
from codl.plan.single import plan_single
from tests.exactness import DEVICES, Case, cut_every_node, find_operator_errors, unique_nodes
from tests.random_plans import draw_plan
from tools.networks import build

NETWORKS = ("resnet50", "vgg16", "yolov2", "mobilenet_v2", "posenet", "fast_style_transfer", "retinaface")


@cache
def tiny(name: str, batch: int = 1) -> Case:
    return Case(build(name, size=64, width=0.25, batch=batch))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("network", NETWORKS)
def test_network_is_exact_on_one_device(network: str, device: str) -> None:
    case = tiny(network)
    plan = plan_single(case.graph, device=device)
    assert list(case.find_errors(plan, open_devices((device,)))) == []


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(("axis", "position"), [(2, None), (1, None), (2, 1), (2, -1), (1, 4), (2, 0)])
def test_network_is_exact_when_every_node_is_cut(network: str, axis: int, position: int | None) -> None:
    case = tiny(network)
    plan = cut_every_node(case.graph, DEVICES, axis, position)
    assert list(case.find_errors(plan, open_devices(DEVICES))) == []


@pytest.mark.parametrize("network", NETWORKS)
def test_network_is_exact_when_the_batch_is_cut(network: str) -> None:
    case = tiny(network, batch=3)
    plan = cut_every_node(case.graph, DEVICES, 0, None)
    assert list(case.find_errors(plan, open_devices(DEVICES))) == []


@pytest.mark.parametrize("length", [2, 5, 8])
@pytest.mark.parametrize("network", NETWORKS)
def test_network_is_exact_in_chains(network: str, length: int) -> None:
    case = tiny(network)
    ratios = (0.3, *(0.7 / (len(DEVICES) - 1) for _ in DEVICES[1:]))
    plan = plan_even(case.graph, devices=DEVICES, ratios=ratios, max_chain_length=length)
    assert list(case.find_errors(plan, open_devices(DEVICES))) == []


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("network", NETWORKS)
def test_network_is_exact_under_random_plans(network: str, seed: int) -> None:
    case = tiny(network)
    plan = draw_plan(case.graph, DEVICES, np.random.default_rng(seed))
    assert list(case.find_errors(plan, open_devices(DEVICES))) == []


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("network", NETWORKS)
def test_network_is_exact_on_all_devices_at_once(
    network: str, seed: int, devices: tuple[OpenedDevice, ...]
) -> None:
    names = tuple(opened.info.name for opened in devices)
    if len(names) < 3:
        pytest.skip("needs three devices that work; the PoCL wheel is a third")
    case = tiny(network)
    plan = draw_plan(case.graph, names, np.random.default_rng(100 + seed))
    assert list(case.find_errors(plan, open_devices(names))) == []


@pytest.mark.parametrize("network", NETWORKS)
def test_operator_slices_equal_the_whole_bit_for_bit(network: str) -> None:
    case = tiny(network)
    devices = open_devices(DEVICES)
    problems = [
        problem
        for node in unique_nodes(case.graph)[::4]
        for problem in find_operator_errors(case, node, devices, positions=(1, 4))
    ]
    assert problems == []


def test_random_plans_build_no_more_programs_than_rows() -> None:
    case = tiny("mobilenet_v2")
    devices = open_devices(DEVICES)
    for device in devices:
        list(case.find_errors(plan_single(case.graph, device=device.info.name), (device,)))
    before = [device.program_count for device in devices]
    for seed in range(50):
        plan = draw_plan(case.graph, DEVICES, np.random.default_rng(seed))
        list(case.find_errors(plan, devices))
    copies = 1  # publishing a private region is one more row
    assert [device.program_count for device in devices] <= [count + copies for count in before]

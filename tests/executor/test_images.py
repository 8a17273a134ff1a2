"""Networks computed over images: exact, and moved to and from buffers only where need be."""

from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
import pytest

from codl.catalog.choose import Databases
from codl.catalog.database import Entry, KernelDatabase
from codl.catalog.shape_key import ShapeKey, make_shape_key
from codl.catalog.table import IMPLEMENTATIONS
from codl.devices.memory import arrange
from codl.devices.opencl import Device, open_devices
from codl.executor.compile import compile_plan
from codl.executor.footprint import count_footprint
from codl.executor.images import describe_work, plan_images
from codl.ir.graph import Graph
from codl.machine import DeviceInfo
from codl.partitioner.even import plan_even
from codl.plan.schedule import make_schedule
from codl.plan.sharing import Sharing
from codl.plan.single import plan_single
from codl.plan.steps import Plan
from tests.exactness import ARRANGEMENTS, DEVICES, Case, declare_discrete
from tests.random_plans import draw_plan
from tools.networks import build

NETWORKS = ("resnet50", "mobilenet_v2", "retinaface")
ROWS = [row for row in IMPLEMENTATIONS if row.name.endswith("__image")]


@cache
def tiny(name: str) -> Case:
    return Case(build(name, size=64, width=0.25))


def prefer_images(graph: Graph, infos: Iterable[DeviceInfo]) -> Databases:
    """Return databases in which the first row over images that accepts a shape is its best kernel."""
    return {info.name: KernelDatabase(entries=_list_entries(graph, info)) for info in infos}


def _list_entries(graph: Graph, info: DeviceInfo) -> dict[ShapeKey, Entry]:
    entries = {}
    for node in graph.nodes:
        for row in ROWS:
            parameters = row.accepts(node, graph, info)
            if parameters is not None:
                key = make_shape_key(node, graph)
                entries[key] = Entry(key=key, implementation=row.name, parameters=parameters, seconds=1e-3)
                break
    return entries


@pytest.fixture(scope="module")
def pair() -> tuple[Device, ...]:
    devices = open_devices(DEVICES)
    if not all(device.info.has_images for device in devices):
        pytest.skip("needs devices with images")
    return devices


def count_moves(case: Case, plan: Plan, devices: Sequence[Device], graph: Graph) -> tuple[int, int]:
    """Return the moves of a plan that are launched, and those that its rows describe."""
    infos = [device.info for device in devices]
    schedule = make_schedule(graph, plan, arrange(infos))
    described = describe_work(graph, schedule, infos, prefer_images(case.plain_graph, infos))
    kept, _ = plan_images(graph, schedule, described, devices=len(infos))
    launched, told = (
        sum(batch.source is not None for one in work.values() for batch in one.batches)
        for work in (kept, described)
    )
    return launched, told


@pytest.mark.parametrize("network", NETWORKS)
def test_network_over_images_is_exact_on_one_device(network: str, pair: tuple[Device, ...]) -> None:
    case = tiny(network)
    for device in pair:
        plan = plan_single(case.graph, device=device.info.name)
        databases = prefer_images(case.graph, [device.info])
        assert list(case.find_errors(plan, [device], databases=databases)) == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("arrangement", ARRANGEMENTS.values(), ids=ARRANGEMENTS)
def test_network_over_images_is_exact_under_random_plans(
    arrangement: tuple[Sharing, tuple[int, ...]], seed: int, pair: tuple[Device, ...]
) -> None:
    case = tiny("resnet50")
    sharing, discrete = arrangement
    devices = declare_discrete(pair, *discrete)
    databases = prefer_images(case.graph, [device.info for device in devices])
    graph = case.plain_graph if seed else case.graph
    plan = draw_plan(graph, DEVICES, np.random.default_rng(seed))
    errors = case.find_errors(plan, devices, graph=graph, sharing=sharing, databases=databases)
    assert list(errors) == []


def test_mixed_rows_are_exact_in_chains(pair: tuple[Device, ...]) -> None:
    case = tiny("resnet50")
    databases = prefer_images(case.graph, [pair[1].info])
    plan = plan_even(case.plain_graph, devices=DEVICES, ratios=(0.4, 0.6), max_chain_length=5)
    assert list(case.find_errors(plan, pair, graph=case.plain_graph, databases=databases)) == []


def test_rows_over_images_hand_each_other_images(pair: tuple[Device, ...]) -> None:
    case = tiny("resnet50")
    graph = case.plain_graph
    launched, told = count_moves(case, plan_single(graph, device=DEVICES[0]), pair[:1], graph)
    assert told > 100
    assert launched == 2  # the network's input, and what its end reads from a buffer
    chains = plan_even(graph, devices=DEVICES, max_chain_length=8)
    launched, told = count_moves(case, chains, pair, graph)
    assert launched < told / 3


def test_footprint_counts_images(pair: tuple[Device, ...]) -> None:
    graph = tiny("resnet50").plain_graph
    infos = [device.info for device in pair]
    databases = prefer_images(graph, infos)
    plan = plan_even(graph, devices=DEVICES, max_chain_length=4)
    executable = compile_plan(graph, plan, pair, databases=databases)
    counted = count_footprint(graph, plan, arrange(infos), devices=infos, databases=databases)
    assert counted == executable.plan.memory
    without = count_footprint(graph, plan, arrange(infos), devices=infos)
    for more, less in zip(counted[: len(pair)], without, strict=False):
        assert more.activation_bytes > less.activation_bytes

"""A device walks its own tape: numbers of networks, bits of single launches, barriers, one launch."""

import sys
from functools import cache

import numpy as np
import pytest

from codl.catalog.choose import NO_DATABASES
from codl.catalog.rows import conv2d_tile, conv2d_winograd_tile
from codl.devices.memory import arrange
from codl.devices.opencl import Device, open_device
from codl.devices.walker import WALK_VARIABLE, Walker, find_walker
from codl.errors import DeviceError
from codl.executor.compile import compile_plan
from codl.executor.images import describe_work
from codl.executor.placement import list_as_given
from codl.machine import Precision
from codl.plan.schedule import make_schedule
from codl.plan.single import plan_single
from tests.exactness import Case
from tests.executor import encoders
from tests.executor.mixed_models import embedding
from tests.kernels.groups import as_gpu
from tests.oracle import relative_error
from tests.random_plans import draw_plan
from tools.networks import build

SIZES = {"mobilenet_v2": 64, "resnet50": 64}
NETWORKS = (
    pytest.param("mobilenet_v2", marks=pytest.mark.heavy),
    "resnet50",
    *encoders.NETWORKS,
)


@cache
def load(network: str) -> Case:
    """Return a small network with ONNX Runtime's values."""
    if network in encoders.NETWORKS:
        return Case(encoders.NETWORKS[network]())
    return Case(build(network, size=SIZES[network], width=0.25))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Device:
    """PoCL taken for a GPU of one group, which needs no promise of progress."""
    monkeypatch.setenv(WALK_VARIABLE, "1")
    return as_gpu(open_device("pocl-cpu"))


@pytest.mark.parametrize("network", NETWORKS)
def test_all_tensors_agree_with_onnx_runtime(gpu: Device, network: str) -> None:
    case = load(network)
    plan = plan_single(case.graph, device=gpu.info.name)
    assert list(case.find_errors(plan, [gpu])) == []


@pytest.mark.parametrize(
    ("network", "batch"),
    [("resnet50", 8), pytest.param("resnet50", 32, marks=pytest.mark.heavy), ("vit", 8)],
)
def test_batches_agree_with_onnx_runtime(
    gpu: Device, network: str, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conv2d_tile, "estimate_best_us", lambda node, graph, info: 1e9)
    monkeypatch.setattr(conv2d_winograd_tile, "_MOST_SCRATCH", 1 << 17)  # layers take several slabs
    is_encoder = network in encoders.NETWORKS
    case = Case(encoders.vit(batch=batch) if is_encoder else build(network, size=32, width=0.25, batch=batch))
    plan = plan_single(case.graph, device=gpu.info.name)
    assert list(case.find_errors(plan, [gpu])) == []


@pytest.mark.parametrize("network", NETWORKS)
def test_one_launch_has_the_bits_of_many(gpu: Device, network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = load(network)
    plan = plan_single(case.plain_graph, device=gpu.info.name)
    walking = compile_plan(case.plain_graph, plan, [gpu])
    monkeypatch.setenv(WALK_VARIABLE, "0")
    launching = compile_plan(case.plain_graph, plan, [gpu])
    assert walking.launch_count == 1 < launching.launch_count
    for one, other in zip(walking.run(case.feeds).values(), launching.run(case.feeds).values(), strict=True):
        np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))


def test_an_embedding_is_a_launch_before_the_walk(gpu: Device) -> None:
    case = Case(embedding())
    plan = plan_single(case.graph, device=gpu.info.name)
    assert list(case.find_errors(plan, [gpu])) == []
    assert compile_plan(case.graph, plan, [gpu]).launch_count == 2


def test_an_image_lies_as_it_is_given_where_one_device_computes(gpu: Device) -> None:
    case = load("resnet50")
    cpu = open_device("pocl-cpu")
    for device, expected in ((gpu, {"input"}), (cpu, set())):
        arrangement = arrange([device.info])
        schedule = make_schedule(case.graph, plan_single(case.graph, device=device.info.name), arrangement)
        work = describe_work(case.graph, schedule, [device.info], NO_DATABASES)
        assert list_as_given(case.graph, work, arrangement) == expected


@pytest.mark.heavy  # groups wait for cores that other tests have
def test_more_groups_keep_the_bits(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    case = load("resnet50")
    plan = plan_single(case.plain_graph, device=gpu.info.name)
    alone = compile_plan(case.plain_graph, plan, [gpu]).run(case.feeds)
    monkeypatch.setenv(WALK_VARIABLE, "2")
    walker = find_walker(gpu)
    if walker is None or gpu.info.units < 2:
        pytest.skip("a device whose groups do not run together")
    together = compile_plan(case.plain_graph, plan, [gpu]).run(case.feeds)
    for name, value in alone.items():
        np.testing.assert_array_equal(value.view(np.uint32), together[name].view(np.uint32))


@pytest.mark.parametrize("precision", [Precision.TF32, Precision.FLOAT16])
@pytest.mark.parametrize("network", ["resnet50", "vit"])
def test_rounded_products_keep_their_bits_under_random_plans(
    gpu: Device, network: str, precision: Precision
) -> None:
    case = load(network)
    first = as_gpu(gpu, precision=precision).with_facts(name="first-gpu")
    second = first.with_facts(name="second-gpu")
    plain = compile_plan(case.plain_graph, plan_single(case.plain_graph, device=gpu.info.name), [gpu])
    alone = compile_plan(case.plain_graph, plan_single(case.plain_graph, device="first-gpu"), [first])
    assert alone.launch_count == 1
    expected, exact = alone.run(case.feeds), plain.run(case.feeds)
    for seed in range(2):
        plan = draw_plan(case.plain_graph, ("first-gpu", "second-gpu"), np.random.default_rng(seed))
        shared = compile_plan(case.plain_graph, plan, [first, second]).run(case.feeds)
        for name, value in expected.items():
            np.testing.assert_array_equal(value.view(np.uint32), shared[name].view(np.uint32))
            assert 1e-6 < relative_error(value, exact[name]) < 1e-2


def test_a_number_of_groups_is_asked_for(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WALK_VARIABLE, "many")
    with pytest.raises(DeviceError, match="expected a number of work-groups"):
        find_walker(gpu)


def test_a_trace_names_all_nodes_of_a_walk(gpu: Device) -> None:
    case = load("resnet50")
    plan = plan_single(case.plain_graph, device=gpu.info.name)
    executable = compile_plan(case.plain_graph, plan, [gpu.with_profiling()])
    _, trace = executable.run_traced(case.feeds)
    (walk,) = [event for event in trace.events if event.parts]
    assert {name for name, _ in walk.parts} <= {node.name for node in case.plain_graph.nodes}
    assert sum(share for _, share in walk.parts) == pytest.approx(1)


def test_a_group_that_waits_in_vain_is_an_error(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    case = load("resnet50")
    executable = compile_plan(case.plain_graph, plan_single(case.plain_graph, device=gpu.info.name), [gpu])
    expected = executable.run(case.feeds)
    walker = find_walker(gpu)
    assert walker is not None
    monkeypatch.setattr(Walker, "_has_failed", lambda self: True)
    monkeypatch.setattr(sys.modules[Walker.__module__], "_LEAST_WAIT_SECONDS", 0.0)
    with pytest.raises(DeviceError, match="waited for 0 others in vain"):
        executable.run(case.feeds)
    monkeypatch.undo()
    for name, value in executable.run(case.feeds).items():
        np.testing.assert_array_equal(value.view(np.uint32), expected[name].view(np.uint32))


def test_more_groups_than_run_together_are_found_out(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WALK_VARIABLE, str(gpu.info.units + 30))
    assert find_walker(gpu) is None

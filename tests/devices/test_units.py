"""A part of a device: its name, its launches and its numbers; a GPU is played by PoCL."""

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import codl
from codl.analysis.slices import list_whole
from codl.devices import drivers, walker
from codl.devices.drivers import OpenedDevice, find_device, select_devices
from codl.devices.opencl import Device
from codl.devices.reference import count_items
from codl.devices.walker import WALK_VARIABLE, find_walker
from codl.errors import DeviceError
from codl.executor.compile import compile_plan
from codl.ir.ops import Pad, Unary
from codl.latency.predictor import Predictor
from codl.machine import DeviceKind
from codl.plan.single import plan_single
from tests.exactness import Case
from tests.kernels.harness import one_node_graph, random_array
from tests.latency.profiles import make_profile
from tools.networks import build

UNITS = 4


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> OpenedDevice:
    """PoCL taken for a GPU of four compute units, as the only device of the machine."""
    opened = find_device("pocl-cpu")
    info = replace(
        opened.info, name="pocl-gpu", kind=DeviceKind.GPU, is_unified=False, units=UNITS, processor="pci 1"
    )
    whole = replace(opened, info=info)
    loaded = drivers._Loaded(devices=(whole,), problems=(), is_pair=False)
    monkeypatch.setattr(drivers, "_load_all", lambda: loaded)
    return whole


def take(name: str) -> Device:
    opened = find_device(name)
    return Device(opened.info, opened.cl_device)


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The work-groups of each launch, as they are enqueued."""
    found: list[int] = []
    enqueue: Callable[..., Any] = cl.enqueue_nd_range_kernel

    def note(queue: Any, kernel: Any, size: Any, local: Any, *args: Any, **facts: Any) -> Any:
        found.append(prod(size) // prod(local))
        return enqueue(queue, kernel, size, local, *args, **facts)

    monkeypatch.setattr(cl, "enqueue_nd_range_kernel", note)
    return found


@pytest.mark.parametrize(
    ("asked", "name", "units"), [("pocl-gpu:1", "pocl-gpu:1", 1), ("gpu:3", "pocl-gpu:3", 3)]
)
def test_a_part_has_a_name_and_units(gpu: OpenedDevice, asked: str, name: str, units: int) -> None:
    (opened,) = select_devices([asked])
    assert (opened.info.name, opened.info.units, opened.info.is_part) == (name, units, True)
    assert opened.cl_device is gpu.cl_device


@pytest.mark.parametrize("units", [UNITS, UNITS + 100])
def test_all_units_are_the_device_itself(gpu: OpenedDevice, units: int) -> None:
    assert find_device(f"pocl-gpu:{units}") == gpu


@pytest.mark.parametrize("units", ["", "0", "-1", "eight", "1:1", "²", "9" * 30])
def test_a_number_of_units_is_expected(gpu: OpenedDevice, units: str) -> None:
    with pytest.raises(DeviceError, match="expected a number of compute units such as pocl-gpu:8"):
        find_device(f"pocl-gpu:{units}")


def test_a_device_and_its_part_are_one_device(gpu: OpenedDevice) -> None:
    with pytest.raises(DeviceError, match="twice, as pocl-gpu and pocl-gpu:1"):
        select_devices(["pocl-gpu", "pocl-gpu:1"])


def test_cores_of_a_cpu_driver_are_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = find_device("pocl-cpu")
    many = replace(opened, info=replace(opened.info, units=16))
    monkeypatch.setattr(drivers, "load", lambda: (many,))
    assert find_device("pocl-cpu:16") == many
    with pytest.raises(DeviceError, match=r"got 8 of 16 compute units.*set POCL_MAX_PTHREAD_COUNT=8"):
        find_device("pocl-cpu:8")


def test_a_gpu_without_groups_cannot_be_limited(gpu: OpenedDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(gpu, info=replace(gpu.info, local_memory_bytes=1 << 14))
    monkeypatch.setattr(drivers, "load", lambda: (small,))
    with pytest.raises(DeviceError, match="cannot run the kernels that keep to some of them; use pocl-gpu"):
        find_device("pocl-gpu:2")


def test_a_part_walks_with_as_many_groups(gpu: OpenedDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = find_device("pocl-gpu:3")
    monkeypatch.setattr(walker.Walker, "is_sound", lambda self: True)
    device = Device(opened.info, opened.cl_device)
    found = find_walker(device)
    assert found is not None
    assert found.groups == 3
    monkeypatch.setenv(WALK_VARIABLE, "8")
    more = find_walker(device)
    assert more is not None
    assert more.groups == 3


@pytest.mark.parametrize("units", [1, 2])
@pytest.mark.parametrize(
    "walks",
    [pytest.param("", id="walking"), pytest.param("0", id="launches", marks=pytest.mark.heavy)],
)
def test_a_network_keeps_to_a_part(
    gpu: OpenedDevice, launches: list[int], monkeypatch: pytest.MonkeyPatch, units: int, walks: str
) -> None:
    monkeypatch.setenv(WALK_VARIABLE, walks or "1")
    device, case = take(f"pocl-gpu:{units}"), Case(build("resnet50", size=32, width=0.25))
    plan = plan_single(case.graph, device=device.info.name)
    assert list(case.find_errors(plan, [device])) == []
    assert max(launches) == (units if walks else 1)


def test_a_part_has_the_bits_of_the_device(gpu: OpenedDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WALK_VARIABLE, "0")
    case, values = Case(build("mobilenet_v2", size=32, width=0.25)), []
    part = replace(find_device("pocl-gpu:1").info, units=UNITS)  # the same rows and tiles, in fewer groups
    for info in (gpu.info, part):
        device = Device(info, gpu.cl_device)
        plan = plan_single(case.plain_graph, device=info.name)
        values.append(compile_plan(case.plain_graph, plan, [device]).run(case.feeds))
    for name, value in values[0].items():
        np.testing.assert_array_equal(value.view(np.uint32), values[1][name].view(np.uint32))


def test_references_take_a_group_a_unit(gpu: OpenedDevice) -> None:
    assert count_items(take("pocl-gpu:2")) == 2 * 256


def test_a_session_plans_for_the_part(gpu: OpenedDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WALK_VARIABLE, "0")
    model = build("mobilenet_v2", size=32, width=0.25).SerializeToString()
    options = codl.SessionOptions()
    options.devices, options.planner, options.warm_up = ["pocl-gpu:2"], "single:pocl-gpu:2", "block"
    with codl.InferenceSession(model, options) as session:
        plan = session.plan
        assert plan.devices == ("pocl-gpu:2",)
        assert "2 units of" in plan.testbed[0]
    options.plan = replace(plan, devices=("pocl-gpu:9",), steps=())
    with pytest.raises(DeviceError, match="got device 'pocl-gpu:9', expected 'pocl-gpu', which it is here"):
        codl.InferenceSession(model, options)


def test_operators_that_no_part_limits_are_listed(gpu: OpenedDevice) -> None:
    x = random_array(1, 3, 6, 7)
    padding = one_node_graph(Pad(before=(0, 0, 1, 1)), {"x": x}, (1, 3, 8, 9))
    relu = one_node_graph(Unary(), {"x": x}, x.shape)
    for info in (gpu.info, gpu.info.limit(2)):
        predictors = [Predictor(make_profile(info), info)]
        found = [
            list_whole(plan_single(graph, device=info.name), graph, predictors) for graph in (padding, relu)
        ]
        assert found == [[padding.nodes[0].name] if info.is_part else [], []]


def test_a_part_of_a_shipped_gpu_is_priced_by_its_units() -> None:
    model = build("resnet50", size=64, width=0.25).SerializeToString()
    times = [
        codl.plan(model, devices=[name], planner="dynamic").predicted_us
        for name in ("nvidia-gpu", "nvidia-gpu:8")
    ]
    assert times[0] is not None
    assert times[1] is not None
    assert times[0] < times[1] < 132 / 8 * times[0]

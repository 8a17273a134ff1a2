"""Plans over devices that share memory in different ways: the same numbers in the memory that was planned."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from codl.devices.drivers import OpenedDevice
from codl.devices.opencl import Device, open_devices
from codl.executor.compile import compile_plan
from codl.ir.graph import FLOAT_BYTES, Graph
from codl.partitioner.even import plan_even
from codl.plan.sharing import Sharing
from codl.plan.single import plan_single
from tests.exactness import ARRANGEMENTS, DEVICES, POISONS, Case, declare_discrete
from tests.oracle import NETWORK_TOLERANCE, FloatArray, relative_error
from tests.random_plans import draw_plan
from tools.networks import build

NETWORKS = ("mobilenet_v2", "retinaface")
"""Short chains of cheap operators, and many branches."""
MIXED = {
    **{name: arrangement for name, arrangement in ARRANGEMENTS.items() if name != "coherent"},
    "mapped and discrete": (Sharing.MAPPED, (-1,)),
}


@cache
def tiny(name: str) -> Case:
    return Case(build(name, size=64, width=0.25))


@cache
def plain_graph(name: str) -> Graph:
    """The network with its own outputs only, so that intermediates share memory."""
    case = tiny(name)
    return replace(case.graph, outputs=tuple(output.name for output in case.model.graph.output))


def open_arranged(names: tuple[str, ...], discrete: tuple[int, ...]) -> tuple[Device, ...]:
    return declare_discrete(open_devices(names), *discrete)


def all_names(devices: tuple[OpenedDevice, ...]) -> tuple[str, ...]:
    return tuple(opened.info.name for opened in devices)


@pytest.mark.parametrize(("sharing", "discrete"), MIXED.values(), ids=MIXED)
@pytest.mark.parametrize("network", NETWORKS)
def test_every_tensor_is_exact_however_memory_is_shared(
    network: str, sharing: Sharing | None, discrete: tuple[int, ...]
) -> None:
    case = tiny(network)
    plan = draw_plan(case.graph, DEVICES, np.random.default_rng(0))
    assert list(case.find_errors(plan, open_arranged(DEVICES, discrete), sharing=sharing)) == []


@pytest.mark.parametrize(("sharing", "discrete"), MIXED.values(), ids=MIXED)
def test_every_tensor_is_exact_on_all_devices_at_once(
    sharing: Sharing | None, discrete: tuple[int, ...], devices: tuple[OpenedDevice, ...]
) -> None:
    names = all_names(devices)
    case = tiny("resnet50")
    plan = draw_plan(case.graph, names, np.random.default_rng(7))
    assert list(case.find_errors(plan, open_arranged(names, discrete), sharing=sharing)) == []


@pytest.mark.parametrize(("sharing", "discrete"), MIXED.values(), ids=MIXED)
@pytest.mark.parametrize("network", NETWORKS)
def test_reused_memory_changes_no_bit(
    network: str, sharing: Sharing | None, discrete: tuple[int, ...], devices: tuple[OpenedDevice, ...]
) -> None:
    """Without published intermediates, tensors lie where others lay before; two poisons and two runs."""
    graph, feeds = plain_graph(network), tiny(network).feeds
    for seed, names in enumerate((DEVICES, all_names(devices))):
        plan = draw_plan(graph, names, np.random.default_rng(50 + seed))
        executable = compile_plan(graph, plan, open_arranged(names, discrete), sharing=sharing)
        results: list[dict[str, FloatArray]] = []
        for poison in POISONS:
            executable.poison(poison)
            results += [executable.run(feeds), executable.run(feeds)]
        for name in graph.outputs:
            assert len({result[name].tobytes() for result in results}) == 1, (seed, name)
            assert relative_error(results[0][name], tiny(network).reference[name]) <= NETWORK_TOLERANCE


@pytest.mark.parametrize(("sharing", "discrete"), MIXED.values(), ids=MIXED)
def test_single_device_is_exact_however_it_shares_with_the_host(
    sharing: Sharing | None, discrete: tuple[int, ...]
) -> None:
    case = tiny("mobilenet_v2")
    for name in DEVICES:
        plan = plan_single(case.graph, device=name)
        assert list(case.find_errors(plan, open_arranged((name,), discrete), sharing=sharing)) == []


@pytest.mark.parametrize(("sharing", "discrete"), [(None, ()), *MIXED.values()], ids=["usual", *MIXED])
def test_memory_is_what_was_planned(
    sharing: Sharing | None, discrete: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = plain_graph("resnet50")
    devices = open_arranged(DEVICES, discrete)
    own = dict.fromkeys(DEVICES, 0)
    shared: dict[int, int] = {}
    wrap = Device.wrap

    def count_own(device: Device, floats: int) -> Any:
        own[device.info.name] += floats * FLOAT_BYTES
        return device.allocate(floats)

    def count_shared(self: Device, array: FloatArray) -> Any:
        shared[array.ctypes.data] = array.nbytes
        return wrap(self, array)

    monkeypatch.setattr("codl.executor.placement.allocate_own", count_own)
    monkeypatch.setattr("codl.executor.scratch.allocate_own", count_own)
    monkeypatch.setattr(Device, "wrap", count_shared)
    plan = plan_even(graph, devices=DEVICES, max_chain_length=4)
    executable = compile_plan(graph, plan, devices, sharing=sharing)
    sizes = {**own, "shared": sum(shared.values())}
    assert executable.activation_bytes == {name: size for name, size in sizes.items() if size}

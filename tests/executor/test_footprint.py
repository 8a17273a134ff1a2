"""The memory that a plan says it takes is what its executable takes."""

from typing import Any

import numpy as np
import pytest

from codl.catalog.choose import NO_DATABASES
from codl.devices.memory import arrange, arrange_named
from codl.devices.opencl import Device, open_devices
from codl.executor.compile import compile_plan
from codl.executor.footprint import add_bytes, count_footprint, count_operands
from codl.executor.weights import Weights
from codl.frontend import load_graph
from codl.ir.graph import FLOAT_BYTES, Graph
from codl.partitioner.even import plan_even
from codl.plan.schedule import make_schedule
from codl.plan.sharing import Sharing
from codl.plan.steps import SHARED_MEMORY
from tests.exactness import DEVICES, declare_discrete
from tests.executor.test_exactness import NETWORKS
from tests.random_plans import draw_plan
from tools.networks import build


def tiny_graph(name: str) -> Graph:
    return load_graph(build(name, size=64, width=0.25).SerializeToString())


@pytest.mark.parametrize("network", NETWORKS)
def test_footprint_without_a_driver_is_that_of_the_executable(network: str) -> None:
    graph = tiny_graph(network)
    devices = declare_discrete(open_devices(DEVICES), 1)
    infos = [device.info for device in devices]
    weights = Weights(graph)
    for seed in range(2):
        plan = draw_plan(graph, DEVICES, np.random.default_rng(seed))
        executable = compile_plan(graph, plan, devices, weights=weights)
        counted = count_footprint(graph, plan, arrange(infos), devices=infos)
        assert counted == executable.plan.memory
        schedule = make_schedule(graph, plan, arrange(infos))
        scratch = count_operands(graph, schedule, infos, NO_DATABASES)[1]
        apart = add_bytes(executable.activation_bytes, scratch)
        assert {memory.device: memory.activation_bytes for memory in counted} == apart


def test_weights_are_the_buffers_that_are_uploaded(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = tiny_graph("resnet50")
    devices = open_devices(DEVICES)
    sizes = dict.fromkeys(DEVICES, 0)
    upload = Device.upload

    def count(self: Device, array: Any) -> Any:
        sizes[self.info.name] += array.nbytes
        return upload(self, array)

    plan = plan_even(graph, devices=DEVICES, axes=(1, 2, 0), max_chain_length=3)
    compile_plan(graph, plan, devices)  # afterwards every device has its zeros
    monkeypatch.setattr(Device, "upload", count)
    executable = compile_plan(graph, plan, devices)
    assert executable.weight_bytes == sizes
    assert sum(sizes.values()) >= FLOAT_BYTES * sum(value.size for value in graph.constants.values())


def test_names_alone_tell_how_memory_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CODL_SHARING", raising=False)
    names = ("intel-cpu", "pocl-cpu-2", "nvidia-gpu", "left")
    modes = (Sharing.COHERENT, Sharing.COHERENT, Sharing.COPIED, Sharing.COPIED)
    assert arrange_named(names).modes == modes
    monkeypatch.setenv("CODL_SHARING", "copied")
    assert set(arrange_named(names).modes) == {Sharing.COPIED}


def test_weights_of_devices_known_by_name_only_are_null(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CODL_SHARING", raising=False)
    graph = tiny_graph("mobilenet_v2")
    names = ("left-cpu", "right-cpu")
    counted = count_footprint(graph, plan_even(graph, devices=names), arrange_named(names))
    assert [memory.device for memory in counted] == [*names, SHARED_MEMORY]
    assert [memory.weight_bytes for memory in counted] == [None, None, 0]

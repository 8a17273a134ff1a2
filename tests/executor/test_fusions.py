"""Two nodes computed in one launch: the bits of two launches, in fewer of them."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from codl.catalog.table import PAIRS
from codl.devices.memory import arrange
from codl.devices.opencl import Device, open_devices
from codl.executor.compile import compile_plan
from codl.executor.footprint import count_footprint
from codl.partitioner.even import plan_even
from codl.plan.sharing import Sharing
from codl.plan.single import plan_single
from codl.plan.steps import Plan
from tests.exactness import ARRANGEMENTS, DEVICES, Case, cut_every_node, declare_discrete
from tests.random_plans import draw_plan

DoubleArray = np.ndarray[Any, np.dtype[np.float64]]
CPUS = tuple(name for name in DEVICES if name.endswith("-cpu"))
"""Devices that have kernels for several nodes."""
ACTIVATIONS = ("Relu", "LeakyRelu", "Sigmoid", "Identity")
SIZES = {
    "one-pixel": (1, 1, 9, 5),
    "lt": (2, 3, 5, 9),
    "eq": (4, 4, 16, 64),
    "div": (6, 8, 32, 128),
    "gt": (7, 9, 37, 140),
    "one-input": (5, 5, 1, 17),
    "one-output": (5, 6, 20, 1),
}
"""Height, width, input and output channels."""


def make_model(
    height: int,
    width: int,
    inputs: int,
    outputs: int,
    *,
    activation: str = "Relu",
    stride: int = 1,
    batch: int = 1,
) -> onnx.ModelProto:
    """Return sum -> batch normalisation -> activation -> 1x1 convolution -> sum with what it maps."""
    rng = np.random.default_rng(inputs)
    shape = (batch, inputs, height, width)
    arrays = {
        "scale": rng.uniform(0.5, 1.5, inputs),
        "shift": rng.standard_normal(inputs),
        "mean": rng.standard_normal(inputs),
        "var": rng.uniform(0.5, 1.5, inputs),
        "w": rng.standard_normal((outputs, inputs, 1, 1)),
        "b": rng.standard_normal(outputs),
    }
    nodes = [
        helper.make_node("Add", ["x", "z"], ["sum"]),
        helper.make_node("BatchNormalization", ["sum", "scale", "shift", "mean", "var"], ["map"]),
        helper.make_node(activation, ["map"], ["act"]),
        helper.make_node("Conv", ["act", "w", "b"], ["conv"], strides=[stride, stride]),
        helper.make_node("Relu", ["conv"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "pair",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "z")],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@cache
def dense_block() -> Case:
    """Return layers as DenseNet has them: maps of concatenations, which others read too."""
    rng = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    arrays: dict[str, DoubleArray] = {}
    channels, last = 12, "x"
    for index in range(4):
        names = [f"{name}{index}" for name in ("scale", "shift", "mean", "var")]
        arrays |= {name: rng.uniform(0.5, 1.5, channels) for name in names}
        arrays[f"w{index}"] = rng.standard_normal((20, channels, 1, 1)) / 4
        arrays[f"k{index}"] = rng.standard_normal((8, 20, 3, 3)) / 12
        nodes += [
            helper.make_node("BatchNormalization", [last, *names], [f"map{index}"]),
            helper.make_node("Relu", [f"map{index}"], [f"act{index}"]),
            helper.make_node("Conv", [f"act{index}", f"w{index}"], [f"narrow{index}"]),
            helper.make_node("Relu", [f"narrow{index}"], [f"relu{index}"]),
            helper.make_node("Conv", [f"relu{index}", f"k{index}"], [f"new{index}"], pads=[1, 1, 1, 1]),
            helper.make_node("Concat", [last, f"new{index}"], [f"cat{index}"], axis=1),
        ]
        last, channels = f"cat{index}", channels + 8
    graph = helper.make_graph(
        nodes,
        "block",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 12, 13, 11))],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in arrays.items()],
    )
    return Case(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


@cache
def separable_block() -> Case:
    """Return layers as mobile networks have them: depthwise convolutions with 1x1 ones behind them."""
    rng = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    arrays: dict[str, DoubleArray] = {"six": np.array(6.0), "zero": np.array(0.0)}
    last = "x"
    for index, (stride, groups) in enumerate(((1, 1), (2, 1), (1, 4))):
        arrays[f"d{index}"] = rng.standard_normal((64, 1, 3, 3)) / 3
        arrays[f"b{index}"] = rng.standard_normal(64)
        arrays[f"w{index}"] = rng.standard_normal((64, 64 // groups, 1, 1)) / 8
        filters = [last, f"d{index}", f"b{index}"]
        nodes += [
            helper.make_node(
                "Conv", filters, [f"deep{index}"], group=64, strides=[stride] * 2, pads=[1, 1, 1, 1]
            ),
            helper.make_node("Clip", [f"deep{index}", "zero", "six"], [f"clip{index}"]),
            helper.make_node("Conv", [f"clip{index}", f"w{index}"], [f"conv{index}"], group=groups),
        ]
        sums = [f"conv{index}", last if stride == 1 else f"conv{index}"]
        nodes.append(helper.make_node("Add", sums, [f"sum{index}"]))
        last = f"sum{index}"
    graph = helper.make_graph(
        nodes,
        "separable",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 64, 17, 15))],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in arrays.items()],
    )
    return Case(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


@cache
def inverted_block() -> Case:
    """Return layers of MobileNetV2: a 1x1, a depthwise and a second 1x1 convolution."""
    rng = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    arrays: dict[str, DoubleArray] = {"six": np.array(6.0), "zero": np.array(0.0)}
    last = "x"
    for index, stride in enumerate((1, 2, 1)):
        arrays[f"e{index}"] = rng.standard_normal((48, 16, 1, 1)) / 4
        arrays[f"d{index}"] = rng.standard_normal((48, 1, 3, 3)) / 3
        arrays[f"w{index}"] = rng.standard_normal((16, 48, 1, 1)) / 7
        deep = {"group": 48, "strides": [stride] * 2, "pads": [1, 1, 1, 1]}
        nodes += [
            helper.make_node("Conv", [last, f"e{index}"], [f"wide{index}"]),
            helper.make_node("Clip", [f"wide{index}", "zero", "six"], [f"clip{index}"]),
            helper.make_node("Conv", [f"clip{index}", f"d{index}"], [f"deep{index}"], **deep),
            helper.make_node("Relu", [f"deep{index}"], [f"relu{index}"]),
            helper.make_node("Conv", [f"relu{index}", f"w{index}"], [f"conv{index}"]),
        ]
        sums = [f"conv{index}", last if stride == 1 else f"conv{index}"]
        nodes.append(helper.make_node("Add", sums, [f"sum{index}"]))
        last = f"sum{index}"
    graph = helper.make_graph(
        nodes,
        "inverted",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 16, 33, 31))],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in arrays.items()],
    )
    return Case(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


BLOCKS = {"inverted": inverted_block, "dense": dense_block, "separable": separable_block}


def check(case: Case, plan: Plan, devices: Sequence[Device], *, sharing: Sharing | None = None) -> int:
    """Assert that fused launches are exact, with the bits of launches apart; return how many were saved."""
    assert list(case.find_errors(plan, devices, graph=case.plain_graph, sharing=sharing)) == []
    executables = [
        compile_plan(case.plain_graph, plan, devices, sharing=sharing, pairs=pairs) for pairs in ((), PAIRS)
    ]
    apart, fused = (executable.run(case.feeds) for executable in executables)
    for name, value in apart.items():
        np.testing.assert_array_equal(fused[name].view(np.uint32), value.view(np.uint32))
    return executables[0].launch_count - executables[1].launch_count


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("device", CPUS)
def test_pair_at_tile_edges(device: str, size: tuple[int, int, int, int]) -> None:
    case = Case(make_model(*size))
    plan = plan_single(case.plain_graph, device=device)
    assert check(case, plan, open_devices((device,))) == 1


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("device", CPUS)
def test_pair_with_any_activation_stride_and_batch(device: str, activation: str) -> None:
    case = Case(make_model(9, 7, 21, 35, activation=activation, stride=2, batch=3))
    plan = plan_single(case.plain_graph, device=device)
    assert check(case, plan, open_devices((device,))) == 1


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
@pytest.mark.parametrize("arrangement", ARRANGEMENTS.values(), ids=ARRANGEMENTS)
def test_blocks_in_chains_and_random_plans(
    arrangement: tuple[Sharing, tuple[int, ...]], block: Callable[[], Case]
) -> None:
    case, (sharing, discrete) = block(), arrangement
    devices = declare_discrete(open_devices(DEVICES), *discrete)
    plans = [plan_even(case.plain_graph, devices=DEVICES, max_chain_length=8)]
    plans += [draw_plan(case.plain_graph, DEVICES, np.random.default_rng(seed)) for seed in range(2)]
    assert check(case, plans[0], devices, sharing=sharing) > 0
    for plan in plans[1:]:
        check(case, plan, devices, sharing=sharing)


@pytest.mark.parametrize("device", CPUS)
def test_three_nodes_become_one_launch(device: str) -> None:
    case = inverted_block()
    plan = plan_single(case.plain_graph, device=device)
    assert check(case, plan, open_devices((device,))) >= 2


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_pair_that_devices_exchange_values_within_stays_apart(axis: int, block: Callable[[], Case]) -> None:
    case = block()
    plan = cut_every_node(case.plain_graph, DEVICES, axis, 1)
    check(case, plan, open_devices(DEVICES))


def test_map_that_is_an_output_stays() -> None:
    case = dense_block()
    plan = plan_single(case.graph, device=DEVICES[0])
    assert list(case.find_errors(plan, open_devices(DEVICES[:1]))) == []


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_footprint_knows_what_lives_longer(block: Callable[[], Case]) -> None:
    graph, devices = block().plain_graph, open_devices(DEVICES)
    infos = [device.info for device in devices]
    for plan in (
        plan_even(graph, devices=DEVICES, max_chain_length=8),
        plan_single(graph, device=DEVICES[0]),
    ):
        used = devices[: len(plan.devices)]
        executable = compile_plan(graph, plan, used)
        assert count_footprint(graph, plan, arrange(infos[: len(used)]), devices=infos[: len(used)]) == (
            executable.plan.memory
        )


def test_launch_of_three_tells_its_nodes_with_shares() -> None:
    case, (device,) = inverted_block(), open_devices(CPUS[:1])
    plan = plan_single(case.plain_graph, device=CPUS[0])
    labels = [label for _, label in compile_plan(case.plain_graph, plan, [device]).entries]
    parts = [label.parts for label in labels if label is not None and label.parts]
    assert any(len(one) == 3 for one in parts)
    for one in parts:
        assert sum(share for _, share in one) == pytest.approx(1.0)
    told = {name for one in parts for name, _ in one} | {label.name for label in labels if label is not None}
    assert told >= {node.name for node in case.plain_graph.nodes}

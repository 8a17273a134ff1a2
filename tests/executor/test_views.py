"""Concatenated tensors lie where they are concatenated, and the numbers stay those of ONNX Runtime."""

from functools import cache

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from codl.devices.opencl import open_devices
from codl.executor.compile import compile_plan
from codl.frontend import load_graph
from codl.ir.graph import Graph
from codl.ir.ops import Concat
from codl.partitioner.even import plan_even
from codl.plan.memory import plan_memory
from codl.plan.schedule import make_schedule
from codl.plan.sharing import Sharing
from codl.plan.single import plan_single
from codl.plan.steps import Plan
from codl.plan.views import find_views
from tests.arrangements import arrange_alike
from tests.exactness import ARRANGEMENTS, DEVICES, POISONS, declare_discrete
from tests.oracle import NETWORK_TOLERANCE, random_feeds, relative_error, run_reference
from tests.random_plans import draw_plan

COHERENT = arrange_alike(Sharing.COHERENT, 1)


@cache
def dense_block() -> onnx.ModelProto:
    """Return a network whose concatenations nest, repeat an input, run along H and read others' halos."""
    rng = np.random.default_rng(0)
    weights: list[onnx.TensorProto] = []
    nodes: list[onnx.NodeProto] = []

    def conv(x: str, y: str, channels: tuple[int, int], size: int) -> None:
        scale = np.float32(1 / np.sqrt(channels[0] * size * size))
        value = rng.standard_normal((channels[1], channels[0], size, size), np.float32) * scale
        weights.append(numpy_helper.from_array(value, f"w_{y}"))
        nodes.append(helper.make_node("Conv", [x, f"w_{y}"], [y], pads=[size // 2] * 4))

    def concat(inputs: list[str], y: str, axis: int = 1) -> None:
        nodes.append(helper.make_node("Concat", inputs, [y], axis=axis))

    conv("x", "a", (3, 5), 3)
    conv("a", "b", (5, 4), 1)
    concat(["a", "b"], "ab")
    conv("ab", "c", (9, 6), 3)
    concat(["ab", "c"], "abc")
    conv("abc", "d", (15, 7), 3)
    concat(["abc", "d", "b", "b"], "all")
    conv("all", "e", (30, 5), 3)
    concat(["e", "a"], "tall", axis=2)
    conv("tall", "y", (5, 8), 3)
    nodes.append(helper.make_node("MaxPool", ["d"], ["z"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
    graph = helper.make_graph(
        nodes,
        "dense_block",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 13, 11])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "z")],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@cache
def dense_graph() -> Graph:
    return load_graph(dense_block().SerializeToString())


def views_of(graph: Graph, plan: Plan) -> dict[str, tuple[str, tuple[int, ...]]]:
    schedule = make_schedule(graph, plan, COHERENT)
    memory = plan_memory(graph, schedule, COHERENT)
    regions = {place: block.region for place, block in memory.blocks.items()}
    apart = (*graph.inputs, *graph.outputs)
    found = find_views(graph, schedule, regions, COHERENT, apart=apart)
    return {tensor: (view.holder, view.shift) for (tensor, _), view in found.items()}


def test_nested_concatenations_lie_in_the_last_one() -> None:
    views = views_of(dense_graph(), plan_single(dense_graph(), device="left"))
    assert views == {
        "ab": ("all", (0, 0, 0, 0)),
        "abc": ("all", (0, 0, 0, 0)),
        "b": ("all", (0, 22, 0, 0)),
        "c": ("all", (0, 9, 0, 0)),
        "d": ("all", (0, 15, 0, 0)),
        "e": ("tall", (0, 0, 0, 0)),
        "a": ("tall", (0, 0, 13, 0)),
    }


@pytest.mark.parametrize("device", DEVICES)
def test_what_lies_in_place_is_not_copied(device: str) -> None:
    graph = dense_graph()
    executable = compile_plan(graph, plan_single(graph, device=device), open_devices((device,)))
    others = sum(not isinstance(node.op, Concat) for node in graph.nodes)
    assert executable.launch_count == others + 2  # `a` into `ab`, and `b` for the second time


@pytest.mark.parametrize(("sharing", "discrete"), ARRANGEMENTS.values(), ids=ARRANGEMENTS)
def test_views_are_exact(sharing: Sharing, discrete: tuple[int, ...]) -> None:
    graph, feeds = dense_graph(), random_feeds(dense_block())
    expected = run_reference(dense_block(), feeds, graph.outputs)
    devices = declare_discrete(open_devices(DEVICES), *(index % len(DEVICES) for index in discrete))
    plans = [plan_even(graph, devices=DEVICES, max_chain_length=length) for length in (1, 3, 20)]
    plans += [draw_plan(graph, DEVICES, np.random.default_rng(seed)) for seed in range(12)]
    for plan in plans:
        executable = compile_plan(graph, plan, devices, sharing=sharing)
        for poison in POISONS:
            executable.poison(poison)
            for name, value in executable.run(feeds).items():
                assert relative_error(value, expected[name]) <= NETWORK_TOLERANCE, (name, plan)

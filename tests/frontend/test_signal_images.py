"""Networks over signals: 1-D windows are windows over images of one row, turned once at either end."""

from collections import Counter
from typing import Any

import numpy as np
import onnx
import pytest

from codl.devices.opencl import open_devices
from codl.frontend import load_graph
from codl.frontend.shapes import Inferred
from codl.frontend.signal_images import widen_signals
from codl.ir.ops import HostCall, Reshape
from codl.plan.single import plan_single
from tests.exactness import DEVICES, Case
from tests.frontend.onnx_models import make_model, node, random_array
from tests.random_plans import draw_plan

X = {"x": (2, 6, 40)}


def convolve(source: str, target: str, weights: str, **attributes: Any) -> onnx.NodeProto:
    return node("Conv", [source, weights], [target], name=target, **attributes)


def model(nodes: list[onnx.NodeProto], outputs: list[str], **constants: Any) -> onnx.ModelProto:
    values = {"w": random_array(8, 6, 3), "v": random_array(8, 8, 3, seed=2), **constants}
    read = {name for one in nodes for name in one.input}
    return make_model(
        nodes, inputs=X, outputs=outputs, constants={k: v for k, v in values.items() if k in read}
    )


NETWORKS = {
    "chain": model(
        [
            convolve("x", "a", "w", pads=[1, 1], strides=[2]),
            node("Relu", ["a"], ["b"]),
            convolve("b", "c", "v", pads=[2, 0], dilations=[1], auto_pad="NOTSET"),
            node("Add", ["c", "b"], ["d"]),
            node("MaxPool", ["d"], ["e"], kernel_shape=[3], strides=[2]),
            node("AveragePool", ["e"], ["y"], kernel_shape=[2], pads=[1, 0], count_include_pad=1),
        ],
        ["y"],
    ),
    "constants": model(
        [
            convolve("x", "a", "w", auto_pad="SAME_UPPER"),
            node("Mul", ["a", "scale"], ["b"]),
            node("Add", ["shift", "b"], ["c"]),
            node("PRelu", ["c", "slope"], ["d"]),
            node("Clip", ["d", "low"], ["e"]),
            convolve("e", "y", "v"),
        ],
        ["y"],
        scale=random_array(1, 8, 1),
        shift=random_array(40),
        slope=random_array(8, 1),
        low=np.float32(-0.5),
    ),
    "branches": model(
        [
            convolve("x", "a", "w"),
            node("Split", ["a"], ["b", "c"], axis=-2),
            node("Tanh", ["b"], ["d"]),
            node("Sigmoid", ["c"], ["e"]),
            node("Mul", ["d", "e"], ["f"]),
            node("Slice", ["a", "starts", "ends", "axes"], ["g"]),
            node("Concat", ["g", "f"], ["h"], axis=1),
            convolve("h", "i", "v", group=1),
            node("GlobalAveragePool", ["i"], ["y"]),
        ],
        ["y", "i"],
        starts=np.array([4], np.int64),
        ends=np.array([2**62], np.int64),
        axes=np.array([1], np.int64),
    ),
    "transposed": model(
        [
            node("ConvTranspose", ["x", "u"], ["a"], strides=[2], output_padding=[1], pads=[1, 1]),
            node("InstanceNormalization", ["a", "ones", "zeros"], ["b"]),
            node("LeakyRelu", ["b"], ["c"]),
            convolve("c", "y", "v", group=1),
        ],
        ["y"],
        u=random_array(6, 8, 3),
        ones=random_array(8),
        zeros=random_array(8),
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_numbers_are_those_of_onnx_runtime(name: str) -> None:
    case, devices = Case(NETWORKS[name]), open_devices(DEVICES)
    assert not any(isinstance(one.op, HostCall) for one in case.graph.nodes)
    assert list(case.find_errors(plan_single(case.graph, device=DEVICES[0]), devices[:1])) == []
    for seed in range(2):
        plan = draw_plan(case.graph, DEVICES, np.random.default_rng(seed))
        assert list(case.find_errors(plan, devices)) == []


@pytest.mark.parametrize(
    ("name", "turns"), [("chain", 2), ("constants", 2), ("branches", 3), ("transposed", 2)]
)
def test_signals_are_turned_once_at_either_end(name: str, turns: int) -> None:
    kinds = Counter(type(one.op) for one in load_graph(NETWORKS[name].SerializeToString()).nodes)
    assert kinds[Reshape] == turns


@pytest.mark.parametrize(
    "nodes",
    [
        [node("MaxPool", ["x"], ["y", "places"], kernel_shape=[2])],
        [node("Conv", ["x", "x"], ["y"])],
        [node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3])],
        [node("Conv", ["x", "w"], ["y"], pads=[1])],
        [node("Conv", ["x", "w"], ["y"], strides=[1, 1])],
    ],
    ids=["places", "weights at run time", "kernel", "pads", "strides"],
)
def test_what_is_no_window_over_a_signal_stays_as_it_is(nodes: list[onnx.NodeProto]) -> None:
    wanted = model(nodes, ["y"])
    before = wanted.SerializeToString()
    shapes = {"x": (2, 6, 40), "y": (2, 8, 38), "places": (2, 8, 38)}
    types = {"x": "tensor(float)", "y": "tensor(float)", "places": "tensor(int64)"}
    assert not widen_signals(wanted, Inferred(shapes=shapes, types=types))
    assert wanted.SerializeToString() == before


def test_a_slice_without_axes_takes_signals() -> None:
    nodes = [convolve("x", "a", "w"), node("Slice", ["a", "starts", "ends", "", "steps"], ["y"])]
    values = {"starts": [0, 2, 1], "ends": [2, 8, 30], "steps": [1, 3, 2]}
    case = Case(model(nodes, ["y"], **{name: np.array(one, np.int64) for name, one in values.items()}))
    assert list(case.find_errors(plan_single(case.graph, device=DEVICES[0]), open_devices(DEVICES[:1]))) == []


def test_names_that_a_model_has_are_not_taken_again() -> None:
    nodes = [convolve("x", "x/image", "w"), node("Relu", ["x/image"], ["y"])]
    case = Case(make_model(nodes, inputs=X, outputs=["y"], constants={"w": random_array(8, 6, 3)}))
    assert len({one.name for one in case.graph.nodes}) == len(case.graph.nodes)
    assert list(case.find_errors(plan_single(case.graph, device=DEVICES[0]), open_devices(DEVICES[:1]))) == []

"""What models that are twice as long cost: about twice as many calls of Python functions."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import onnx
import pytest

import codl
from tests.frontend.onnx_models import make_model, node

_LENGTH = 40


def chain(count: int, *operators: str, shape: tuple[int, ...] = (1, 4, 8, 8), **attributes: Any) -> bytes:
    """Return a model of ``count`` nodes behind each other, of some operators in turn."""
    names = ["x", *(f"t{index}" for index in range(1, count)), "y"]
    constants = {name: np.array([value]) for name, value in (("b", 0), ("e", 8), ("a", 3))}
    nodes = []
    for index in range(count):
        kind = operators[index % len(operators)]
        more = ["b", "e", "a"] if kind == "Slice" else []
        nodes.append(node(kind, [names[index], *more], [names[index + 1]], **attributes))
    return bytes(make_model(nodes, inputs={"x": shape}, constants=constants).SerializeToString())


def dense(count: int) -> bytes:
    """Return a model whose concatenations each lie in the next one."""
    nodes, last = [], "x"
    for index in range(count):
        output = "y" if index == count - 1 else f"c{index}"
        nodes.append(node("Sigmoid", ["x"], [f"s{index}"]))
        nodes.append(node("Concat", [last, f"s{index}"], [output], axis=1))
        last = output
    return bytes(make_model(nodes, inputs={"x": (1, 4, 8, 8)}).SerializeToString())


CEIL_POOL = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1}
"""Of one pixel: ONNX's inference counts a window that lies in the padding."""
MODELS: dict[str, Callable[[int], bytes]] = {
    "sigmoid": lambda count: chain(count, "Sigmoid"),
    "slice": lambda count: chain(count, "Slice"),
    "ceil pool": lambda count: chain(count, "MaxPool", shape=(1, 4, 1, 1), **CEIL_POOL),
    "host and device in turn": lambda count: chain(count, "Celu", "Sigmoid"),
    "concat in concat": dense,
}


plan = partial(codl.plan, devices=["left", "right"])


def count_calls(function: Callable[[], object]) -> int:
    count = 0

    def note(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("kind", MODELS)
def test_plan_takes_calls_in_proportion_to_the_nodes(kind: str) -> None:
    plan(MODELS[kind](2))  # what is only done once

    short, long = (count_calls(partial(plan, MODELS[kind](count))) for count in (_LENGTH, 2 * _LENGTH))

    assert long < 2.2 * short


@pytest.mark.parametrize("kind", ["slice", "ceil pool"])
def test_shape_inference_sees_each_node_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    infer = onnx.shape_inference.infer_shapes

    def watch(model: onnx.ModelProto, **options: Any) -> onnx.ModelProto:
        seen.extend(n.output[0] for n in model.graph.node)
        return infer(model, **options)

    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", watch)

    plan(MODELS[kind](_LENGTH))

    assert max(map(seen.count, seen)) <= 2, "once as the model came, once as it is simplified"

"""Shapes and constants that do not fit each other: a typed error names the node before anything runs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from codl.errors import ModelError
from codl.frontend import load_graph
from tests.frontend.onnx_models import check_translation, make_model, node, random_array

Shape = tuple[int, ...]


def as_initializer(x: Shape, target: Shape) -> onnx.ModelProto:
    reshape = node("Reshape", ["x", "s"], ["y"], name="liar")
    return make_model([reshape], inputs={"x": x}, constants={"s": np.array(target, np.int64)})


def as_node(x: Shape, target: Shape) -> onnx.ModelProto:
    constant = node("Constant", [], ["s"], value=numpy_helper.from_array(np.array(target, np.int64)))
    return make_model([constant, node("Reshape", ["x", "s"], ["y"], name="liar")], inputs={"x": x})


def as_arithmetic(x: Shape, target: Shape) -> onnx.ModelProto:
    nodes = [
        node("Shape", ["x"], ["lengths"]),
        node("Sub", ["lengths", "lengths"], ["zeros"]),
        node("Gather", ["zeros", "places"], ["none"], axis=0),
        node("Add", ["none", "k"], ["s"]),
        node("Reshape", ["x", "s"], ["y"], name="liar"),
    ]
    places = np.zeros(len(target), np.int64)
    constants = {"places": places, "k": np.array(target, np.int64)}
    return make_model(nodes, inputs={"x": x}, constants=constants)


def in_branch(x: Shape, target: Shape) -> onnx.ModelProto:
    branches = {
        f"{name}_branch": helper.make_graph(
            [node("Reshape", ["x", f"s_{name}"], [name], name=f"liar_{name}")],
            name,
            [],
            [helper.make_tensor_value_info(name, 1, None)],
            [numpy_helper.from_array(np.array(shape, np.int64), f"s_{name}")],
        )
        for name, shape in (("then", target), ("else", x))
    }
    return make_model(
        [node("If", ["c"], ["y"], **branches)], inputs={"x": x}, constants={"c": np.array(True)}
    )


WAYS: dict[str, Callable[[Shape, Shape], onnx.ModelProto]] = {
    "initializer": as_initializer,
    "constant node": as_node,
    "arithmetic": as_arithmetic,
    "folded branch": in_branch,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("x", "target"),
    [
        ((2, 2, 4, 4), (0, 0, 0, 100)),
        ((2, 2, 4, 4), (0, 0, 0, 1_000_000)),
        ((1, 4, 8, 8), (0,)),
        ((1, 4, 8, 8), ()),
        ((1, 4, 8, 8), (1, 4, 64, 0)),
        ((1, 4, 8, 8), (1, 1, 1, 1, 1, 257)),
    ],
    ids=str,
)
def test_names_a_reshape_to_another_number_of_elements(way: str, x: Shape, target: Shape) -> None:
    with pytest.raises(ModelError, match=r"\(Reshape\): got shape .* expected as many elements"):
        load_graph(WAYS[way](x, target).SerializeToString())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("target", [(0, 0, -1), (0, 8, 4, 8), (-1,), (1, 0, 64)], ids=str)
def test_reshapes_as_onnx_runtime_does(way: str, target: Shape) -> None:
    graph = check_translation(WAYS[way]((1, 4, 8, 8), target))

    assert not graph.host_models


def constant_model(op_type: str, x: Shape, constants: dict[str, Any], **attributes: Any) -> onnx.ModelProto:
    liar = node(op_type, ["x", *constants], ["y"], name="liar", **attributes)
    return make_model([liar], inputs={"x": x}, constants=constants)


CONSTANTS: dict[str, tuple[onnx.ModelProto, str]] = {
    "C of Gemm": (
        constant_model("Gemm", (2, 5), {"b": random_array(5, 4), "c": random_array(3)}),
        r"node 'liar' \(Gemm\): got C \[3\], expected one that broadcasts to \[2, 4\]",
    ),
    "limit of Clip": (
        constant_model("Clip", (2, 4), {"low": random_array(2)}),
        r"node 'liar' \(Clip\): got 'low' of shape \[2\], expected one element",
    ),
    "value of Pad": (
        constant_model("Pad", (2, 4), {"pads": np.array([0, 1, 0, 1]), "value": random_array(2)}),
        r"node 'liar' \(Pad\): got 'value' of shape \[2\], expected one element",
    ),
    "pads of Pad": (
        constant_model("Pad", (2, 4), {"pads": np.array([0, 1, 0, 1, 1, 1])}),
        "ONNX Runtime refuses",
    ),
    "scales of Resize": (
        constant_model(
            "Resize", (1, 2, 4, 4), {"roi": random_array(0), "scales": np.array([1, 1, 1e30, 1], np.float32)}
        ),
        r"node 'liar' \(Resize\): got factors .* expected lengths below 2\^63",
    ),
}


@pytest.mark.parametrize("case", CONSTANTS)
def test_names_a_constant_that_does_not_fit(case: str) -> None:
    model, expected = CONSTANTS[case]

    with pytest.raises(ModelError, match=expected):
        load_graph(model.SerializeToString())


def test_reads_an_initializer_that_says_it_is_a_segment() -> None:
    model = make_model(
        [node("Add", ["x", "b"], ["y"])], inputs={"x": (2, 4)}, constants={"b": random_array(4)}
    )
    model.graph.initializer[0].segment.end = 4

    check_translation(model)


def local_function(name: str, calls: str, domain: str = "local") -> onnx.FunctionProto:
    body = [node(calls, ["a"], ["b"], domain=domain)]
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    return helper.make_function("local", name, ["a"], ["b"], body, sets)


@pytest.mark.parametrize(
    "functions",
    [
        [local_function("f", "f")],
        [local_function("f", "g"), local_function("g", "f")],
        [local_function("f", "Relu", ""), local_function("f", "Relu", "")],
    ],
    ids=["calls itself", "call each other", "given twice"],
)
def test_refuses_local_functions(functions: list[onnx.FunctionProto]) -> None:
    model = make_model([node("f", ["x"], ["y"], domain="local")], inputs={"x": (2, 4)})
    model.opset_import.append(helper.make_opsetid("local", 1))
    model.functions.extend(functions)

    with pytest.raises(ModelError, match="function"):
        load_graph(model.SerializeToString())

"""Sums and norms over axes, powers and repeated tensors are operators that have kernels already."""

from math import prod
from typing import Any

import numpy as np
import pytest

from codl.ir.ops import Binary, HostCall, Reshape
from tests.frontend.onnx_models import check_host, check_translation, make_model, node, random_array

AXES = {
    "last": ((2, 3, 5), [-1], 1),
    "rows": ((2, 3, 4, 5), [2, 3], 0),
    "channels": ((2, 3, 4, 5), [1], 1),
    "two apart": ((2, 3, 4, 5), [3, 1], 1),
    "of five": ((2, 2, 3, 4, 5), [1], 0),
    "some of six": ((2, 1, 2, 3, 4, 5), [3, 2], 1),
}


def reduce(op_type: str, shape: tuple[int, ...], axes: list[int], keepdims: int) -> Any:
    is_input = op_type == "ReduceSum"
    inputs, attributes = (["s", "axes"], {}) if is_input else (["s"], {"axes": axes})
    nodes = [
        node("Reshape", ["x", "shape"], ["s"]),
        node(op_type, inputs, ["r"], keepdims=keepdims, **attributes),
        node("Reshape", ["r", "flat"], ["y"]),
    ]
    constants = {"shape": np.array(shape, np.int64), "flat": np.array([1, -1], np.int64)}
    constants |= {"axes": np.array(axes, np.int64)} if is_input else {}
    return make_model(nodes, inputs={"x": (2, prod(shape) // 2)}, constants=constants)


@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceSumSquare", "ReduceL2"])
@pytest.mark.parametrize("case", AXES.values(), ids=AXES)
def test_sums_and_norms(op_type: str, case: tuple[tuple[int, ...], list[int], int]) -> None:
    graph = check_translation(reduce(op_type, *case))
    assert not any(isinstance(one.op, HostCall) for one in graph.nodes)


def test_no_axes_are_all_axes_or_none() -> None:
    check_translation(make_model([node("ReduceSum", ["x"], ["y"], keepdims=0)], inputs={"x": (2, 3)}))
    only = node("ReduceSum", ["x"], ["y"], name="sum", noop_with_empty_axes=1)
    check_host(make_model([only], inputs={"x": (2, 3)}), reason="node 'sum' (ReduceSum): got axes []")


def test_axes_apart_of_many_stay_on_the_host() -> None:
    check_host(
        reduce("ReduceSum", (2, 2, 3, 2, 5), [0, 2], 1),
        reason="got axes [0, 2] of 5, expected neighbouring ones",
    )


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_softmax_of_five_axes(axis: int) -> None:
    nodes = [
        node("Reshape", ["x", "shape"], ["s"]),
        node("Softmax", ["s"], ["t"], axis=axis),
        node("Reshape", ["t", "flat"], ["y"]),
    ]
    constants = {"shape": np.array((2, 3, 2, 4, 5), np.int64), "flat": np.array([6, 40], np.int64)}
    graph = check_translation(make_model(nodes, inputs={"x": (6, 40)}, constants=constants))
    assert not any(isinstance(one.op, HostCall) for one in graph.nodes)


@pytest.mark.parametrize(
    ("shape", "wanted"), [((3, 1), (2, 3, 4)), ((1, 3, 1, 1), (2, 3, 4, 5)), ((3,), (1,)), ((2, 1), (2, 1))]
)
def test_expand(shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    nodes = [node("Expand", ["x", "shape"], ["e"]), node("Relu", ["e"], ["y"])]
    constants = {"shape": np.array(wanted, np.int64)}
    graph = check_translation(make_model(nodes, inputs={"x": shape}, constants=constants))
    largest = max((value.size for value in graph.constants.values()), default=1)
    assert largest <= prod(np.broadcast_shapes(shape, wanted)) // prod(shape)


@pytest.mark.parametrize(("exponent", "products"), [(0.5, 0), (1.0, 0), (2.0, 1), (3.0, 2), (4.0, 3)])
def test_powers(exponent: float, products: int) -> None:
    nodes = [node("Mul", ["x", "x"], ["s"]), node("Pow", ["s", "e"], ["p"]), node("Neg", ["p"], ["y"])]
    constants = {"e": np.array(exponent, np.float32)}
    graph = check_translation(make_model(nodes, inputs={"x": (3, 5)}, constants=constants))
    assert sum(isinstance(one.op, Binary) for one in graph.nodes) == 2 + products


@pytest.mark.parametrize("exponent", [-1.0, 5.0, 0.0])
def test_other_powers_stay_on_the_host(exponent: float) -> None:
    only = node("Pow", ["x", "e"], ["y"], name="power")
    model = make_model([only], inputs={"x": (3, 5)}, constants={"e": np.array(exponent, np.float32)})
    check_host(model, reason="node 'power' (Pow): got exponent")


@pytest.mark.parametrize("op_type", ["Abs", "Neg", "Reciprocal"])
def test_functions_of_single_elements(op_type: str) -> None:
    graph = check_translation(make_model([node(op_type, ["x"], ["y"])], inputs={"x": (3, 5)}))
    assert not any(isinstance(one.op, HostCall | Reshape) for one in graph.nodes)


def test_weights_may_be_repeated() -> None:
    nodes = [node("Expand", ["w", "shape"], ["e"]), node("Add", ["x", "e"], ["y"])]
    constants: dict[str, Any] = {"w": random_array(1, 5), "shape": np.array((3, 5), np.int64)}
    check_translation(make_model(nodes, inputs={"x": (3, 5)}, constants=constants))


def test_many_repetitions_stay_on_the_host() -> None:
    nodes = [node("Expand", ["x", "shape"], ["e"], name="wide"), node("ReduceMax", ["e"], ["y"], keepdims=0)]
    model = make_model(nodes, inputs={"x": (1, 1)}, constants={"shape": np.array((2**12, 2**11), np.int64)})
    check_host(model, reason="node 'wide' (Expand): got 8388608 repetitions")

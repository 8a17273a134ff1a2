"""Convolutions, poolings and means, one a model, against ONNX Runtime."""

from typing import Any

import numpy as np
import pytest

from codl.ir.graph import Graph
from codl.ir.ops import (
    CombineRows,
    Conv2d,
    Pool2d,
    PoolKind,
    ReduceMean,
    RowSum,
)
from tests.frontend.onnx_models import check_host, check_translation, make_model, node, random_array


def kinds(graph: Graph) -> list[str]:
    return [n.kind for n in graph.nodes]


CONVOLUTIONS: dict[str, tuple[dict[str, Any], tuple[int, ...], dict[str, Any]]] = {
    "plain": ({}, (4, 3, 3, 3), {"kernel": (3, 3)}),
    "strided": ({"strides": [2, 3]}, (4, 3, 3, 3), {"stride": (2, 3)}),
    "padded": ({"pads": [1, 0, 2, 3]}, (4, 3, 3, 3), {"pads": (1, 0, 2, 3)}),
    "dilated": ({"dilations": [2, 1]}, (4, 3, 3, 3), {"dilation": (2, 1)}),
    "grouped": ({"group": 3}, (6, 1, 3, 3), {"groups": 3}),
    "asymmetric kernel": ({"pads": [0, 2, 0, 2]}, (4, 3, 1, 5), {"kernel": (1, 5)}),
    "kernel shape stated": ({"kernel_shape": [3, 3]}, (4, 3, 3, 3), {"kernel": (3, 3)}),
    "same upper": ({"auto_pad": "SAME_UPPER", "strides": [2, 2]}, (4, 3, 5, 3), {"pads": (1, 1, 2, 1)}),
    "same lower": ({"auto_pad": "SAME_LOWER", "strides": [2, 2]}, (4, 3, 5, 3), {"pads": (2, 1, 1, 1)}),
    "valid": ({"auto_pad": "VALID", "strides": [2, 2]}, (4, 3, 2, 2), {"pads": (0, 0, 0, 0)}),
}


@pytest.mark.parametrize("has_bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_translates_conv(case: str, has_bias: bool) -> None:
    attributes, weight, expected = CONVOLUTIONS[case]
    constants = {"w": random_array(*weight), "b": random_array(weight[0])}
    names = ["x", "w", "b"] if has_bias else ["x", "w"]
    model = make_model(
        [node("Conv", names, ["y"], name="conv", **attributes)],
        inputs={"x": [2, 3, 10, 9]},
        constants={name: constants[name] for name in names[1:]},
    )

    graph = check_translation(model)

    (only,) = graph.nodes
    assert isinstance(only.op, Conv2d)
    assert only.name == "conv"
    assert only.inputs == tuple(names)
    assert only.op.has_bias is has_bias
    for name, value in expected.items():
        assert getattr(only.op, name) == value


POOLINGS: dict[str, tuple[dict[str, Any], tuple[int, int]]] = {
    "plain": ({"kernel_shape": [3, 2]}, (8, 8)),
    "strided": ({"kernel_shape": [3, 3], "strides": [2, 3]}, (4, 3)),
    "padded": ({"kernel_shape": [3, 3], "pads": [1, 0, 2, 1]}, (11, 8)),
    "dilated": ({"kernel_shape": [3, 2], "dilations": [2, 3]}, (6, 6)),
    "floor": ({"kernel_shape": [3, 3], "strides": [2, 2]}, (4, 4)),
    "ceil": ({"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, (5, 4)),
    "ceil padded": (
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
        (6, 5),
    ),
    "ceil drops a window in the padding": (
        {"kernel_shape": [2, 2], "strides": [3, 3], "pads": [1, 1, 1, 1], "ceil_mode": 1},
        (4, 4),
    ),
    "same upper": ({"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}, (5, 5)),
    "same lower": ({"kernel_shape": [4, 3], "strides": [3, 2], "auto_pad": "SAME_LOWER"}, (4, 5)),
    "valid": ({"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "VALID"}, (4, 4)),
    "valid ceil": (
        {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "VALID", "ceil_mode": 1},
        (5, 4),
    ),
}


@pytest.mark.parametrize("case", POOLINGS)
@pytest.mark.parametrize("flavour", ["MaxPool", "AveragePool", "AveragePool that counts padding"])
def test_translates_pooling(flavour: str, case: str) -> None:
    attributes, size = POOLINGS[case]
    op_type = flavour.split(maxsplit=1)[0]
    counts = flavour.endswith("padding")
    extra = {"count_include_pad": 1} if counts else {}
    model = make_model(
        [node(op_type, ["x"], ["y"], name="pool", **attributes, **extra)],
        inputs={"x": [2, 3, 10, 9]},
        opset=22,
    )

    graph = check_translation(model)

    (only,) = graph.nodes
    assert isinstance(only.op, Pool2d)
    assert only.op.kind is (PoolKind.MAX if op_type == "MaxPool" else PoolKind.AVERAGE)
    assert only.op.counts_padding is counts
    assert graph.shape("y") == (2, 3, *size)


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
def test_drops_windows_in_the_padding_where_old_shape_inference_counts_them(op_type: str) -> None:
    attributes = {"kernel_shape": [2, 2], "strides": [3, 3], "pads": [1, 1, 1, 1], "ceil_mode": 1}
    nodes = [
        node(op_type, ["x"], ["a"], **attributes),
        node(op_type, ["a"], ["b"], **attributes),
        node("Flatten", ["b"], ["y"]),
    ]
    model = make_model(nodes, inputs={"x": [1, 2, 10, 10]}, opset=12)

    graph = check_translation(model, infers_shapes=False)

    assert graph.shape("a") == (1, 2, 4, 4)
    assert graph.shape("y") == (1, 8)


def test_leaves_max_pool_with_indices_to_the_host() -> None:
    pool = node("MaxPool", ["x"], ["y", "i"], name="pool", kernel_shape=[2, 2])
    model = make_model([pool], inputs={"x": [1, 2, 4, 4]}, outputs=["y", "i"])
    model.graph.output[1].type.tensor_type.elem_type = 7

    check_host(model, reason="node 'pool' (MaxPool): got output Indices")


def test_splits_global_average_pool_into_partial_and_combining_node() -> None:
    model = make_model([node("GlobalAveragePool", ["x"], ["y"], name="mean")], inputs={"x": [2, 3, 5, 7]})

    graph = check_translation(model)

    rows, mean = graph.nodes
    assert rows.op == RowSum()
    assert mean.op == CombineRows(scale=1 / 35)
    assert graph.shape(rows.output) == (2, 3, 5, 1)
    assert (rows.name, mean.name) == ("mean/rows", "mean")


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_translates_reduce_mean_over_images(opset: int, keepdims: int) -> None:
    axes: dict[str, Any] = {"axes": [-1, 2]} if opset < 18 else {}
    mean = node("ReduceMean", ["x"] if axes else ["x", "axes"], ["y"], keepdims=keepdims, **axes)
    constants = {} if axes else {"axes": np.array([2, 3])}
    model = make_model([mean], inputs={"x": [2, 3, 4, 5]}, constants=constants, opset=opset)

    graph = check_translation(model)

    assert kinds(graph) == ["RowSum", "CombineRows"] + ["Reshape"] * (1 - keepdims)


def test_splits_global_max_pool_into_rows_and_their_maximum() -> None:
    model = make_model([node("GlobalMaxPool", ["x"], ["y"], name="max")], inputs={"x": [2, 3, 5, 7]})

    graph = check_translation(model)

    assert [n.op for n in graph.nodes] == [
        Pool2d(kind=PoolKind.MAX, kernel=(1, 7)),
        Pool2d(kind=PoolKind.MAX, kernel=(5, 1)),
    ]
    assert [n.name for n in graph.nodes] == ["max/rows", "max"]


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [(0,), (1,), (-1, 1), (3,), None], ids=str)
def test_translates_reduce_mean_over_any_axes(
    opset: int, keepdims: int, axes: tuple[int, ...] | None
) -> None:
    names, constants, attributes = ["x"], {}, {}
    if axes is not None and opset < 18:
        attributes = {"axes": list(axes)}
    elif axes is not None:
        names, constants = ["x", "axes"], {"axes": np.array(axes)}
    mean = node("ReduceMean", names, ["y"], keepdims=keepdims, **attributes)
    model = make_model([mean], inputs={"x": [2, 3, 4, 5]}, constants=constants, opset=opset)

    graph = check_translation(model)

    assert kinds(graph) == ["ReduceMean"] + ["Reshape"] * (1 - keepdims)
    assert graph.nodes[0].op == ReduceMean(axes=tuple(sorted(a % 4 for a in axes or range(4))))


def test_removes_reduce_mean_over_no_axes() -> None:
    mean = node("ReduceMean", ["x"], ["a"], noop_with_empty_axes=1)
    model = make_model([mean, node("Relu", ["a"], ["y"])], inputs={"x": [2, 3]}, opset=18)

    assert kinds(check_translation(model)) == ["Unary"]

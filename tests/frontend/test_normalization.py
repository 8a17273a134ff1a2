"""Normalizations and transposed convolutions in their versions, against ONNX Runtime."""

from typing import Any

import numpy as np
import pytest

import codl
from codl.ir.graph import Graph
from codl.ir.ops import (
    ActivationKind,
    CombineMoments,
    ConvTranspose2d,
    LocalResponseNorm,
    Normalize,
    RowMoments,
)
from tests.frontend.onnx_models import check_host, check_translation, make_model, node, random_array
from tests.oracle import random_feeds


def instance_norm(*shape: int, opset: int = 17, then: Any = ()) -> Graph:
    norm = node("InstanceNormalization", ["x", "s", "t"], ["n" if then else "y"], name="norm", epsilon=0.25)
    constants = {"s": random_array(shape[1]), "t": random_array(shape[1], seed=2)}
    return check_translation(make_model([norm, *then], inputs={"x": shape}, constants=constants, opset=opset))


@pytest.mark.parametrize("opset", [7, 17, 22])
def test_splits_instance_normalization_into_moments_and_a_map(opset: int) -> None:
    graph = instance_norm(2, 3, 5, 7, opset=opset)

    assert [n.op for n in graph.nodes] == [
        RowMoments(),
        CombineMoments(epsilon=0.25, row_length=7),
        Normalize(),
    ]
    assert [n.name for n in graph.nodes] == ["norm/rows", "norm/factors", "norm"]
    assert [graph.shape(n.output) for n in graph.nodes] == [(2, 3, 5, 2), (2, 3, 1, 2), (2, 3, 5, 7)]


def test_sees_signals_as_images_of_one_row() -> None:
    graph = instance_norm(2, 3, 20)

    assert [n.kind for n in graph.nodes] == [
        "Reshape",
        "RowMoments",
        "CombineMoments",
        "Normalize",
        "Reshape",
    ]


def test_fuses_the_activation_behind_instance_normalization() -> None:
    graph = instance_norm(1, 3, 5, 7, then=[node("Relu", ["n"], ["y"])])

    assert graph.nodes[-1].op == Normalize()
    assert graph.nodes[-1].epilogue.activation.kind is ActivationKind.RELU


@pytest.mark.parametrize("swapped", [False, True])
def test_fuses_the_addition_behind_instance_normalization(swapped: bool) -> None:
    operands = ["x", "n"] if swapped else ["n", "x"]
    graph = instance_norm(1, 3, 5, 7, then=[node("Add", operands, ["y"])])

    assert [n.kind for n in graph.nodes] == ["RowMoments", "CombineMoments", "Normalize"]
    assert graph.nodes[-1].residual == "x"


@pytest.mark.parametrize("opset", [7, 13])
@pytest.mark.parametrize(
    "attributes", [{"size": 5}, {"size": 3, "alpha": 0.5, "beta": 0.6, "bias": 2.0}, {"size": 1}], ids=str
)
def test_translates_response_normalization(attributes: dict[str, Any], opset: int) -> None:
    model = make_model([node("LRN", ["x"], ["y"], **attributes)], inputs={"x": [2, 7, 4, 5]}, opset=opset)

    (only,) = check_translation(model).nodes

    defaults = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0}
    assert isinstance(only.op, LocalResponseNorm)
    for name, value in (defaults | attributes).items():
        assert getattr(only.op, name) == pytest.approx(value)


TRANSPOSED: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "plain": ({}, (3, 4, 3, 2)),
    "strided": ({"strides": [2, 3]}, (3, 4, 3, 2)),
    "padded": ({"strides": [2, 2], "pads": [1, 0, 2, 1]}, (3, 4, 3, 3)),
    "dilated": ({"dilations": [2, 3], "strides": [1, 2]}, (3, 4, 3, 2)),
    "grouped": ({"group": 3, "strides": [2, 1]}, (3, 2, 2, 3)),
    "output padding": ({"strides": [3, 2], "output_padding": [2, 1], "pads": [1, 1, 1, 1]}, (3, 4, 3, 3)),
    "kernel shape stated": ({"kernel_shape": [3, 3]}, (3, 4, 3, 3)),
    "output shape": ({"strides": [2, 2], "output_shape": [9, 12]}, (3, 4, 3, 3)),
    "odd output shape": ({"strides": [3, 2], "output_shape": [14, 10]}, (3, 4, 3, 3)),
    "output shape same upper": (
        {"strides": [3, 2], "output_shape": [14, 10], "auto_pad": "SAME_UPPER"},
        (3, 4, 4, 4),
    ),
    "output shape same lower": (
        {"strides": [3, 2], "output_shape": [14, 10], "auto_pad": "SAME_LOWER"},
        (3, 4, 4, 4),
    ),
    "same upper": ({"strides": [2, 2], "auto_pad": "SAME_UPPER"}, (3, 4, 3, 4)),
    "same lower": ({"strides": [2, 2], "auto_pad": "SAME_LOWER"}, (3, 4, 3, 4)),
    "valid": ({"strides": [2, 2], "auto_pad": "VALID"}, (3, 4, 3, 3)),
    "largest output shape": ({"strides": [2, 3], "output_shape": [12, 20]}, (3, 4, 3, 3)),
    "smallest output shape": ({"strides": [2, 1], "output_shape": [5, 6]}, (3, 4, 3, 3)),
}


@pytest.mark.parametrize("has_bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("case", TRANSPOSED)
def test_translates_conv_transpose(case: str, has_bias: bool) -> None:
    attributes, weight = TRANSPOSED[case]
    constants = {"w": random_array(*weight)}
    if has_bias:
        constants["b"] = random_array(weight[1] * attributes.get("group", 1))
    conv = node("ConvTranspose", ["x", *constants], ["y"], name="conv", **attributes)

    graph = check_translation(make_model([conv], inputs={"x": [2, 3, 5, 6]}, constants=constants))

    (only,) = graph.nodes
    assert isinstance(only.op, ConvTranspose2d)
    assert only.op.kernel == weight[2:]
    assert only.op.has_bias is has_bias
    assert only.op.groups == attributes.get("group", 1)


@pytest.mark.parametrize("groups", [1, 3])
def test_folds_batch_normalization_and_activation_into_conv_transpose(groups: int) -> None:
    channels = 2 * groups
    statistics = {name: random_array(channels, seed=i) for i, name in enumerate(("s", "t", "m"))}
    nodes = [
        node("ConvTranspose", ["x", "w"], ["a"], group=groups, strides=[2, 2]),
        node("BatchNormalization", ["a", "s", "t", "m", "v"], ["b"]),
        node("Relu", ["b"], ["y"]),
    ]
    constants = {"w": random_array(3, 2, 3, 3), "v": np.full(channels, 0.5, np.float32)} | statistics

    graph = check_translation(make_model(nodes, inputs={"x": [1, 3, 4, 4]}, constants=constants))

    assert [n.kind for n in graph.nodes] == ["ConvTranspose2d"]
    assert graph.nodes[0].epilogue.activation.kind is ActivationKind.RELU


def test_leaves_other_ranks_to_the_host() -> None:
    transposed = node("ConvTranspose", ["x", "w"], ["y"], name="head")
    model = make_model(
        [transposed], inputs={"x": [1, 3, 8, 8, 8]}, constants={"w": random_array(3, 4, 3, 3, 3)}
    )

    check_host(model, reason="node 'head' (ConvTranspose): got an input of 5 axes, expected 4")


def test_response_norm_of_a_matrix_fails_as_in_onnxruntime() -> None:
    model = make_model([node("LRN", ["x"], ["y"], name="head", size=3)], inputs={"x": [2, 5]})

    with pytest.raises(codl.HostError, match="'head'"):
        codl.InferenceSession(model.SerializeToString()).run(None, random_feeds(model))

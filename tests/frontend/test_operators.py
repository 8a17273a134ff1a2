"""Every operator of ONNX that codl translates, one a model, against ONNX Runtime."""

from typing import Any

import numpy as np
import pytest

from codl.errors import UnsupportedError
from codl.frontend import load_graph
from codl.ir.graph import Graph
from codl.ir.ops import (
    Activation,
    ActivationKind,
    Affine,
    Binary,
    BinaryKind,
    CombineRows,
    Concat,
    Conv2d,
    MatMul,
    Pool2d,
    PoolKind,
    ReduceMean,
    Reshape,
    RowSum,
    Softmax,
    SpaceToDepth,
    Unary,
)
from tests.frontend.onnx_models import check_translation, make_model, node, random_array


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


def test_refuses_max_pool_when_indices_are_used() -> None:
    pool = node("MaxPool", ["x"], ["y", "i"], name="pool", kernel_shape=[2, 2])
    model = make_model([pool], inputs={"x": [1, 2, 4, 4]}, outputs=["y", "i"])
    model.graph.output[1].type.tensor_type.elem_type = 7

    with pytest.raises(UnsupportedError, match=r"node 'pool' \(MaxPool\): got output Indices"):
        load_graph(model.SerializeToString())


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


ACTIVATIONS: dict[str, tuple[Any, dict[str, Any], int, Activation]] = {
    "relu": (node("Relu", ["x"], ["y"]), {}, 17, Activation(kind=ActivationKind.RELU)),
    "leaky relu": (
        node("LeakyRelu", ["x"], ["y"], alpha=0.25),
        {},
        17,
        Activation(kind=ActivationKind.LEAKY_RELU, alpha=0.25),
    ),
    "elu": (
        node("Elu", ["x"], ["y"], alpha=0.5),
        {},
        17,
        Activation(kind=ActivationKind.ELU, alpha=0.5),
    ),
    "plain elu": (node("Elu", ["x"], ["y"]), {}, 7, Activation(kind=ActivationKind.ELU, alpha=1.0)),
    "sigmoid": (node("Sigmoid", ["x"], ["y"]), {}, 17, Activation(kind=ActivationKind.SIGMOID)),
    "tanh": (node("Tanh", ["x"], ["y"]), {}, 17, Activation(kind=ActivationKind.TANH)),
    "hard sigmoid": (
        node("HardSigmoid", ["x"], ["y"], alpha=0.25, beta=0.375),
        {},
        17,
        Activation(kind=ActivationKind.HARD_SIGMOID, alpha=0.25, beta=0.375),
    ),
    "hard swish": (node("HardSwish", ["x"], ["y"]), {}, 14, Activation(kind=ActivationKind.HARD_SWISH)),
    "new hard swish": (node("HardSwish", ["x"], ["y"]), {}, 22, Activation(kind=ActivationKind.HARD_SWISH)),
    "clip by attributes": (
        node("Clip", ["x"], ["y"], min=-0.5, max=1.0),
        {},
        7,
        Activation(kind=ActivationKind.CLIP, alpha=-0.5, beta=1.0),
    ),
    "clip by inputs": (
        node("Clip", ["x", "low", "high"], ["y"]),
        {"low": np.float32(-0.5), "high": np.float32(1.0)},
        17,
        Activation(kind=ActivationKind.CLIP, alpha=-0.5, beta=1.0),
    ),
    "clip from above": (
        node("Clip", ["x", "", "high"], ["y"]),
        {"high": np.float32(0.5)},
        17,
        Activation(kind=ActivationKind.CLIP, alpha=float(np.finfo(np.float32).min), beta=0.5),
    ),
}


@pytest.mark.parametrize("case", ACTIVATIONS)
def test_translates_activation(case: str) -> None:
    proto, constants, opset, activation = ACTIVATIONS[case]
    model = make_model([proto], inputs={"x": [3, 5]}, constants=constants, opset=opset)

    graph = check_translation(model)

    (only,) = graph.nodes
    assert only.op == Unary()
    assert only.epilogue.activation == activation


def test_takes_the_defaults_of_hard_sigmoid() -> None:
    graph = check_translation(make_model([node("HardSigmoid", ["x"], ["y"])], inputs={"x": [3, 5]}))

    activation = graph.nodes[0].epilogue.activation
    assert (activation.alpha, activation.beta) == (pytest.approx(0.2), 0.5)


@pytest.mark.parametrize("alpha", [1 / 6, 0.2], ids=["a sixth", "a fifth"])
@pytest.mark.parametrize("swapped", [False, True])
def test_recognises_hard_swish_that_is_spelled_out(alpha: float, swapped: bool) -> None:
    gate = node("HardSigmoid", ["x"], ["g"], alpha=alpha)
    product = node("Mul", ["g", "x"] if swapped else ["x", "g"], ["y"])

    graph = check_translation(make_model([gate, product], inputs={"x": [3, 5]}))

    assert kinds(graph) == (["Unary"] if alpha == 1 / 6 else ["Unary", "Binary"])


def test_keeps_the_gate_of_hard_swish_that_something_else_reads() -> None:
    nodes = [
        node("HardSigmoid", ["x"], ["g"], alpha=1 / 6),
        node("Mul", ["x", "g"], ["s"]),
        node("Add", ["s", "g"], ["y"]),
    ]

    graph = check_translation(make_model(nodes, inputs={"x": [3, 5]}))

    assert kinds(graph) == ["Unary", "Unary", "Binary"]


def test_keeps_silu_as_two_nodes() -> None:
    nodes = [node("Sigmoid", ["x"], ["g"]), node("Mul", ["x", "g"], ["y"])]

    graph = check_translation(make_model(nodes, inputs={"x": [3, 5]}))

    assert kinds(graph) == ["Unary", "Binary"]


@pytest.mark.parametrize("slope", [(3, 1, 1), (1,), (1, 3, 1, 1), (3, 4, 5)], ids=str)
@pytest.mark.parametrize("opset", [7, 17])
def test_translates_prelu(slope: tuple[int, ...], opset: int) -> None:
    model = make_model(
        [node("PRelu", ["x", "s"], ["y"])],
        inputs={"x": [2, 3, 4, 5]},
        constants={"s": random_array(*slope)},
        opset=opset,
    )

    graph = check_translation(model)

    assert [n.op for n in graph.nodes] == [Binary(kind=BinaryKind.PRELU)]
    assert graph.nodes[0].inputs == ("x", "s")


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize(
    ("a", "b"),
    [((2, 3, 4, 5), (2, 3, 4, 5)), ((2, 3, 4, 5), (3, 1, 5)), ((4, 1), (2, 3, 1, 6)), ((3, 4), ())],
    ids=["equal", "right aligned", "both ways", "scalar"],
)
@pytest.mark.parametrize("constant", ["none", "left", "right"])
def test_translates_binary(op_type: str, a: tuple[int, ...], b: tuple[int, ...], constant: str) -> None:
    names = {"a": a, "b": b}
    fixed = {"none": [], "left": ["a"], "right": ["b"]}[constant]
    model = make_model(
        [node(op_type, ["a", "b"], ["y"])],
        inputs={name: shape for name, shape in names.items() if name not in fixed},
        constants={name: 2 + np.abs(random_array(*names[name])) for name in fixed},
    )

    graph = check_translation(model)

    (only,) = graph.nodes
    assert only.op == Binary(kind=BinaryKind(op_type.lower()))
    assert only.inputs == ("a", "b")
    assert set(graph.constants) == set(fixed)


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


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_translates_concat(axis: int) -> None:
    model = make_model(
        [node("Concat", ["a", "b", "c"], ["y"], axis=axis)],
        inputs={"a": [2, 3, 4], "b": [2, 3, 4]},
        constants={"c": random_array(2, 3, 4)},
    )

    graph = check_translation(model)

    (only,) = graph.nodes
    assert only.op == Concat(axis=axis % 3)
    assert set(graph.constants) == {"c"}


RESHAPES: dict[str, tuple[Any, dict[str, Any], tuple[int, ...]]] = {
    "flatten": (node("Flatten", ["x"], ["y"]), {}, (2, 12)),
    "flatten at 2": (node("Flatten", ["x"], ["y"], axis=2), {}, (6, 4)),
    "flatten at 0": (node("Flatten", ["x"], ["y"], axis=0), {}, (1, 24)),
    "reshape": (node("Reshape", ["x", "s"], ["y"]), {"s": np.array([0, -1])}, (2, 12)),
    "squeeze": (node("Squeeze", ["x", "s"], ["y"]), {"s": np.array([2])}, (2, 3, 4)),
    "unsqueeze": (node("Unsqueeze", ["z", "s"], ["y"]), {"s": np.array([0, 3])}, (1, 2, 3, 1)),
}


@pytest.mark.parametrize("case", RESHAPES)
def test_translates_reshape(case: str) -> None:
    proto, constants, shape = RESHAPES[case]
    inputs = {"z": [2, 3]} if "z" in proto.input else {"x": [2, 3, 1, 4]}
    model = make_model([proto], inputs=inputs, constants=constants)

    graph = check_translation(model)

    (only,) = graph.nodes
    assert only.op == Reshape()
    assert graph.shape("y") == shape


def test_removes_reshape_that_changes_nothing() -> None:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Reshape", ["a", "s"], ["b"]),
        node("Dropout", ["b"], ["c"]),
        node("Identity", ["c"], ["d"]),
        node("LeakyRelu", ["d"], ["y"]),
    ]
    model = make_model(nodes, inputs={"x": [2, 6]}, constants={"s": np.array([2, 6])}, opset=13)

    graph = check_translation(model)

    assert kinds(graph) == ["Unary", "Unary"]


@pytest.mark.parametrize("axis", [0, 1, 3, -1])
@pytest.mark.parametrize("opset", [11, 13])
def test_translates_softmax(axis: int, opset: int) -> None:
    model = make_model([node("Softmax", ["x"], ["y"], axis=axis)], inputs={"x": [2, 3, 4, 5]}, opset=opset)

    graph = check_translation(model)

    plain = opset >= 13 or axis in (3, -1)
    assert kinds(graph) == (["Softmax"] if plain else ["Reshape", "Softmax", "Reshape"])


def test_keeps_old_softmax_plain_when_the_axes_behind_are_single() -> None:
    model = make_model([node("Softmax", ["x"], ["y"])], inputs={"x": [2, 3, 1, 1]}, opset=11)

    graph = check_translation(model)

    assert [n.op for n in graph.nodes] == [Softmax(axis=1)]


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3), (2, 3, 4)], ids=str)
def test_translates_batch_normalization_that_nothing_absorbs(shape: tuple[int, ...]) -> None:
    constants = {name: random_array(3, seed=i) for i, name in enumerate(("scale", "shift", "mean"))}
    constants["var"] = np.abs(random_array(3)) + np.float32(0.5)
    model = make_model(
        [node("BatchNormalization", ["x", *constants], ["y"], epsilon=0.01)],
        inputs={"x": shape},
        constants=constants,
    )

    graph = check_translation(model)

    assert [n.op for n in graph.nodes] == [Affine()]


def test_translates_space_to_depth() -> None:
    model = make_model([node("SpaceToDepth", ["x"], ["y"], blocksize=2)], inputs={"x": [2, 3, 4, 6]})

    graph = check_translation(model)

    assert [n.op for n in graph.nodes] == [SpaceToDepth(block=2)]


def test_adds_the_addends_of_sum_one_by_one() -> None:
    model = make_model([node("Sum", ["a", "b", "c"], ["y"])], inputs={"a": [2, 3], "b": [2, 3], "c": [2, 3]})

    graph = check_translation(model)

    assert kinds(graph) == ["Binary", "Binary"]


@pytest.mark.parametrize("ceil_mode", [0, 1])
def test_drops_unused_outputs_of_dropout(ceil_mode: int) -> None:
    nodes = [
        node("AveragePool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=ceil_mode),
        node("Dropout", ["p"], ["y"]),
    ]
    model = make_model(nodes, inputs={"x": [1, 2, 5, 5]}, opset=10)

    graph = check_translation(model)

    assert kinds(graph) == ["Pool2d"]


def test_translates_matrix_products_of_any_rank() -> None:
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((4, 3), (3, 5)),
        ((2, 4, 3), (3, 5)),
        ((2, 6, 4, 3), (2, 6, 3, 5)),
        ((2, 1, 4, 3), (6, 3, 5)),
        ((4, 3), (2, 3, 5)),
    ]
    for a, b in shapes:
        for constants in ({}, {"b": random_array(*b)}):
            inputs = {"a": a} if constants else {"a": a, "b": b}
            model = make_model([node("MatMul", ["a", "b"], ["y"])], inputs=inputs, constants=constants)

            graph = check_translation(model)

            assert [n.op for n in graph.nodes] == [MatMul()], (a, b)


@pytest.mark.parametrize(("a", "b"), [((3,), (3, 5)), ((2, 4, 3), (3,)), ((3,), (3,))], ids=str)
@pytest.mark.parametrize("constant", [False, True], ids=["fed", "constant"])
def test_translates_products_with_vectors(a: tuple[int, ...], b: tuple[int, ...], constant: bool) -> None:
    constants = {"b": random_array(*b)} if constant else {}
    inputs = {"a": a} if constant else {"a": a, "b": b}
    model = make_model([node("MatMul", ["a", "b"], ["y"])], inputs=inputs, constants=constants)

    graph = check_translation(model)

    assert set(kinds(graph)) == {"MatMul", "Reshape"}

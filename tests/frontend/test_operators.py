"""Every operator of ONNX that codl translates, one a model, against ONNX Runtime."""

from typing import Any

import numpy as np
import pytest

from codl.ir.graph import Graph
from codl.ir.ops import (
    FUNCTIONS,
    Activation,
    ActivationKind,
    Affine,
    Binary,
    BinaryKind,
    Concat,
    MatMul,
    Reshape,
    Softmax,
    SpaceToDepth,
    Unary,
)
from tests.frontend.onnx_models import check_host, check_translation, make_model, node, random_array


def kinds(graph: Graph) -> list[str]:
    return [n.kind for n in graph.nodes]


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


@pytest.mark.parametrize("kind", [kind for kind in FUNCTIONS if kind is not ActivationKind.IDENTITY])
def test_translates_each_activation_of_the_table(kind: ActivationKind) -> None:
    nodes = [node("Mul", ["x", "x"], ["square"]), node(FUNCTIONS[kind].operator, ["square"], ["y"])]

    graph = check_translation(make_model(nodes, inputs={"x": [3, 5]}, opset=24))

    assert graph.nodes[-1].epilogue.activation.kind is kind


def test_the_table_has_every_activation() -> None:
    assert list(FUNCTIONS) == list(ActivationKind)


def test_takes_the_defaults_of_hard_sigmoid() -> None:
    graph = check_translation(make_model([node("HardSigmoid", ["x"], ["y"])], inputs={"x": [3, 5]}))

    activation = graph.nodes[0].epilogue.activation
    assert activation.alpha == pytest.approx(0.2)
    assert activation.beta == 0.5


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


GELU = {
    "x (1 + erf) / 2": [("Mul", "x", "gate", "m"), ("Mul", "m", "half", "y")],
    "(1 + erf) x / 2": [("Mul", "gate", "x", "m"), ("Div", "m", "two", "y")],
    "(x / 2) (1 + erf)": [("Mul", "half", "x", "m"), ("Mul", "m", "gate", "y")],
    "x ((1 + erf) / 2)": [("Mul", "gate", "half", "m"), ("Mul", "x", "m", "y")],
}
NUMBERS = {
    name: np.array(value, np.float32)
    for name, value in {"root": 2**0.5, "inverse": 0.5**0.5, "half": 0.5, "one": 1.0, "two": 2.0}.items()
}


def spell_gelu(case: str, *, inner: tuple[str, str, str] = ("Div", "x", "root"), one: str = "one") -> Graph:
    """Return the graph of a Gelu in five nodes."""
    operator, *inputs = inner
    products = [node(kind, [a, b], [y]) for kind, a, b, y in GELU[case]]
    nodes = [node(operator, inputs, ["t"]), node("Erf", ["t"], ["e"]), node("Add", ["e", one], ["gate"])]
    return check_translation(make_model([*nodes, *products], inputs={"x": [3, 5]}, constants=NUMBERS))


@pytest.mark.parametrize("case", GELU)
def test_recognises_gelu_that_is_spelled_out(case: str) -> None:
    (only,) = spell_gelu(case).nodes

    assert only.epilogue.activation == Activation(kind=ActivationKind.GELU)


def test_recognises_gelu_by_a_product_inside() -> None:
    assert len(spell_gelu("x (1 + erf) / 2", inner=("Mul", "inverse", "x")).nodes) == 1


def test_keeps_what_is_almost_gelu() -> None:
    assert len(spell_gelu("x (1 + erf) / 2", inner=("Mul", "half", "x")).nodes) > 1
    assert len(spell_gelu("x (1 + erf) / 2", one="two").nodes) > 1


def test_leaves_the_approximation_of_gelu_to_the_host() -> None:
    only = node("Gelu", ["x"], ["y"], approximate="tanh")

    check_host(
        make_model([only], inputs={"x": [3, 5]}, opset=20),
        reason="got attribute approximate",
    )


@pytest.mark.parametrize("alpha", [None, 1.702], ids=["silu", "quick gelu"])
def test_recognises_swish_that_is_spelled_out(alpha: float | None) -> None:
    inner = [] if alpha is None else [node("Mul", ["x", "alpha"], ["s"])]
    nodes = [*inner, node("Sigmoid", ["s" if inner else "x"], ["g"]), node("Mul", ["g", "x"], ["y"])]
    constants = {"alpha": np.array(alpha, np.float32)} if inner else {}

    graph = check_translation(make_model(nodes, inputs={"x": [3, 5]}, constants=constants))

    (only,) = graph.nodes
    assert only.epilogue.activation.kind is ActivationKind.SWISH
    assert only.epilogue.activation.alpha == pytest.approx(alpha or 1.0)


def test_keeps_a_gate_whose_number_adds_axes() -> None:
    nodes = [node("Sigmoid", ["x"], ["g"]), node("Mul", ["g", "x"], ["m"]), node("Mul", ["m", "one"], ["y"])]

    graph = check_translation(
        make_model(nodes, inputs={"x": [5]}, constants={"one": np.ones((1, 1, 1), "f4")})
    )

    assert graph.shape("y") == (1, 1, 5)


def test_keeps_a_product_with_the_gate_of_another_tensor() -> None:
    nodes = [node("Tanh", ["x"], ["t"]), node("Sigmoid", ["x"], ["g"]), node("Mul", ["t", "g"], ["y"])]

    assert len(check_translation(make_model(nodes, inputs={"x": [3, 5]})).nodes) == 3


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

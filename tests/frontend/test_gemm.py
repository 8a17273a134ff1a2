"""Gemm in all its forms becomes matrix products whose constants hold the factors."""

from typing import Any

import numpy as np
import pytest

from codl.ir.ops import MatMul
from tests.frontend.onnx_models import check_host, check_translation, make_model, node, random_array

BIASES: dict[str, tuple[tuple[int, ...] | None, list[str]]] = {
    "no C": (None, ["MatMul"]),
    "vector": ((5,), ["MatMul"]),
    "row": ((1, 5), ["MatMul"]),
    "scalar": ((), ["MatMul"]),
    "single": ((1,), ["MatMul"]),
    "column": ((4, 1), ["MatMul", "Binary"]),
    "full": ((4, 5), ["MatMul", "Binary"]),
}


@pytest.mark.parametrize("case", BIASES)
@pytest.mark.parametrize(
    "attributes", [{}, {"transB": 1, "alpha": 0.5, "beta": 2.0}], ids=["plain", "scaled"]
)
def test_folds_factors_into_constants(case: str, attributes: dict[str, Any]) -> None:
    shape, kinds = BIASES[case]
    constants = {"b": random_array(*((5, 3) if attributes else (3, 5)))}
    if shape is not None:
        constants["c"] = random_array(*shape)
    model = make_model(
        [node("Gemm", ["a", *constants], ["y"], name="gemm", **attributes)],
        inputs={"a": [4, 3]},
        constants=constants,
    )

    graph = check_translation(model)

    assert [n.kind for n in graph.nodes] == kinds
    assert isinstance(graph.nodes[0].op, MatMul)
    assert graph.nodes[0].op.has_bias is (shape is not None and len(kinds) == 1)
    assert graph.shape(graph.nodes[0].inputs[1]) == (3, 5)


@pytest.mark.parametrize("c", ["none", "fed", "constant"])
@pytest.mark.parametrize("attributes", [{}, {"alpha": 0.5, "beta": 2.0}], ids=["plain", "scaled"])
def test_multiplies_two_activations(c: str, attributes: dict[str, Any]) -> None:
    inputs = {"a": [4, 3], "b": [3, 5]} | ({"c": [4, 5]} if c == "fed" else {})
    constants = {"c": random_array(5)} if c == "constant" else {}
    names = ["a", "b"] if c == "none" else ["a", "b", "c"]
    model = make_model([node("Gemm", names, ["y"], **attributes)], inputs=inputs, constants=constants)

    check_translation(model)


def test_transposes_a_when_it_is_constant() -> None:
    gemm = node("Gemm", ["a", "b"], ["y"], transA=1)
    model = make_model([gemm], inputs={"b": [3, 5]}, constants={"a": random_array(3, 4)})

    check_translation(model)


@pytest.mark.parametrize("attribute", ["transA", "transB"])
def test_leaves_the_transposition_of_an_activation_to_the_host(attribute: str) -> None:
    gemm = node("Gemm", ["a", "b"], ["y"], name="head", **{attribute: 1})
    model = make_model([gemm], inputs={"a": [4, 4], "b": [4, 4]})

    check_host(model, reason="node 'head' (Gemm): got a transposition of '")


def test_leaves_a_shared_weight_to_its_other_reader() -> None:
    nodes = [
        node("Gemm", ["x", "w"], ["a"], alpha=2.0),
        node("MatMul", ["a", "w"], ["y"]),
    ]
    model = make_model(nodes, inputs={"x": [4, 3]}, constants={"w": random_array(3, 3)})

    graph = check_translation(model)

    weights = [n.inputs[1] for n in graph.nodes]
    assert weights[1] == "w"
    assert np.array_equal(graph.constants[weights[0]], 2 * graph.constants["w"])


@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_ignores_c_where_beta_is_zero(alpha: float) -> None:
    c = np.full((4, 3), np.nan, np.float32)
    gemm = node("Gemm", ["x", "w", "c"], ["y"], alpha=alpha, beta=0.0)
    model = make_model([gemm], inputs={"x": [4, 3]}, constants={"w": random_array(3, 3), "c": c})

    graph = check_translation(model)

    assert [n.kind for n in graph.nodes] == ["MatMul"]

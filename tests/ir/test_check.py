"""Each law of a graph, broken once."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from codl.errors import ModelError
from codl.ir.check import check_graph, find_problems
from codl.ir.graph import Graph, Node, Tensor
from codl.ir.ops import Binary, BinaryKind, Epilogue, MatMul, ResidualOrder, Unary


def sound_graph() -> Graph:
    """Return y = relu-less (x @ w) + x, read twice."""
    shapes = {"x": (2, 3), "w": (3, 3), "a": (2, 3), "y": (2, 3)}
    nodes = (
        Node(
            name="product",
            op=MatMul(),
            inputs=("x", "w", "x"),
            output="a",
            epilogue=Epilogue(residual=ResidualOrder.BEFORE),
        ),
        Node(name="square", op=Binary(kind=BinaryKind.MUL), inputs=("a", "a"), output="y"),
    )
    return Graph(
        name="net",
        nodes=nodes,
        inputs=("x",),
        outputs=("y",),
        tensors={name: Tensor(name=name, shape=shape) for name, shape in shapes.items()},
        constants={"w": np.zeros((3, 3), np.float32)},
    )


def with_tensor(graph: Graph, name: str, *shape: int) -> Graph:
    return replace(graph, tensors={**graph.tensors, name: Tensor(name=name, shape=shape)})


def with_constant(graph: Graph, value: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Graph:
    return replace(graph, constants={"w": value})  # type: ignore[dict-item]


def without_tensor(graph: Graph) -> Graph:
    return replace(graph, tensors={n: t for n, t in graph.tensors.items() if n != "a"})


BREAKS: dict[str, tuple[Callable[[Graph], Graph], str]] = {
    "unsorted": (
        lambda g: replace(g, nodes=g.nodes[::-1]),
        "node 'square' (Binary): got input 'a' that nothing before it provides, "
        "expected nodes in topological order",
    ),
    "missing input": (
        lambda g: replace(g, inputs=()),
        "node 'product' (MatMul): got input 'x' that nothing before it provides, "
        "expected nodes in topological order",
    ),
    "two producers": (
        lambda g: replace(g, nodes=(*g.nodes, Node(name="again", op=Unary(), inputs=("x",), output="y"))),
        "tensor 'y': got 2 producers, expected 1",
    ),
    "written input": (lambda g: replace(g, inputs=("x", "a")), "tensor 'a': got 2 producers, expected 1"),
    "equal names": (
        lambda g: replace(g, nodes=(g.nodes[0], replace(g.nodes[1], name="product"))),
        "node name 'product': got 2 nodes, expected 1",
    ),
    "unknown shape": (without_tensor, "tensor 'a': got no shape, expected an entry in the graph's tensors"),
    "empty tensor": (
        lambda g: with_tensor(g, "y", 2, 0),
        "tensor 'y': got shape [2, 0], expected lengths of 1 or more",
    ),
    "constant of another shape": (
        lambda g: with_constant(g, np.zeros((3, 2), np.float32)),
        "constant 'w': got shape [3, 2], expected [3, 3]",
    ),
    "constant of another type": (
        lambda g: with_constant(g, np.zeros((3, 3))),
        "constant 'w': got float64, expected float32",
    ),
    "output that is no tensor": (
        lambda g: with_tensor(replace(g, outputs=("y", "z")), "z", 1),
        "output 'z': got no node or input that provides it, expected one",
    ),
    "residual of another shape": (
        lambda g: with_tensor(g, "x", 1, 3),
        "node 'product' (MatMul): got a residual of shape [1, 3], expected [2, 3]",
    ),
}


def test_finds_nothing_in_a_sound_graph() -> None:
    check_graph(sound_graph())


@pytest.mark.parametrize("case", BREAKS)
def test_finds(case: str) -> None:
    break_law, expected = BREAKS[case]

    assert expected in list(find_problems(break_law(sound_graph())))


def test_raises_once_with_every_problem() -> None:
    graph = replace(without_tensor(sound_graph()), nodes=sound_graph().nodes[::-1])

    with pytest.raises(ModelError) as caught:
        check_graph(graph)

    assert len(str(caught.value).splitlines()) == len(list(find_problems(graph))) > 1
    assert "graph 'net': tensor 'a': got no shape" in str(caught.value)

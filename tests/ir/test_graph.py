"""Graphs as values: what tells one from another."""

from dataclasses import replace
from hashlib import sha256

import pytest

from codl.ir.graph import NO_EPILOGUE, Graph, Node, Tensor
from codl.ir.ops import Activation, ActivationKind, Epilogue, Op, Softmax, Unary

RELU = Epilogue(activation=Activation(kind=ActivationKind.RELU))
SOFTMAX = Softmax(axis=1)


def make_graph(*, epilogue: Epilogue = NO_EPILOGUE, op: Op = SOFTMAX) -> Graph:
    nodes = (
        Node(name="first", op=Unary(), inputs=("x",), output="y", epilogue=epilogue),
        Node(name="second", op=op, inputs=("y",), output="z"),
    )
    tensors = {name: Tensor(name=name, shape=(1, 2, 3, 4)) for name in "xyz"}
    return Graph(name="two", nodes=nodes, inputs=("x",), outputs=("z",), tensors=tensors, constants={})


def test_fingerprint_is_of_equal_graphs_the_same() -> None:
    assert make_graph().fingerprint == replace(make_graph(), name="another").fingerprint


def test_fingerprint_is_of_all_fields() -> None:
    graph = make_graph(epilogue=RELU)
    parts = [*map(repr, graph.nodes), *map(repr, graph.tensors.values())]
    told = "".join([*parts, repr((graph.inputs, graph.outputs)), repr([])])
    assert graph.fingerprint == sha256(told.encode()).hexdigest()


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(make_graph(epilogue=RELU), id="epilogue"),
        pytest.param(make_graph(op=Unary()), id="operator"),
        pytest.param(replace(make_graph(), outputs=("y", "z")), id="outputs"),
        pytest.param(
            replace(make_graph(), tensors={name: Tensor(name=name, shape=(1, 2)) for name in "xyz"}),
            id="shapes",
        ),
    ],
)
def test_fingerprint_tells_graphs_apart(other: Graph) -> None:
    assert make_graph().fingerprint != other.fingerprint

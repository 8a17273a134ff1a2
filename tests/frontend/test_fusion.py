"""What fuses into whose epilogue, what must not, and that the numbers stay."""

from typing import Any

import numpy as np
import onnx
import pytest

from codl.frontend import load_graph
from codl.ir.graph import Graph
from codl.ir.ops import ActivationKind, Conv2d, MatMul, ResidualOrder
from tests.frontend.onnx_models import check_translation, make_model, node, random_array

IMAGE = [1, 4, 5, 6]
WEIGHTS: dict[str, Any] = {f"w{i}": random_array(4, 4, 3, 3, seed=i) * 0.2 for i in range(3)}


def conv(x: str, y: str, *, weight: str = "w0") -> Any:
    return node("Conv", [x, weight], [y], name=f"conv_{y}", pads=[1, 1, 1, 1])


def translate(*nodes: Any, outputs: Any = ("y",), **constants: Any) -> Graph:
    return check_translation(
        make_model(nodes, inputs={"x": IMAGE}, outputs=outputs, constants=WEIGHTS | constants)
    )


def summary(graph: Graph) -> list[tuple[str, str, str, str]]:
    """Return (kind, output, activation, residual order) of each node."""
    return [
        (n.kind, n.output, n.epilogue.activation.kind.value, n.epilogue.residual.value) for n in graph.nodes
    ]


@pytest.mark.parametrize("op_type", ["Relu", "LeakyRelu"])
def test_fuses_activation_into_conv(op_type: str) -> None:
    graph = translate(conv("x", "a"), node(op_type, ["a"], ["y"]))

    kind = {"Relu": "relu", "LeakyRelu": "leaky_relu"}[op_type]
    assert summary(graph) == [("Conv2d", "y", kind, "none")]
    assert graph.nodes[0].name == "conv_a"
    assert "a" not in graph.tensors


PRODUCERS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "MatMul": ([node("MatMul", ["x", "w"], ["a"])], {"w": random_array(6, 3)}),
    "Affine": (
        [node("Relu", ["x"], ["r"]), node("BatchNormalization", ["r", "s", "t", "m", "v"], ["a"])],
        {"s": random_array(4), "t": random_array(4), "m": random_array(4), "v": np.ones(4, np.float32)},
    ),
    "Binary": ([node("Mul", ["x", "x"], ["a"])], {}),
}


@pytest.mark.parametrize("kind", PRODUCERS)
def test_fuses_activation_into(kind: str) -> None:
    nodes, constants = PRODUCERS[kind]

    graph = translate(*nodes, node("LeakyRelu", ["a"], ["y"]), **constants)

    assert summary(graph)[-1] == (kind, "y", "leaky_relu", "none")
    assert len(graph.nodes) == len(nodes)


@pytest.mark.parametrize(
    "producer",
    [
        node("MaxPool", ["x"], ["a"], kernel_shape=[2, 2]),
        node("GlobalAveragePool", ["x"], ["a"]),
        node("Concat", ["x", "x"], ["a"], axis=1),
        node("Softmax", ["x"], ["a"]),
        node("LeakyRelu", ["x"], ["a"], alpha=0.5),
    ],
    ids=lambda proto: proto.op_type,
)
def test_keeps_activation_behind(producer: Any) -> None:
    graph = translate(producer, node("LeakyRelu", ["a"], ["y"]))

    assert summary(graph)[-1] == ("Unary", "y", "leaky_relu", "none")


def test_keeps_activation_when_its_input_is_read_twice() -> None:
    graph = translate(conv("x", "a"), node("Relu", ["a"], ["b"]), node("Mul", ["a", "b"], ["y"]))

    assert [s[:2] for s in summary(graph)] == [("Conv2d", "a"), ("Unary", "b"), ("Binary", "y")]


def test_keeps_activation_when_its_input_is_an_output() -> None:
    graph = translate(conv("x", "a"), node("Relu", ["a"], ["y"]), outputs=("y", "a"))

    assert graph.outputs == ("y", "a")
    assert [n.kind for n in graph.nodes] == ["Conv2d", "Unary"]


@pytest.mark.parametrize("swapped", [False, True])
def test_fuses_residual_before_activation(swapped: bool) -> None:
    operands = ["x", "a"] if swapped else ["a", "x"]
    graph = translate(conv("x", "a"), node("Add", operands, ["b"]), node("Relu", ["b"], ["y"]))

    assert summary(graph) == [("Conv2d", "y", "relu", "before")]
    assert graph.nodes[0].inputs == ("x", "w0", "x")
    assert graph.nodes[0].residual == "x"


def test_fuses_residual_after_activation() -> None:
    graph = translate(conv("x", "a"), node("Relu", ["a"], ["b"]), node("Add", ["b", "x"], ["y"]))

    assert summary(graph) == [("Conv2d", "y", "relu", "after")]


def test_keeps_activation_behind_a_residual_that_follows_one() -> None:
    graph = translate(
        conv("x", "a"),
        node("LeakyRelu", ["a"], ["b"]),
        node("Add", ["b", "x"], ["c"]),
        node("Relu", ["c"], ["y"]),
    )

    assert summary(graph) == [("Conv2d", "c", "leaky_relu", "after"), ("Unary", "y", "relu", "none")]


def test_adds_a_second_residual_on_its_own() -> None:
    graph = translate(
        conv("x", "a"),
        node("Add", ["a", "x"], ["b"]),
        node("Add", ["b", "x"], ["c"]),
        node("Relu", ["c"], ["y"]),
    )

    assert summary(graph) == [("Conv2d", "b", "identity", "before"), ("Binary", "y", "relu", "none")]


def test_gives_the_residual_to_the_later_of_two_convolutions() -> None:
    graph = translate(
        conv("x", "left"), conv("x", "right", weight="w1"), node("Add", ["left", "right"], ["y"])
    )

    assert [n.name for n in graph.nodes] == ["conv_left", "conv_right"]
    assert graph.nodes[1].residual == "left"
    assert graph.nodes[1].output == "y"


def test_moves_a_convolution_behind_a_residual_that_is_computed_after_it() -> None:
    graph = translate(
        conv("x", "a"),
        node("MaxPool", ["x"], ["p"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Add", ["a", "p"], ["y"]),
    )

    assert [n.kind for n in graph.nodes] == ["Pool2d", "Conv2d"]
    assert graph.nodes[1].residual == "p"


def test_fuses_residual_into_matrix_product() -> None:
    graph = translate(node("MatMul", ["x", "w"], ["a"]), node("Add", ["a", "x"], ["y"]), w=random_array(6, 6))

    assert summary(graph) == [("MatMul", "y", "identity", "before")]


def test_keeps_an_addition_that_broadcasts_or_doubles() -> None:
    broadcast = translate(
        conv("x", "a"), node("GlobalAveragePool", ["x"], ["p"]), node("Add", ["a", "p"], ["y"])
    )
    doubled = translate(conv("x", "a"), node("Add", ["a", "a"], ["y"]))

    assert [n.kind for n in broadcast.nodes][-1] == "Binary"
    assert [n.kind for n in doubled.nodes] == ["Conv2d", "Binary"]


@pytest.mark.parametrize("shape", [(1, 4, 1, 1), (4, 1, 1), (1,), ()], ids=str)
@pytest.mark.parametrize("has_bias", [False, True])
def test_folds_constant_addition_into_bias_of_conv(shape: tuple[int, ...], has_bias: bool) -> None:
    names = ["x", "w0", "b0"] if has_bias else ["x", "w0"]
    first = node("Conv", names, ["a"], pads=[1, 1, 1, 1])
    graph = translate(first, node("Add", ["c", "a"], ["y"]), b0=random_array(4), c=random_array(*shape))

    (only,) = graph.nodes
    assert isinstance(only.op, Conv2d)
    assert only.op.has_bias
    assert graph.shape(only.inputs[2]) == (4,)


@pytest.mark.parametrize("shape", [(1, 1, 5, 6), (1, 1, 1, 6)], ids=str)
def test_keeps_constant_addition_that_differs_between_pixels(shape: tuple[int, ...]) -> None:
    graph = translate(conv("x", "a"), node("Add", ["a", "c"], ["y"]), c=random_array(*shape))

    assert [n.kind for n in graph.nodes] == ["Conv2d", "Binary"]


def test_keeps_constant_addition_that_grows_the_output() -> None:
    graph = translate(conv("x", "a"), node("Add", ["a", "c"], ["y"]), c=random_array(3, 1, 1, 1))

    assert [n.kind for n in graph.nodes] == ["Conv2d", "Binary"]
    assert graph.shape("y") == (3, 4, 5, 6)


@pytest.mark.parametrize("shape", [(3,), (1, 3), (1, 1, 3), (1,)], ids=str)
def test_folds_constant_addition_into_bias_of_product(shape: tuple[int, ...]) -> None:
    graph = translate(
        node("MatMul", ["x", "w"], ["a"]),
        node("Add", ["a", "c"], ["b"]),
        node("Relu", ["b"], ["y"]),
        w=random_array(6, 3),
        c=random_array(*shape),
    )

    (only,) = graph.nodes
    assert only.op == MatMul(has_bias=True)
    assert only.epilogue.activation.kind is ActivationKind.RELU


def test_layers_with_the_same_constants_share_them() -> None:
    graph = translate(
        node("MatMul", ["x", "w"], ["a"]),
        node("Add", ["a", "c"], ["b"]),
        node("MatMul", ["b", "w"], ["d"]),
        node("Add", ["d", "c"], ["e"]),
        node("MatMul", ["e", "w"], ["f"]),
        node("Add", ["f", "other"], ["y"]),
        w=random_array(6, 6),
        c=random_array(6),
        other=random_array(6, seed=7),
    )

    first, second, third = (one for one in graph.nodes if one.kind == "MatMul")
    assert first.inputs[1:] == second.inputs[1:]
    assert third.inputs[1] == second.inputs[1]
    assert third.inputs[2] != second.inputs[2]


@pytest.mark.parametrize("shape", [(1, 4, 1, 1), (4, 1, 1), ()], ids=str)
def test_folds_factors_and_addends_of_channels_into_affine(shape: tuple[int, ...]) -> None:
    statistics = {name: random_array(4, seed=i) for i, name in enumerate(("s", "t", "m"))}
    graph = translate(
        node("Relu", ["x"], ["r"]),
        node("BatchNormalization", ["r", "s", "t", "m", "v"], ["a"]),
        node("Mul", ["a", "f"], ["b"]),
        node("Add", ["c", "b"], ["d"]),
        node("Relu", ["d"], ["y"]),
        v=np.full(4, 0.5, np.float32),
        f=random_array(*shape),
        c=random_array(*shape, seed=2),
        **statistics,
    )

    assert summary(graph) == [("Unary", "r", "relu", "none"), ("Affine", "y", "relu", "none")]


CHAIN = [
    node("Sub", ["a", "c"], ["b"]),
    node("Div", ["b", "f"], ["d"]),
    node("Sub", ["c", "d"], ["e"]),
    node("Mul", ["f", "e"], ["g"]),
    node("Relu", ["g"], ["y"]),
]


@pytest.mark.parametrize("shape", [(1, 4, 1, 1), (4, 1, 1), ()], ids=str)
def test_folds_differences_and_quotients_of_channels_into_conv(shape: tuple[int, ...]) -> None:
    constants = {"f": 2 + np.abs(random_array(*shape)), "c": random_array(*shape)}

    graph = translate(conv("x", "a"), *CHAIN, **constants)

    assert summary(graph) == [("Conv2d", "y", "relu", "none")]


@pytest.mark.parametrize("shape", [(1, 4, 1, 1), (4, 1, 1), ()], ids=str)
def test_folds_a_chain_behind_nothing_into_affine(shape: tuple[int, ...]) -> None:
    constants = {"f": 2 + np.abs(random_array(*shape)), "c": random_array(*shape)}

    graph = translate(node("Concat", ["x", "x", "x"], ["q"], axis=0), *rename(CHAIN, "a", "q"), **constants)

    assert summary(graph)[1:] == [("Affine", "y", "relu", "none")]


def rename(nodes: Any, old: str, new: str) -> list[Any]:
    """Return copies of nodes that read another tensor."""
    copies = [onnx.NodeProto.FromString(proto.SerializeToString()) for proto in nodes]
    for copy in copies:
        copy.input[:] = [new if name == old else name for name in copy.input]
    return copies


@pytest.mark.parametrize(
    "last",
    [node("Div", ["c", "a"], ["y"]), node("PRelu", ["a", "c"], ["y"]), node("Div", ["a", "z"], ["y"])],
    ids=["constant divided by it", "slope", "division by zero"],
)
def test_keeps_behind_conv_what_is_no_map(last: Any) -> None:
    constants = {"c": random_array(4, 1, 1), "z": np.zeros((4, 1, 1), np.float32)}
    model = make_model([conv("x", "a"), last], inputs={"x": IMAGE}, constants=WEIGHTS | constants)

    graph = load_graph(model.SerializeToString())

    assert [n.kind for n in graph.nodes] == ["Conv2d", "Binary"]


def test_leaves_out_what_nothing_reads() -> None:
    model = make_model(
        [conv("x", "a"), conv("x", "dead", weight="w1"), node("Relu", ["a"], ["y"])],
        inputs={"x": IMAGE},
        constants=WEIGHTS,
    )

    assert [n.name for n in load_graph(model.SerializeToString()).nodes] == ["conv_a"]


@pytest.mark.parametrize("has_bias", [False, True])
def test_folds_factors_of_columns_into_product(has_bias: bool) -> None:
    names = ["f", "w", "c"] if has_bias else ["f", "w"]
    graph = translate(
        node("Flatten", ["x"], ["f"]),
        node("Gemm", names, ["a"]),
        node("Mul", ["a", "k"], ["y"]),
        w=random_array(120, 3),
        c=random_array(3),
        k=random_array(3, seed=2),
    )

    assert [n.kind for n in graph.nodes] == ["Reshape", "MatMul"]


def test_keeps_a_factor_of_rows_behind_a_product() -> None:
    graph = translate(
        node("MatMul", ["x", "w"], ["a"]),
        node("Mul", ["a", "k"], ["y"]),
        w=random_array(6, 3),
        k=random_array(4, 1, 1),
    )

    assert [n.kind for n in graph.nodes] == ["MatMul", "Binary"]


def test_folds_batch_normalization_into_gemm() -> None:
    statistics = {name: random_array(3, seed=i) for i, name in enumerate(("s", "t", "m"))}
    nodes = [
        node("Flatten", ["x"], ["f"]),
        node("Gemm", ["f", "w", "c"], ["a"]),
        node("BatchNormalization", ["a", "s", "t", "m", "v"], ["y"]),
    ]
    graph = translate(
        *nodes, w=random_array(120, 3), c=random_array(3), v=np.full(3, 0.5, np.float32), **statistics
    )

    assert [n.kind for n in graph.nodes] == ["Reshape", "MatMul"]


def test_folds_batch_normalization_into_conv_but_not_into_its_sharer() -> None:
    statistics = {name: random_array(4, seed=i) for i, name in enumerate(("s", "t", "m"))}
    nodes = [
        conv("x", "a"),
        node("BatchNormalization", ["a", "s", "t", "m", "v"], ["b"]),
        conv("b", "y"),
    ]
    graph = translate(*nodes, v=np.full(4, 0.5, np.float32), **statistics)

    assert [n.kind for n in graph.nodes] == ["Conv2d", "Conv2d"]
    assert graph.nodes[0].inputs[1] != graph.nodes[1].inputs[1]


def test_keeps_order_and_names_unique_in_a_net_of_unnamed_nodes() -> None:
    nodes = [
        node("Conv", ["x", "w0"], ["a"], pads=[1, 1, 1, 1], name="a"),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "w1"], ["c"], pads=[1, 1, 1, 1]),
        node("Conv", ["b", "w2"], ["d"], pads=[1, 1, 1, 1], name="e"),
        node("Add", ["c", "d"], ["e"]),
        node("MaxPool", ["e"], ["y"], kernel_shape=[2, 2]),
    ]
    graph = translate(*nodes)

    names = [n.name for n in graph.nodes]
    assert len(set(names)) == len(names) == 4
    assert graph.nodes[2].epilogue.residual is ResidualOrder.BEFORE


class TestOutputs:
    def test_copies_an_input_that_is_an_output(self) -> None:
        graph = translate(conv("x", "y"), outputs=("y", "x"))

        assert graph.inputs == ("x",)
        assert graph.original_names == {graph.outputs[1]: "x"}

    def test_copies_what_an_alias_stands_for(self) -> None:
        graph = translate(conv("x", "a"), node("Identity", ["a"], ["y"]), outputs=("a", "y"))

        assert graph.outputs == ("a", "y")

    def test_renames_what_a_removed_operator_publishes(self) -> None:
        graph = translate(
            node("MaxPool", ["x"], ["a"], kernel_shape=[2, 2]),
            node("Reshape", ["a", "s"], ["y"]),
            s=np.array([1, 4, 4, 5]),
        )

        assert summary(graph) == [("Pool2d", "y", "identity", "none")]

    def test_copies_a_constant(self) -> None:
        graph = translate(conv("x", "y"), outputs=("y", "w0"))

        assert graph.nodes[1].inputs == ("w0",)
        assert graph.original_names == {graph.outputs[1]: "w0"}

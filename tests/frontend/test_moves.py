"""Operators that pick, move, repeat or pad elements, against ONNX Runtime."""

from typing import Any

import numpy as np
import onnx
import pytest

from codl.ir.graph import Graph
from codl.ir.ops import (
    ChannelShuffle,
    DepthToSpace,
    Slice,
    SpaceToDepth,
    Transpose,
)
from tests.frontend.onnx_models import check_host, check_translation, make_model, node

SHAPE = [2, 4, 6, 5]


def translate(*nodes: Any, opset: int = 17, outputs: Any = ("y",), **constants: Any) -> Graph:
    """Return the graph of nodes that read x and constants, having compared it with ONNX Runtime."""
    return check_translation(
        make_model(nodes, inputs={"x": SHAPE}, outputs=outputs, constants=constants, opset=opset)
    )


def kinds(graph: Graph) -> list[str]:
    return [n.kind for n in graph.nodes]


FAR = 2**63 - 1
SLICES: dict[str, tuple[dict[str, list[int]], tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    "one axis": ({"starts": [1], "ends": [3], "axes": [2]}, (0, 0, 1, 0), (1, 1, 1, 1), (2, 4, 2, 5)),
    "leading axes": ({"starts": [1, 2], "ends": [2, 4]}, (1, 2, 0, 0), (1, 1, 1, 1), (1, 2, 6, 5)),
    "to the end": ({"starts": [2], "ends": [FAR], "axes": [-1]}, (0, 0, 0, 2), (1, 1, 1, 1), (2, 4, 6, 3)),
    "from the end": (
        {"starts": [-3, -2], "ends": [-1, 9], "axes": [2, 1]},
        (0, 2, 3, 0),
        (1, 1, 1, 1),
        (2, 2, 2, 5),
    ),
}
STEPPED: dict[str, tuple[dict[str, list[int]], tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    "stepped": (
        {"starts": [1], "ends": [FAR], "axes": [2], "steps": [2]},
        (0, 0, 1, 0),
        (1, 1, 2, 1),
        (2, 4, 3, 5),
    ),
    "backwards": (
        {"starts": [-1], "ends": [-FAR], "axes": [3], "steps": [-1]},
        (0, 0, 0, 4),
        (1, 1, 1, -1),
        (2, 4, 6, 5),
    ),
    "backwards by two": (
        {"starts": [9, 3], "ends": [1, 0], "axes": [2, 1], "steps": [-2, -3]},
        (0, 3, 5, 0),
        (1, -3, -2, 1),
        (2, 1, 2, 5),
    ),
}


@pytest.mark.parametrize("opset", [9, 10, 13])
@pytest.mark.parametrize("case", SLICES)
def test_translates_slice(case: str, opset: int) -> None:
    arguments, begin, step, shape = SLICES[case]
    if opset < 10:
        graph = translate(node("Slice", ["x"], ["y"], **arguments), opset=opset)
    else:
        constants: dict[str, Any] = {name: np.array(value) for name, value in arguments.items()}
        graph = translate(node("Slice", ["x", *constants], ["y"]), opset=opset, **constants)

    assert [n.op for n in graph.nodes] == [Slice(begin=begin, step=step)]
    assert graph.shape("y") == shape


@pytest.mark.parametrize("case", STEPPED)
def test_translates_slice_with_steps(case: str) -> None:
    arguments, begin, step, shape = STEPPED[case]
    constants: dict[str, Any] = {name: np.array(value) for name, value in arguments.items()}

    graph = translate(node("Slice", ["x", *constants], ["y"]), **constants)

    assert [n.op for n in graph.nodes] == [Slice(begin=begin, step=step)]
    assert graph.shape("y") == shape


def test_removes_slice_of_everything() -> None:
    whole = node("Slice", ["a", "s", "e"], ["b"])

    graph = translate(
        node("Tanh", ["x"], ["a"]), whole, node("Relu", ["b"], ["y"]), s=np.array([0]), e=np.array([2])
    )

    assert kinds(graph) == ["Unary", "Unary"]


def test_leaves_slice_of_nothing_to_the_host() -> None:
    empty = node("Slice", ["x", "s", "e"], ["y"], name="none")
    model = make_model([empty], inputs={"x": SHAPE}, constants={"s": np.array([2]), "e": np.array([2])})

    check_host(model, reason="node 'none' (Slice): got tensor 'y' of shape [0, ")


SPLITS: dict[str, tuple[dict[str, Any], list[int] | None, int, list[int]]] = {
    "equal": ({"axis": 1}, None, 13, [2, 2]),
    "by attribute": ({"axis": 2, "split": [1, 2, 3]}, None, 11, [1, 2, 3]),
    "by input": ({"axis": -2}, [4, 2], 13, [4, 2]),
    "by count": ({"axis": 3, "num_outputs": 2}, None, 18, [3, 2]),
    "leading axis": ({}, None, 9, [1, 1]),
}


@pytest.mark.parametrize("case", SPLITS)
def test_translates_split_into_slices(case: str) -> None:
    attributes, lengths, opset, expected = SPLITS[case]
    outputs = [f"part{i}" for i in range(len(expected))]
    names = ["x"] if lengths is None else ["x", "s"]
    constants = {} if lengths is None else {"s": np.array(lengths)}
    split = node("Split", names, outputs, name="split", **attributes)

    graph = translate(split, opset=opset, outputs=outputs, **constants)

    axis = attributes.get("axis", 0) % 4
    assert kinds(graph) == ["Slice"] * len(expected)
    assert [graph.shape(name)[axis] for name in outputs] == expected
    assert [n.op.begin[axis] for n in graph.nodes if isinstance(n.op, Slice)] == [
        sum(expected[:i]) for i in range(len(expected))
    ]


def test_leaves_out_parts_of_a_split_that_nothing_reads() -> None:
    graph = translate(node("Split", ["x"], ["a", "b"], axis=1), node("Relu", ["b"], ["y"]), opset=11)

    assert kinds(graph) == ["Slice", "Unary"]


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (3, 1, 0, 2), None], ids=str)
def test_translates_transpose(order: tuple[int, ...] | None) -> None:
    graph = translate(node("Transpose", ["x"], ["y"], **({} if order is None else {"perm": order})))

    assert [n.op for n in graph.nodes] == [Transpose(order=order or (3, 2, 1, 0))]


def test_makes_a_reshape_of_a_transpose_that_moves_single_elements() -> None:
    transpose = node("Transpose", ["x"], ["y"], perm=[0, 2, 3, 1])
    model = make_model([transpose], inputs={"x": [2, 1, 3, 4]})

    assert kinds(check_translation(model)) == ["Reshape"]


@pytest.mark.parametrize(("mode", "opset"), [(None, 7), (None, 17), ("DCR", 11), ("CRD", 13)])
def test_translates_depth_to_space(mode: str | None, opset: int) -> None:
    attributes = {"blocksize": 2} | ({} if mode is None else {"mode": mode})
    graph = translate(node("DepthToSpace", ["x"], ["y"], **attributes), opset=opset)

    assert [n.op for n in graph.nodes] == [DepthToSpace(block=2, is_column_major=mode == "CRD")]


@pytest.mark.skipif(onnx.defs.onnx_opset_version() < 28, reason="this onnx has no such mode")
@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_translates_either_order_of_space_to_depth(mode: str) -> None:
    move = node("SpaceToDepth", ["x"], ["y"], blocksize=2, mode=mode)

    graph = check_translation(make_model([move], inputs={"x": [2, 3, 4, 6]}, opset=28))

    assert [n.op for n in graph.nodes] == [SpaceToDepth(block=2, is_column_major=mode == "CRD")]


def shuffle(split: list[int], order: list[int], *, back: list[int]) -> tuple[list[Any], dict[str, Any]]:
    """Return the nodes and constants of y = reshape(transpose(reshape(x)))."""
    nodes = [
        node("Reshape", ["x", "split"], ["a"], name="split"),
        node("Transpose", ["a"], ["b"], name="swap", perm=order),
        node("Reshape", ["b", "back"], ["y"], name="join"),
    ]
    return nodes, {"split": np.array(split), "back": np.array(back)}


@pytest.mark.parametrize(
    ("split", "order"),
    [([2, 2, 2, 6, 5], [0, 2, 1, 3, 4]), ([2, 2, 2, 30], [0, 2, 1, 3]), ([0, 4, -1, 6, 5], [0, 2, 1, 3, 4])],
    ids=["five axes", "merged image", "by inference"],
)
def test_recognises_channel_shuffle(split: list[int], order: list[int]) -> None:
    nodes, constants = shuffle(split, order, back=[0, -1, 6, 5])

    graph = translate(*nodes, **constants)

    groups = split[1]
    assert [(n.name, n.op) for n in graph.nodes] == [("join", ChannelShuffle(groups=groups))]


def test_keeps_a_transpose_that_is_no_shuffle() -> None:
    nodes, constants = shuffle([2, 2, 2, 30], [0, 1, 3, 2], back=[2, 4, 6, 5])

    assert kinds(translate(*nodes, **constants)) == ["Reshape", "Transpose", "Reshape"]


def test_keeps_a_shuffle_whose_middle_is_an_output() -> None:
    nodes, constants = shuffle([2, 2, 2, 30], [0, 2, 1, 3], back=[2, 4, 6, 5])

    graph = translate(*nodes, outputs=("y", "a"), **constants)

    assert kinds(graph) == ["Reshape", "Transpose", "Reshape"]

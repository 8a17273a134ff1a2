"""Gathers of rows of a constant table by ids that are an input: what becomes an `Embedding`, and what not."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import codl
from codl.frontend import load_graph
from codl.ir.check import find_problems
from codl.ir.graph import Graph
from codl.ir.ops import Embedding, Unary
from tests.frontend.onnx_models import check_host, check_translation, make_model, node, random_array

TABLE = random_array(10, 6)
LOOKUP = node("Gather", ["table", "ids"], ["e"], name="lookup")
RELU = node("Relu", ["e"], ["y"])


def model(
    nodes: Sequence[onnx.NodeProto] = (LOOKUP, RELU),
    *,
    shape: Sequence[int | str | None] = (2, 3),
    kind: int = TensorProto.INT64,
    outputs: Sequence[str] = ("y",),
    types: Mapping[str, int] | None = None,
    **constants: Any,
) -> onnx.ModelProto:
    """Return a model of nodes that read ids and constants."""
    return make_model(
        nodes,
        inputs={"ids": shape},
        outputs=outputs,
        constants={"table": TABLE, **constants},
        types={"ids": kind, **(types or {})},
    )


def kinds(graph: Graph) -> list[str]:
    return [one.kind for one in graph.nodes]


@pytest.mark.parametrize("kind", [TensorProto.INT64, TensorProto.INT32], ids=["int64", "int32"])
@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (1, 1), (2, 3, 2)], ids=str)
def test_ids_of_any_shape(shape: tuple[int, ...], kind: int) -> None:
    graph = check_translation(model(shape=shape, kind=kind))

    assert not graph.host_models
    assert kinds(graph).count("Embedding") == 1
    assert not graph.tensors["ids"].is_on_host


MOVES: dict[str, tuple[list[onnx.NodeProto], tuple[int, ...], dict[str, Any]]] = {
    "Reshape": ([node("Reshape", ["ids", "s"], ["i"])], (3, 4), {"s": np.array([-1, 6])}),
    "Unsqueeze": ([node("Unsqueeze", ["ids", "s"], ["i"])], (4,), {"s": np.array([0])}),
    "Squeeze": ([node("Squeeze", ["ids", "s"], ["i"])], (1, 4), {"s": np.array([0])}),
    "Identity": ([node("Identity", ["ids"], ["i"])], (4,), {}),
    "five axes": (
        [node("Reshape", ["ids", "s"], ["t"]), node("Reshape", ["t", "u"], ["i"])],
        (3, 4),
        {"s": np.array([1, 3, 1, 2, 2]), "u": np.array([12])},
    ),
}


@pytest.mark.parametrize(("moves", "shape", "constants"), MOVES.values(), ids=MOVES)
def test_ids_may_be_reshaped(
    moves: list[onnx.NodeProto], shape: tuple[int, ...], constants: dict[str, Any]
) -> None:
    lookup = node("Gather", ["table", "i"], ["e"], axis=-2)

    graph = check_translation(model([*moves, lookup, RELU], shape=shape, **constants))

    assert not graph.host_models
    assert "Embedding" in kinds(graph)


def test_int32_ids_may_be_widened() -> None:
    nodes = [node("Cast", ["ids"], ["i"], to=TensorProto.INT64), node("Gather", ["table", "i"], ["e"]), RELU]

    assert not check_translation(model(nodes, kind=TensorProto.INT32)).host_models


def test_one_input_may_pick_from_several_tables() -> None:
    nodes = [LOOKUP, node("Gather", ["small", "ids"], ["f"]), node("Add", ["e", "f"], ["y"])]

    graph = check_translation(model(nodes, small=random_array(4, 6)))

    assert kinds(graph) == ["Embedding", "Embedding", "Binary"]


def test_the_table_may_be_a_weight_too() -> None:
    nodes = [LOOKUP, node("Transpose", ["table"], ["t"]), node("MatMul", ["e", "t"], ["y"])]

    assert not check_translation(model(nodes)).host_models


@pytest.mark.parametrize(
    ("nodes", "outputs", "types"),
    [
        ([node("Equal", ["ids", "one"], ["y"])], ["y", "e"], {"y": TensorProto.BOOL}),
        ([node("Add", ["ids", "one"], ["i"]), node("Gather", ["table", "i"], ["y"])], ["y", "e"], {}),
        ([node("Identity", ["ids"], ["y"])], ["y", "e"], {"y": TensorProto.INT64}),
        ([node("Gather", ["ids", "one"], ["y"])], ["y", "e"], {"y": TensorProto.INT64}),
        ([node("Gather", ["wide", "ids"], ["y"], axis=1)], ["y", "e"], {}),
        ([], ["e", "ids"], {"ids": TensorProto.INT64}),
    ],
    ids=["compared", "computed with", "copied", "picked from", "along another axis", "an output"],
)
def test_ids_that_anything_else_reads_stay_on_the_host(
    nodes: list[onnx.NodeProto], outputs: list[str], types: dict[str, int]
) -> None:
    built = model(
        [LOOKUP, *nodes], outputs=outputs, types=types, one=np.array([1]), wide=random_array(2, 10, 3)
    )

    graph = check_host(built, reason="node 'lookup' (Gather): got input 'ids' computed at run time")

    assert graph.tensors["ids"].is_on_host
    assert "Embedding" not in kinds(graph)


def test_ids_that_a_branch_reads_stay_on_the_host() -> None:
    def branch(name: str) -> onnx.GraphProto:
        out = helper.make_tensor_value_info(name, TensorProto.INT64, [2, 3])
        return helper.make_graph([node("Neg", ["ids"], [name])], name, [], [out])

    choose = node("If", ["is_so"], ["y"], then_branch=branch("a"), else_branch=branch("b"))
    built = model([LOOKUP, choose], outputs=["e", "y"], types={"y": TensorProto.INT64})
    built.graph.input.append(helper.make_tensor_value_info("is_so", TensorProto.BOOL, []))

    assert "Embedding" not in kinds(load_graph(built.SerializeToString()))


TABLES: dict[str, tuple[Any, int]] = {
    "one axis": (random_array(10), TensorProto.FLOAT),
    "three axes": (random_array(10, 2, 3), TensorProto.FLOAT),
    "of integers": (np.arange(60).reshape(10, 6), TensorProto.INT64),
    "of doubles": (TABLE.astype(np.float64), TensorProto.DOUBLE),
}


@pytest.mark.parametrize(("table", "kind"), TABLES.values(), ids=TABLES)
def test_other_tables_stay_on_the_host(table: Any, kind: int) -> None:
    lookup = node("Gather", ["table", "ids"], ["y"])

    graph = load_graph(model([lookup], types={"y": kind}, table=table).SerializeToString())

    assert kinds(graph) == ["HostCall"]


def test_tables_of_too_many_rows_stay_on_the_host() -> None:
    lookup = node("Gather", ["table", "ids"], ["y"])

    graph = load_graph(model([lookup], table=np.zeros((2**24 + 1, 1), np.float32)).SerializeToString())

    assert kinds(graph) == ["HostCall"]


@pytest.mark.parametrize("shape", [(0,), (2, 0), (1, 1, 2, 2), (1, 1, 1, 2, 2)], ids=str)
def test_ids_that_devices_cannot_hold_stay_on_the_host(shape: tuple[int, ...]) -> None:
    assert "Embedding" not in kinds(load_graph(model(shape=shape).SerializeToString()))


def run(session: Any, ids: Any) -> Any:
    return session.run(None, {"ids": ids})[0]


@pytest.mark.parametrize("kind", ["int64", "int32"])
def test_sessions_take_ids_as_onnx_runtime_does(kind: str) -> None:
    number = {"int64": TensorProto.INT64, "int32": TensorProto.INT32}[kind]
    data = model(shape=("N", "T"), kind=number).SerializeToString()
    options = codl.SessionOptions(devices=["pocl-cpu"], warm_up="block")
    with codl.InferenceSession(data, options) as session:
        for length in range(1, 6):  # as a decoder's text grows
            ids = np.random.default_rng(length).integers(-10, 10, (2, length)).astype(kind)
            np.testing.assert_array_equal(run(session, ids), np.maximum(TABLE[ids], 0))
        assert session.get_inputs()[0].type == f"tensor({kind})"
        np.testing.assert_array_equal(
            run(session, ids.astype(ids.dtype.newbyteorder())), np.maximum(TABLE[ids], 0)
        )
        with pytest.raises(codl.InputError, match=f"got dtype float32, expected {kind}"):
            run(session, ids.astype(np.float32))


@pytest.mark.parametrize("bad", [10, -11, 2**40, -(2**63), 2**63 - 1])
def test_ids_without_a_row_are_refused(bad: int) -> None:
    nodes = [LOOKUP, node("Gather", ["large", "ids"], ["f"]), node("Add", ["e", "f"], ["y"])]
    data = model(nodes, large=random_array(20, 6)).SerializeToString()
    ids = np.zeros((2, 3), np.int64)
    ids[1, 2] = bad
    options = codl.SessionOptions(devices=["pocl-cpu"], warm_up="block")
    with codl.InferenceSession(data, options) as session:
        with pytest.raises(codl.InputError, match=rf"input 'ids': got {bad}, expected ids from -10 to 9: "):
            run(session, ids)
        np.testing.assert_array_equal(run(session, ids * 0).shape, (2, 3, 6))


def test_ids_that_another_operator_reads_break_a_law() -> None:
    graph = load_graph(model().SerializeToString())
    nodes = tuple(replace(one, op=Unary()) if isinstance(one.op, Embedding) else one for one in graph.nodes)
    problems = [*find_problems(replace(graph, nodes=nodes))]

    assert not [*find_problems(graph)]
    assert "tensor 'ids': got tensor(int64), expected tensor(float) on a device" in problems

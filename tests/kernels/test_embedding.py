"""Embeddings on every device: shapes of ids, cuts along rows and columns, tile edges, negative ids, NaN."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from codl.catalog.rows.embedding import IMPLEMENTATIONS
from codl.catalog.spec import Selection
from codl.devices.opencl import Device
from codl.ir.graph import FloatArray, Graph, Shape
from codl.ir.ops import Embedding
from tests.kernels.harness import assert_right, one_node_graph, random_array, run_node, run_onnx
from tests.kernels.slices import EDGES, slices_of

(ROW,) = IMPLEMENTATIONS
ROWS = 11
SHAPES: dict[str, tuple[Shape, int]] = {
    "vector": ((7,), 33),
    "batch": ((2, 5), 20),
    "one id": ((1,), 40),
    "one column": ((3, 4), 1),
    "many": ((4, 300), 65),
}


def build(ids: FloatArray, columns: int) -> tuple[Graph, FloatArray]:
    """Return the graph of one embedding and ONNX Runtime's result."""
    table = random_array(ROWS, columns, seed=1)
    nodes = [
        helper.make_node("Cast", ["ids"], ["i"], to=TensorProto.INT64),
        helper.make_node("Gather", ["table", "i"], ["y"]),
    ]
    reference = run_onnx(nodes, {"ids": ids, "table": table})
    inputs = {"ids": ids, "table": table}
    return one_node_graph(Embedding(), inputs, (*ids.shape, columns), constants=["table"]), reference


def draw_ids(*shape: int) -> FloatArray:
    """Return ids of all rows, from the table's end too."""
    return np.random.default_rng(0).integers(-ROWS, ROWS, shape).astype(np.float32)


@pytest.mark.parametrize("gap", [0, 3], ids=["dense", "spaced"])
@pytest.mark.parametrize(("shape", "columns"), SHAPES.values(), ids=SHAPES)
def test_agrees_with_onnx_runtime_under_cuts(device: Device, shape: Shape, columns: int, gap: int) -> None:
    ids = draw_ids(*shape)
    graph, reference = build(ids, columns)
    slices = slices_of(reference.shape)
    assert_right(device, graph, {"ids": ids}, reference, slices=slices, gap=gap, tolerance=0)


@pytest.mark.parametrize("columns", EDGES.values(), ids=EDGES)
@pytest.mark.parametrize("count", EDGES.values(), ids=EDGES)
def test_tile_edges(device: Device, count: int, columns: int) -> None:
    ids = draw_ids(count)
    graph, reference = build(ids, columns)
    lanes = Selection(implementation=ROW, parameters={"VECTOR": 4})
    slices = slices_of(reference.shape)
    assert_right(device, graph, {"ids": ids}, reference, slices=slices, selection=lanes, tolerance=0)


def test_first_and_last_rows(device: Device) -> None:
    ids = np.array([0, ROWS - 1, -1, -ROWS], np.float32)
    graph, _ = build(ids, 5)
    table = graph.constants["table"]
    np.testing.assert_array_equal(run_node(device, graph, {"ids": ids}), table[[0, -1, -1, 0]])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, ROWS, -ROWS - 1, 0.5], ids=str)
def test_reads_nothing_outside_the_table_whatever_the_id(device: Device, value: float) -> None:
    graph, _ = build(draw_ids(3), 9)
    got = run_node(device, graph, {"ids": np.full(3, value, np.float32)})
    assert all((graph.constants["table"] == row).all(axis=1).any() for row in got)

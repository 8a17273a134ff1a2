"""Softmax on every device: axes, lengths, cuts along the axis and across it, NaN and infinities."""

import numpy as np
import pytest
from onnx import helper

from codl.catalog.rows.softmax import COLUMNS, IMPLEMENTATIONS, ROWS
from codl.catalog.spec import Selection
from codl.devices.opencl import Device
from codl.ir.graph import FloatArray, Graph, Shape
from codl.ir.ops import Softmax
from tests.kernels.harness import assert_right, one_node_graph, random_array, run_node, run_onnx
from tests.kernels.slices import EDGES, EVERY_AXIS, slices_of

TABLE = {row.name: row for row in IMPLEMENTATIONS}


def build(x: FloatArray, axis: int) -> tuple[Graph, FloatArray]:
    """Return the graph of one softmax and ONNX Runtime's result."""
    reference = run_onnx([helper.make_node("Softmax", ["x"], ["y"], axis=axis)], {"x": x})
    return one_node_graph(Softmax(axis=axis), {"x": x}, x.shape), reference


@pytest.mark.parametrize(("shape", "axis"), EVERY_AXIS)
def test_agrees_with_onnx_runtime_and_cuts_keep_bits(device: Device, shape: Shape, axis: int) -> None:
    x = 4 * random_array(*shape)
    graph, reference = build(x, axis)
    for gap in (0, 3):
        assert_right(device, graph, {"x": x}, reference, slices=slices_of(shape), gap=gap)


@pytest.mark.parametrize("length", EDGES.values(), ids=EDGES)
@pytest.mark.parametrize("across", EDGES.values(), ids=EDGES)
@pytest.mark.parametrize("name", [ROWS, COLUMNS])
def test_tile_edges(device: Device, name: str, length: int, across: int) -> None:
    shape = (across, length) if name == ROWS else (length, across)
    x = random_array(*shape)
    graph, reference = build(x, 1 if name == ROWS else 0)
    lanes = Selection(implementation=TABLE[name], parameters={"VECTOR": 4})
    assert_right(device, graph, {"x": x}, reference, slices=slices_of(shape), selection=lanes)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    "values",
    [
        pytest.param([1, np.nan, 2], id="nan"),
        pytest.param([np.nan] * 3, id="all-nan"),
        pytest.param([1, np.inf, 2], id="infinity"),
        pytest.param([1, -np.inf, 2], id="masked"),
        pytest.param([-np.inf] * 3, id="all-masked"),
        pytest.param([0, -100, -87.5], id="vanishing"),
        pytest.param([3e38, -3e38, 3e38], id="far-apart"),
    ],
)
@pytest.mark.parametrize("repeats", [1, 9], ids=["short", "long"])
def test_special_values_as_in_onnx_runtime(
    device: Device, values: list[float], repeats: int, axis: int
) -> None:
    row = np.array(values * repeats, np.float32)
    x = np.ascontiguousarray(np.stack([row] * 20, axis=1 - axis))
    graph, reference = build(x, axis)
    np.testing.assert_allclose(run_node(device, graph, {"x": x}), reference, rtol=1e-5, atol=1e-37)

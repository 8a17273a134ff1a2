"""Layer normalization on every device: axes, lengths, cuts along the axis and across it, NaN."""

import numpy as np
import pytest
from onnx import helper

from codl.catalog.rows.normalize import IMPLEMENTATIONS, LAYER
from codl.catalog.spec import Selection
from codl.devices.opencl import Device
from codl.ir.graph import FloatArray, Graph, Shape
from codl.ir.ops import LayerNorm
from tests.kernels.harness import assert_right, one_node_graph, random_array, run_node, run_onnx
from tests.kernels.slices import EDGES, EVERY_AXIS, slices_of

(ROW,) = (row for row in IMPLEMENTATIONS if row.name == LAYER)


def build(x: FloatArray, axis: int, *, has_shift: bool = True) -> tuple[Graph, FloatArray]:
    """Return the graph of one normalization and ONNX Runtime's result, which knows the last axis alone."""
    weights = {"scale": random_array(x.shape[axis], seed=1), "shift": random_array(x.shape[axis], seed=2)}
    if not has_shift:
        del weights["shift"]
    order = [*(other for other in range(x.ndim) if other != axis), axis]
    last = np.ascontiguousarray(x.transpose(order))
    only = helper.make_node("LayerNormalization", ["x", *weights], ["y"], epsilon=1e-3)
    reference = run_onnx([only], {"x": last, **weights}).transpose(np.argsort(order))
    op = LayerNorm(axis=axis, epsilon=1e-3, has_shift=has_shift)
    return one_node_graph(op, {"x": x, **weights}, x.shape, constants=weights), reference


@pytest.mark.parametrize("has_shift", [True, False], ids=["shift", "no shift"])
@pytest.mark.parametrize(("shape", "axis"), EVERY_AXIS)
def test_agrees_with_onnx_runtime_and_cuts_keep_bits(
    device: Device, shape: Shape, axis: int, has_shift: bool
) -> None:
    x = 4 * random_array(*shape) + 1
    graph, reference = build(x, axis, has_shift=has_shift)
    for gap in (0, 3):
        assert_right(device, graph, {"x": x}, reference, slices=slices_of(shape), gap=gap)


@pytest.mark.parametrize("length", EDGES.values(), ids=EDGES)
@pytest.mark.parametrize("across", EDGES.values(), ids=EDGES)
@pytest.mark.parametrize("axis", [0, 1])
def test_tile_edges(device: Device, axis: int, length: int, across: int) -> None:
    shape = (across, length) if axis else (length, across)
    x = random_array(*shape)
    graph, reference = build(x, axis)
    lanes = Selection(implementation=ROW, parameters={"VECTOR": 4})
    assert_right(device, graph, {"x": x}, reference, slices=slices_of(shape), selection=lanes)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38, 0.0, 1e-30], ids=str)
def test_special_values_as_in_onnx_runtime(device: Device, value: float, axis: int) -> None:
    x = random_array(20, 20)
    x[3], x[:, 5] = value, value
    graph, reference = build(x, axis)
    got = run_node(device, graph, {"x": x})
    assert np.array_equal(np.isnan(got), np.isnan(reference))
    np.testing.assert_allclose(got, reference, rtol=1e-4, atol=1e-4)

"""Padding on every device: modes, crops, ranks, tile edges, cuts."""

import numpy as np
import pytest
from onnx import helper

from codl.catalog.rows.pad import IMPLEMENTATIONS
from codl.catalog.spec import Selection
from codl.devices.opencl import Device
from codl.ir.graph import FloatArray, Graph, Shape
from codl.ir.ops import Pad, PadMode
from tests.kernels.harness import assert_right, one_node_graph, random_array, run_node, run_onnx
from tests.kernels.slices import EDGES, slices_of

(ROW,) = IMPLEMENTATIONS
GAPS = pytest.mark.parametrize("gap", [0, 3], ids=["dense", "spaced"])
MODES = pytest.mark.parametrize("mode", list(PadMode))

PADS: dict[str, tuple[Shape, tuple[int, ...]]] = {
    "pixels": ((2, 20, 4, 5), (0, 0, 2, 3, 0, 0, 1, 2)),
    "few-channels": ((1, 3, 6, 7), (0, 0, 4, 4, 0, 0, 4, 4)),
    "channels": ((1, 9, 3, 4), (0, 2, 0, 0, 0, 5, 0, 0)),
    "all-axes": ((2, 4, 3, 5), (1, 2, 2, 1, 1, 3, 0, 4)),
    "crop": ((2, 9, 6, 7), (0, -1, -2, 0, 0, -3, -1, -5)),
    "crop-and-pad": ((1, 5, 6, 7), (0, 0, -2, 3, 0, 0, 2, -3)),
    "nothing": ((1, 5, 2, 3), (0, 0, 0, 0, 0, 0, 0, 0)),
    "sequence": ((2, 4, 19), (0, 1, 2, 1, 0, 7)),
    "matrix": ((3, 17), (1, 16, 2, 3)),
    "vector": ((30,), (5, 20)),
}


def build(shape: Shape, pads: tuple[int, ...], mode: PadMode) -> tuple[Graph, FloatArray, FloatArray]:
    """Return the graph of one Pad, its input and ONNX Runtime's result."""
    x, value = random_array(*shape), 1.25
    nodes = [
        helper.make_node("Constant", [], ["pads"], value_ints=pads),
        helper.make_node("Constant", [], ["value"], value_float=value),
        helper.make_node("Pad", ["x", "pads", "value"], ["y"], mode=mode.value),
    ]
    reference = run_onnx(nodes, {"x": x})
    op = Pad(before=pads[: len(shape)], mode=mode, value=value)
    return one_node_graph(op, {"x": x}, reference.shape), x, reference


@GAPS
@MODES
@pytest.mark.parametrize(("shape", "pads"), PADS.values(), ids=PADS)
def test_agrees_with_onnx_runtime_under_cuts(
    device: Device, shape: Shape, pads: tuple[int, ...], mode: PadMode, gap: int
) -> None:
    graph, x, reference = build(shape, pads, mode)
    slices = slices_of(reference.shape)
    assert_right(device, graph, {"x": x}, reference, slices=slices, gap=gap, tolerance=0)


@MODES
@pytest.mark.parametrize("length", [2 * n for n in EDGES.values()], ids=EDGES)
def test_tile_edges(device: Device, length: int, mode: PadMode) -> None:
    graph, x, reference = build((1, length, 2, 3), (0, 1, 0, 1, 0, 0, 1, 0), mode)
    selection = Selection(implementation=ROW, parameters={})
    slices = slices_of(reference.shape)
    assert_right(device, graph, {"x": x}, reference, slices=slices, selection=selection, tolerance=0)


def test_nan_stays_where_it_is(device: Device) -> None:
    graph, x, _ = build((1, 9, 3, 3), (0, 0, 1, 1, 0, 0, 1, 1), PadMode.CONSTANT)
    x = np.full_like(x, np.nan)
    expected = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=np.float32(1.25))
    np.testing.assert_array_equal(run_node(device, graph, {"x": x}), expected)

"""Global average pooling's two halves on every device: lengths, tile edges, epilogues, cuts, NaN."""

import numpy as np
import pytest
from onnx import helper

from codl.catalog.rows.reduce import IMPLEMENTATIONS
from codl.catalog.spec import Selection
from codl.devices.opencl import Device
from codl.ir.graph import NO_EPILOGUE, FloatArray, Graph, Shape
from codl.ir.ops import CombineRows, Epilogue, ResidualOrder, RowSum
from tests.kernels.harness import (
    EPILOGUES,
    apply_epilogue,
    assert_right,
    one_node_graph,
    random_array,
    run_node,
    run_onnx,
)
from tests.kernels.slices import EDGES, slices_of

ROW, MEAN = IMPLEMENTATIONS
HALVES = pytest.mark.parametrize("half", [RowSum, CombineRows])
SHAPES: dict[str, Shape] = {
    "usual": (2, 40, 7, 6),
    "few-channels": (1, 3, 5, 4),
    "many-channels": (1, 200, 3, 3),
    "one-pixel": (1, 20, 1, 1),
    "large": (1, 16, 40, 33),
}


def build(
    half: type[RowSum | CombineRows], shape: Shape, epilogue: Epilogue = NO_EPILOGUE
) -> tuple[Graph, dict[str, FloatArray], FloatArray]:
    """Return the graph of one half, its input and ONNX Runtime's result."""
    if half is RowSum:
        x = random_array(*shape)
        node, out = helper.make_node("ReduceL1", ["x"], ["y"], axes=[3], keepdims=1), (*shape[:3], 1)
        x = np.abs(x)
        graph = one_node_graph(RowSum(), {"x": x}, out, epilogue=epilogue)
    else:
        x = random_array(*shape[:3], 1)
        node, out = helper.make_node("GlobalAveragePool", ["x"], ["y"]), (*shape[:2], 1, 1)
        graph = one_node_graph(CombineRows(scale=1 / shape[2]), {"x": x}, out, epilogue=epilogue)
    return graph, {"x": x}, apply_epilogue(run_onnx([node], {"x": x}), epilogue, None)


@HALVES
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_agrees_with_onnx_runtime_and_cuts_keep_bits(
    device: Device, shape: Shape, half: type[RowSum | CombineRows]
) -> None:
    graph, feeds, reference = build(half, shape)
    assert_right(device, graph, feeds, reference, slices=slices_of(reference.shape))


@HALVES
@pytest.mark.parametrize("channels", [*EDGES.values(), 16, 23], ids=[*EDGES, "tile", "tile-gt"])
def test_tile_edges(device: Device, channels: int, half: type[RowSum | CombineRows]) -> None:
    graph, feeds, reference = build(half, (1, channels, 3, 4))
    lanes = Selection(implementation=ROW, parameters={"VECTOR": 4})
    assert_right(device, graph, feeds, reference, slices=slices_of(reference.shape), gap=0, selection=lanes)


@pytest.mark.parametrize(
    "epilogue",
    [pytest.param(e, id=name) for name, e in EPILOGUES.items() if e.residual is ResidualOrder.NONE],
)
def test_epilogues(device: Device, epilogue: Epilogue) -> None:
    graph, feeds, reference = build(CombineRows, (1, 19, 4, 1), epilogue)
    assert_right(device, graph, feeds, reference, slices=slices_of(reference.shape))


@HALVES
def test_nan_and_infinities_reach_the_sum(device: Device, half: type[RowSum | CombineRows]) -> None:
    graph, feeds, _ = build(half, (1, 20, 4, 4))
    x = feeds["x"]
    x[0, 0, 1, 0], x[0, 1, 2, 0], x[0, 2, 3, 0] = np.nan, np.inf, -np.inf
    value = run_node(device, graph, {"x": x})
    axis = 3 if half is RowSum else 2
    np.testing.assert_array_equal(np.isfinite(value), np.isfinite(x.sum(axis, keepdims=True)))
    assert np.isnan(value[0, 0]).any()

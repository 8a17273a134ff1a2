"""Means over any axes on every device: ranks, tile edges, epilogues, cuts, NaN."""

import numpy as np
import pytest
from onnx import helper

from codl.catalog.rows.reduce import IMPLEMENTATIONS, MEAN
from codl.catalog.spec import Selection
from codl.devices.opencl import Device
from codl.ir.graph import NO_EPILOGUE, FloatArray, Graph, Shape
from codl.ir.ops import Epilogue, ReduceMean, ResidualOrder
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

(ROW,) = (row for row in IMPLEMENTATIONS if row.name == MEAN)
GAPS = pytest.mark.parametrize("gap", [0, 3], ids=["dense", "spaced"])
MEANS: dict[str, tuple[Shape, tuple[int, ...]]] = {
    "pixels": ((2, 40, 5, 6), (2, 3)),
    "channels": ((2, 40, 5, 6), (1,)),
    "few-channels": ((2, 3, 5, 6), (1,)),
    "rows": ((1, 20, 7, 3), (2,)),
    "batch": ((3, 9, 2, 4), (0,)),
    "channels-and-columns": ((2, 19, 3, 5), (1, 3)),
    "everything": ((2, 9, 3, 4), (0, 1, 2, 3)),
    "nothing": ((2, 9, 3, 4), ()),
    "sequence-inner": ((2, 7, 50), (2,)),
    "sequence-outer": ((2, 7, 20), (1,)),
    "matrix": ((5, 33), (1,)),
    "vector": ((37,), (0,)),
    "large": ((1, 24, 50, 40), (2, 3)),
}


def build(
    shape: Shape, axes: tuple[int, ...], epilogue: Epilogue = NO_EPILOGUE
) -> tuple[Graph, dict[str, FloatArray], FloatArray]:
    """Return the graph of one ReduceMean, its input and ONNX Runtime's result."""
    x = random_array(*shape)
    kind, attributes = ("ReduceMean", {"axes": axes}) if axes else ("Identity", {})
    plain = run_onnx([helper.make_node(kind, ["x"], ["y"], **attributes)], {"x": x})
    graph = one_node_graph(ReduceMean(axes=axes), {"x": x}, plain.shape, epilogue=epilogue)
    return graph, {"x": x}, apply_epilogue(plain, epilogue, None)


@GAPS
@pytest.mark.parametrize(("shape", "axes"), MEANS.values(), ids=MEANS)
def test_agrees_with_onnx_runtime_and_cuts_keep_bits(
    device: Device, shape: Shape, axes: tuple[int, ...], gap: int
) -> None:
    graph, feeds, reference = build(shape, axes)
    assert_right(device, graph, feeds, reference, slices=slices_of(reference.shape), gap=gap)


@pytest.mark.parametrize("axes", [(1,), (2, 3)], ids=["channels", "pixels"])
@pytest.mark.parametrize("channels", EDGES.values(), ids=EDGES)
def test_tile_edges(device: Device, channels: int, axes: tuple[int, ...]) -> None:
    graph, feeds, reference = build((1, channels, 3, 4), axes)
    lanes = Selection(implementation=ROW, parameters={"VECTOR": 4})
    assert_right(device, graph, feeds, reference, slices=slices_of(reference.shape), gap=0, selection=lanes)


@pytest.mark.parametrize(
    "epilogue",
    [pytest.param(e, id=name) for name, e in EPILOGUES.items() if e.residual is ResidualOrder.NONE],
)
def test_epilogues(device: Device, epilogue: Epilogue) -> None:
    graph, feeds, reference = build((1, 19, 3, 2), (2,), epilogue)
    assert_right(device, graph, feeds, reference, slices=slices_of(reference.shape))


@pytest.mark.parametrize("axes", [(1,), (2, 3)], ids=["channels", "pixels"])
def test_nan_and_infinities_reach_the_mean(device: Device, axes: tuple[int, ...]) -> None:
    graph, feeds, _ = build((1, 20, 4, 4), axes)
    x = feeds["x"]
    x[0, 0, 1, 0], x[0, 1, 2, 1], x[0, 2, 3, 2] = np.nan, np.inf, -np.inf
    value = run_node(device, graph, feeds)
    np.testing.assert_array_equal(np.isfinite(value), np.isfinite(x.mean(axes, keepdims=True)))

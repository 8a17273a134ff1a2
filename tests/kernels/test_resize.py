"""Resizing on every device: modes, coordinates, roundings, odd scales, tile edges, cuts."""

from itertools import product

import numpy as np
import pytest
from onnx import helper

from codl.catalog.rows.resize import IMPLEMENTATIONS
from codl.catalog.spec import Selection
from codl.devices.opencl import Device
from codl.ir.graph import FloatArray, Graph, Shape
from codl.ir.ops import Coordinates, Resize2d, ResizeMode, Rounding
from tests.kernels.harness import assert_right, one_node_graph, random_array, run_node, run_onnx
from tests.kernels.slices import EDGES, slices_of

(ROW,) = IMPLEMENTATIONS
GAPS = pytest.mark.parametrize("gap", [0, 3], ids=["dense", "spaced"])
MODES = pytest.mark.parametrize("mode", list(ResizeMode))
SIZES: dict[str, tuple[Shape, Shape]] = {
    "twice": ((2, 20, 3, 4), (6, 8)),
    "half": ((1, 20, 8, 6), (4, 3)),
    "odd-scales": ((1, 9, 7, 5), (10, 13)),
    "few-channels": ((1, 3, 5, 5), (8, 15)),
    "down-and-up": ((1, 5, 11, 3), (4, 19)),
    "to-one-pixel": ((1, 17, 5, 6), (1, 1)),
    "from-one-pixel": ((1, 17, 1, 1), (3, 4)),
    "same": ((1, 9, 4, 5), (4, 5)),
}


def build(
    shape: Shape,
    image: Shape,
    *,
    mode: ResizeMode,
    coordinates: Coordinates = Coordinates.HALF_PIXEL,
    rounding: Rounding = Rounding.PREFER_FLOOR,
) -> tuple[Graph, FloatArray, FloatArray]:
    """Return the graph of one Resize2d, its input and ONNX Runtime's result."""
    x = random_array(*shape)
    nodes = [
        helper.make_node("Constant", [], ["sizes"], value_ints=[*shape[:2], *image]),
        helper.make_node(
            "Resize",
            ["x", "", "", "sizes"],
            ["y"],
            mode=mode.value,
            coordinate_transformation_mode=coordinates.value,
            nearest_mode=rounding.value,
        ),
    ]
    scale = (image[0] / shape[2], image[1] / shape[3])
    op = Resize2d(mode=mode, scale=scale, coordinates=coordinates, rounding=rounding)
    return one_node_graph(op, {"x": x}, (*shape[:2], *image)), x, run_onnx(nodes, {"x": x})


@GAPS
@MODES
@pytest.mark.parametrize(("shape", "image"), SIZES.values(), ids=SIZES)
def test_agrees_with_onnx_runtime_under_cuts(
    device: Device, shape: Shape, image: Shape, mode: ResizeMode, gap: int
) -> None:
    graph, x, reference = build(shape, image, mode=mode)
    assert_right(device, graph, {"x": x}, reference, slices=slices_of(reference.shape), gap=gap)


@pytest.mark.parametrize(("shape", "image"), SIZES.values(), ids=SIZES)
@pytest.mark.parametrize(("coordinates", "rounding"), list(product(Coordinates, Rounding)))
def test_nearest_picks_the_same_elements(
    device: Device, shape: Shape, image: Shape, coordinates: Coordinates, rounding: Rounding
) -> None:
    graph, x, reference = build(
        shape, image, mode=ResizeMode.NEAREST, coordinates=coordinates, rounding=rounding
    )
    assert_right(device, graph, {"x": x}, reference, tolerance=0)


@pytest.mark.parametrize(("shape", "image"), SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("coordinates", list(Coordinates))
def test_linear_agrees_for_all_coordinates(
    device: Device, shape: Shape, image: Shape, coordinates: Coordinates
) -> None:
    graph, x, reference = build(shape, image, mode=ResizeMode.LINEAR, coordinates=coordinates)
    assert_right(device, graph, {"x": x}, reference)


@MODES
@pytest.mark.parametrize("length", EDGES.values(), ids=EDGES)
def test_tile_edges(device: Device, length: int, mode: ResizeMode) -> None:
    graph, x, reference = build((1, length, 3, 3), (4, 5), mode=mode)
    lanes = Selection(implementation=ROW, parameters={"VECTOR": 4})
    assert_right(
        device, graph, {"x": x}, reference, slices=slices_of(reference.shape), gap=0, selection=lanes
    )


def test_nan_reaches_what_is_blended_with_it(device: Device) -> None:
    graph, x, _ = build((1, 9, 2, 2), (4, 4), mode=ResizeMode.LINEAR)
    x[0, 0, 0, 0] = np.nan
    value = run_node(device, graph, {"x": x})
    assert np.isnan(value[0, 0, :3, :3]).all()
    assert np.isfinite(value[0, 1:]).all()

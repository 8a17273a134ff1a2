"""Convolutions by work-groups on every device: tiles, parts of sums, windows, groups, epilogues, cuts."""

from dataclasses import replace

import numpy as np
import pytest
from onnx import helper

from codl.catalog.choose import choose
from codl.catalog.groups import choose_products
from codl.catalog.rows.conv2d_tile import IMPLEMENTATIONS, PARTS, TILES
from codl.catalog.spec import Selection
from codl.devices.opencl import Device
from codl.ir.ops import Activation, ActivationKind, Epilogue
from codl.ir.regions import Region
from tests.kernels.convolutions import Case, build
from tests.kernels.groups import as_gpu
from tests.kernels.harness import EPILOGUES, assert_right, cut, run_node, run_onnx
from tests.kernels.test_conv2d import CASES

(ROW,) = IMPLEMENTATIONS
EACH_TILE = pytest.mark.parametrize("tile", TILES, ids=lambda tile: "x".join(map(str, tile)))
DEEP = Case(image=(9, 7), inputs=36, outputs=72)


def select(device: Device, tile: tuple[int, int], parts: int = 1) -> Selection:
    """Return the row with these parameters."""
    parameters = {"BM": tile[0], "BN": tile[1], "parts": parts, **choose_products(device.info)}
    return Selection(implementation=ROW, parameters=parameters)


@EACH_TILE
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_agrees_with_onnx_runtime_and_cuts_keep_bits(
    device: Device, case: Case, tile: tuple[int, int]
) -> None:
    graph, feeds, reference = build(case)
    shape = reference.shape
    slices = [
        *cut(shape, 0, [1]),
        *cut(shape, 1, [1, 5, shape[1] // 2]),
        *cut(shape, 2, [1, shape[2] // 2]),
        *cut(shape, 3, [shape[3] // 3]),
        Region.whole(shape).cut(1, 3, 7).cut(2, shape[2] // 2, shape[2]).cut(3, 0, shape[3] - 1),
    ]
    slices = [region for region in slices if not region.is_empty]
    assert_right(device, graph, feeds, reference, slices=slices, selection=select(device, tile))


@EACH_TILE
@pytest.mark.parametrize("parts", [2, 3, 7])
@pytest.mark.parametrize("gap", [0, 3], ids=["dense", "spaced"])
def test_parts_of_sums(device: Device, tile: tuple[int, int], parts: int, gap: int) -> None:
    graph, feeds, reference = build(replace(DEEP, epilogue=EPILOGUES["relu-before"]))
    slices = [*cut(reference.shape, 1, [20, 64]), *cut(reference.shape, 2, [4])]
    chosen = select(device, tile, parts)
    assert_right(device, graph, feeds, reference, slices=slices, gap=gap, selection=chosen)


@EACH_TILE
@pytest.mark.parametrize(
    "case",
    [DEEP, Case(image=(8, 8), inputs=64, outputs=64, kernel=(1, 1), pads=(0, 0, 0, 0), batch=2)],
    ids=["three-by-three", "pointwise"],
)
def test_dense_storage_gives_the_bits_of_spaced_storage(
    device: Device, tile: tuple[int, int], case: Case
) -> None:
    graph, feeds, reference = build(case)
    spaced = run_node(device, graph, feeds, gap=3, selection=select(device, tile))
    dense = run_node(device, graph, feeds, gap=0, selection=select(device, tile))
    np.testing.assert_array_equal(spaced.view(np.uint32), dense.view(np.uint32))
    assert_right(device, graph, feeds, reference, gap=4, selection=select(device, tile))


@pytest.mark.parametrize("epilogue", EPILOGUES.values(), ids=EPILOGUES)
@pytest.mark.parametrize("tile", [(32, 32), (64, 64)], ids=["32x32", "64x64"])
def test_epilogues(device: Device, epilogue: Epilogue, tile: tuple[int, int]) -> None:
    graph, feeds, reference = build(Case(image=(4, 5), inputs=8, outputs=36, epilogue=epilogue))
    slices = [*cut(reference.shape, 1, [3, 16, 18]), *cut(reference.shape, 2, [1])]
    for gap in (0, 3):
        chosen = select(device, tile)
        assert_right(device, graph, feeds, reference, slices=slices, gap=gap, selection=chosen)


def test_passes_nan_and_infinity_on(device: Device) -> None:
    relu = Epilogue(activation=Activation(kind=ActivationKind.RELU))
    graph, feeds, _ = build(Case(image=(4, 6), inputs=3, outputs=4, epilogue=relu))
    feeds["x"][0, 0, 1, 1] = np.nan
    feeds["x"][0, 1, 3, 5] = np.inf
    conv = helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1])
    reference = run_onnx([conv, helper.make_node("Relu", ["c"], ["y"])], {**feeds, **graph.constants})
    value = run_node(device, graph, feeds, selection=select(device, (32, 32)))
    np.testing.assert_allclose(value, reference, rtol=1e-4, atol=1e-4)


def test_is_chosen_on_gpus_alone(device: Device) -> None:
    graph, _, _ = build(DEEP)
    (node,) = graph.nodes
    assert choose(node, graph, as_gpu(device).info).implementation is ROW
    assert ROW.accepts(node, graph, replace(device.info, local_memory_bytes=1 << 15)) is None


def test_sums_are_cut_where_tiles_are_few(device: Device) -> None:
    info = replace(as_gpu(device).info, units=132)
    few, _, _ = build(Case(image=(7, 7), inputs=512, outputs=64))
    many, _, _ = build(Case(image=(112, 112), inputs=64, outputs=64, kernel=(1, 1), pads=(0, 0, 0, 0)))
    parts = [choose(graph.nodes[0], graph, info).parameters["parts"] for graph in (few, many)]
    assert parts[0] > 1
    assert parts[1] == 1
    assert parts[0] in PARTS

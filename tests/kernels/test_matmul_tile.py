"""Matrix products by groups that share tiles, on every device: both operands computed, or one constant."""

import numpy as np
import pytest

from codl.catalog.choose import choose
from codl.catalog.groups import choose_products
from codl.catalog.rows import conv2d_tile
from codl.catalog.rows.matmul_tile import IMPLEMENTATIONS, STEPS
from codl.catalog.spec import Selection
from codl.devices.opencl import Device
from codl.ir.graph import Shape
from codl.ir.ops import Epilogue
from tests.kernels import test_matmul
from tests.kernels.groups import as_gpu
from tests.kernels.harness import EPILOGUES, assert_right, cut, run_node

(ROW,), (CONSTANT,) = IMPLEMENTATIONS, conv2d_tile.IMPLEMENTATIONS
GAPS = pytest.mark.parametrize("gap", [0, 3], ids=["dense", "spaced"])
EACH_TILE = pytest.mark.parametrize("tile", STEPS)
PRODUCTS = (
    test_matmul.PRODUCTS
    | test_matmul.BATCHES
    | {"aligned": ((2, 68, 40), (2, 40, 72)), "attention": ((1, 4, 70, 12), (1, 4, 12, 70))}
)
MANY_ROWS: dict[str, tuple[Shape, Shape]] = {
    "matrix": ((29, 37), (37, 45)),
    "aligned": ((70, 64), (64, 136)),
    "one-column": ((9, 12), (12, 1)),
    "batch": ((3, 7, 10), (10, 20)),
    "images": ((2, 3, 6, 8), (8, 40)),
}


def select(device: Device, tile: int) -> Selection:
    """Return the row with a size of tiles."""
    return Selection(implementation=ROW, parameters={"BM": tile, **choose_products(device.info)})


@GAPS
@EACH_TILE
@pytest.mark.parametrize("shapes", PRODUCTS.values(), ids=PRODUCTS)
def test_computed_operands(device: Device, shapes: tuple[Shape, Shape], tile: int, gap: int) -> None:
    graph, feeds, reference = test_matmul.build(*shapes, constant=False)
    gpu, slices = as_gpu(device), test_matmul.cuts(reference.shape)
    assert choose(graph.nodes[0], graph, gpu.info).implementation is ROW
    assert_right(gpu, graph, feeds, reference, slices=slices, gap=gap, selection=select(gpu, tile))


@EACH_TILE
@pytest.mark.parametrize("epilogue", EPILOGUES.values(), ids=EPILOGUES)
def test_epilogues(device: Device, epilogue: Epilogue, tile: int) -> None:
    graph, feeds, reference = test_matmul.build((35, 8), (8, 37), constant=False, epilogue=epilogue)
    gpu, slices = as_gpu(device), cut(reference.shape, 1, [3, 16, 33])
    assert_right(gpu, graph, feeds, reference, slices=slices, selection=select(gpu, tile))


def test_bits_depend_neither_on_tiles_nor_on_storage(device: Device) -> None:
    graph, feeds, _ = test_matmul.build((40, 36), (36, 72), constant=False)
    gpu = as_gpu(device)
    expected = run_node(gpu, graph, feeds, gap=0, selection=select(gpu, 64))
    for tile, gap in ((64, 3), (32, 0), (32, 3)):
        value = run_node(gpu, graph, feeds, gap=gap, selection=select(gpu, tile))
        np.testing.assert_array_equal(value.view(np.uint32), expected.view(np.uint32))


@GAPS
@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("shapes", MANY_ROWS.values(), ids=MANY_ROWS)
def test_many_rows_by_a_constant_matrix(
    device: Device, shapes: tuple[Shape, Shape], bias: bool, gap: int
) -> None:
    graph, feeds, reference = test_matmul.build(*shapes, constant=True, bias=bias)
    gpu, slices = as_gpu(device), test_matmul.cuts(reference.shape)
    assert choose(graph.nodes[0], graph, gpu.info).implementation is CONSTANT
    assert_right(gpu, graph, feeds, reference, slices=slices, gap=gap)


@pytest.mark.parametrize("tile", conv2d_tile.TILES, ids=lambda tile: "x".join(map(str, tile)))
@pytest.mark.parametrize("parts", [1, 3])
def test_tiles_and_parts_of_a_product_with_a_constant_matrix(
    device: Device, tile: tuple[int, int], parts: int
) -> None:
    epilogue = EPILOGUES["relu-before"]
    graph, feeds, reference = test_matmul.build(
        (70, 100), (100, 72), constant=True, bias=True, epilogue=epilogue
    )
    gpu = as_gpu(device)
    parameters = {"BM": tile[0], "BN": tile[1], "parts": parts, **choose_products(gpu.info)}
    chosen = Selection(implementation=CONSTANT, parameters=parameters)
    slices = test_matmul.cuts(reference.shape)
    assert_right(gpu, graph, feeds, reference, slices=slices, selection=chosen)

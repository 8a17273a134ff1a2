"""Products whose factors are rounded to tf32 or float16, on every device: tiles, parts, edges, cuts.

On devices without matrix units work-items exchange factors (kernels/walk/matrix_units.h). The judge is ONNX
Runtime's result of rounded factors, so that only the order of sums differs.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from codl.catalog.choose import choose
from codl.catalog.groups import choose_products
from codl.catalog.rows import conv2d_tile, matmul_tile
from codl.catalog.spec import Implementation, Selection
from codl.devices.opencl import Device
from codl.ir.graph import FloatArray, Shape
from codl.ir.regions import Region
from codl.machine import Precision
from tests.kernels import test_conv2d, test_matmul
from tests.kernels.convolutions import Case, build
from tests.kernels.groups import as_gpu
from tests.kernels.harness import EPILOGUES, assert_right, cut, run_node
from tests.kernels.test_matmul_tile import MANY_ROWS, PRODUCTS

(CONVOLUTION,), (PRODUCT,) = conv2d_tile.IMPLEMENTATIONS, matmul_tile.IMPLEMENTATIONS


def round_tf32(value: FloatArray) -> FloatArray:
    """Return values of 11 bits, halves rounded away from zero."""
    bits = np.ascontiguousarray(value, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def round_half(value: FloatArray) -> FloatArray:
    """Return values of float16."""
    return value.astype(np.float16).astype(np.float32)


ROUNDING: Mapping[Precision, Callable[[FloatArray], FloatArray]] = {
    Precision.TF32: round_tf32,
    Precision.FLOAT16: round_half,
}
EACH_PRECISION = pytest.mark.parametrize("precision", ROUNDING)
EACH_TILE = pytest.mark.parametrize("tile", conv2d_tile.UNIT_TILES, ids=lambda tile: "x".join(map(str, tile)))
CASES = {
    name: test_conv2d.CASES[name]
    for name in ("one-pixel", "first-layer", "batch", "dilated", "groups-even", "groups-wide")
} | {"deep": Case(image=(9, 7), inputs=36, outputs=72)}


def select(row: Implementation, gpu: Device, **parameters: int) -> Selection:
    """Return a row with some parameters and those of the device's products."""
    return Selection(implementation=row, parameters={**parameters, **choose_products(gpu.info)})


@EACH_PRECISION
@EACH_TILE
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_convolutions_agree_with_rounded_factors_and_cuts_keep_bits(
    device: Device, case: Case, tile: tuple[int, int], precision: Precision
) -> None:
    gpu = as_gpu(device, precision=precision)
    graph, feeds, reference = build(case, round_factors=ROUNDING[precision])
    shape = reference.shape
    slices = [
        *cut(shape, 1, [5, shape[1] // 2]),
        *cut(shape, 2, [shape[2] // 2]),
        Region.whole(shape).cut(1, 3, 7).cut(2, shape[2] // 2, shape[2]).cut(3, 0, shape[3] - 1),
    ]
    slices = [region for region in slices if not region.is_empty]
    chosen = select(CONVOLUTION, gpu, BM=tile[0], BN=tile[1], parts=1)
    assert_right(gpu, graph, feeds, reference, slices=slices, selection=chosen)


@EACH_PRECISION
@EACH_TILE
@pytest.mark.parametrize("gap", [0, 3], ids=["dense", "spaced"])
def test_parts_of_sums(device: Device, tile: tuple[int, int], gap: int, precision: Precision) -> None:
    gpu, case = as_gpu(device, precision=precision), replace(CASES["deep"], epilogue=EPILOGUES["relu-before"])
    graph, feeds, reference = build(case, round_factors=ROUNDING[precision])
    slices = [*cut(reference.shape, 1, [20, 64]), *cut(reference.shape, 2, [4])]
    chosen = select(CONVOLUTION, gpu, BM=tile[0], BN=tile[1], parts=3)
    assert_right(gpu, graph, feeds, reference, slices=slices, gap=gap, selection=chosen)


@EACH_PRECISION
@pytest.mark.parametrize("tile", matmul_tile.STEPS)
@pytest.mark.parametrize("gap", [0, 3], ids=["dense", "spaced"])
@pytest.mark.parametrize("name", ["matrix", "one-column", "heads-repeat", "aligned", "attention"])
def test_products_of_computed_operands(
    device: Device, name: str, gap: int, tile: int, precision: Precision
) -> None:
    gpu, shapes = as_gpu(device, precision=precision), PRODUCTS[name]
    graph, feeds, reference = test_matmul.build(*shapes, constant=False, round_factors=ROUNDING[precision])
    slices = test_matmul.cuts(reference.shape)
    assert_right(
        gpu, graph, feeds, reference, slices=slices, gap=gap, selection=select(PRODUCT, gpu, BM=tile)
    )


@EACH_PRECISION
@pytest.mark.parametrize("shapes", MANY_ROWS.values(), ids=MANY_ROWS)
def test_products_with_a_constant_matrix(
    device: Device, shapes: tuple[Shape, Shape], precision: Precision
) -> None:
    gpu = as_gpu(device, precision=precision)
    graph, feeds, reference = test_matmul.build(
        *shapes, constant=True, bias=True, round_factors=ROUNDING[precision]
    )
    chosen = choose(graph.nodes[0], graph, gpu.info)
    assert chosen.implementation is CONVOLUTION
    assert chosen.parameters["PRECISION"] == list(Precision).index(precision)
    assert_right(gpu, graph, feeds, reference, slices=test_matmul.cuts(reference.shape))


@EACH_PRECISION
def test_passes_nan_and_infinity_on(device: Device, precision: Precision) -> None:
    gpu = as_gpu(device, precision=precision)
    graph, feeds, reference = test_matmul.build((9, 20), (20, 12), constant=False)
    feeds["a"][2, 3], feeds["a"][4, 5] = np.nan, np.inf
    value = run_node(gpu, graph, feeds, selection=select(PRODUCT, gpu, BM=32))
    assert np.isnan(value[2]).all()
    assert np.isinf(value[4]).all()
    others = [row for row in range(9) if row not in (2, 4)]
    np.testing.assert_allclose(value[others], reference[others], rtol=0, atol=0.05)


def test_devices_without_matrix_units_compute_in_float32(device: Device) -> None:
    gpu = as_gpu(device).with_facts(precision=Precision.TF32)
    assert choose_products(gpu.info)["PRECISION"] == 0

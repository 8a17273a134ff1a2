"""Products of few rows with a constant matrix by work-groups, on every device: shapes, epilogues, cuts."""

import pytest

from codl.catalog.choose import choose
from codl.catalog.rows.linear_rows import IMPLEMENTATIONS, LINEAR
from codl.devices.opencl import Device
from codl.ir.graph import Shape
from codl.ir.ops import Epilogue
from tests.kernels import test_matmul
from tests.kernels.convolutions import Case, build
from tests.kernels.groups import as_gpu
from tests.kernels.harness import EPILOGUES, assert_right, cut

GAPS = pytest.mark.parametrize("gap", [0, 3], ids=["dense", "spaced"])
PRODUCTS = test_matmul.PRODUCTS | {"deep": ((1, 1100), (1100, 21))}


@GAPS
@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("shapes", PRODUCTS.values(), ids=PRODUCTS)
def test_products(device: Device, shapes: tuple[Shape, Shape], bias: bool, gap: int) -> None:
    graph, feeds, reference = test_matmul.build(*shapes, constant=True, bias=bias)
    gpu, slices = as_gpu(device), test_matmul.cuts(reference.shape)
    chosen = choose(graph.nodes[0], graph, gpu.info, rows=IMPLEMENTATIONS)
    assert_right(gpu, graph, feeds, reference, slices=slices, gap=gap, selection=chosen)


@pytest.mark.parametrize(("rows", "is_chosen"), [(1, True), (8, True), (9, False)])
def test_few_rows_are_taken_by_lines(device: Device, rows: int, is_chosen: bool) -> None:
    graph, _, _ = test_matmul.build((rows, 64), (64, 96), constant=True)
    chosen = choose(graph.nodes[0], graph, as_gpu(device).info).implementation
    assert (chosen.name == LINEAR) == is_chosen


@pytest.mark.parametrize("epilogue", EPILOGUES.values(), ids=EPILOGUES)
def test_epilogues_of_products(device: Device, epilogue: Epilogue) -> None:
    graph, feeds, reference = test_matmul.build((5, 8), (8, 37), constant=True, bias=True, epilogue=epilogue)
    assert_right(as_gpu(device), graph, feeds, reference, slices=cut(reference.shape, 1, [3, 16, 33]))


@GAPS
@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("epilogue", ["relu-before", "sigmoid-none"])
def test_convolutions_of_one_pixel(device: Device, images: int, epilogue: str, gap: int) -> None:
    case = Case(
        image=(1, 1),
        inputs=130,
        outputs=21,
        kernel=(1, 1),
        pads=(0, 0, 0, 0),
        batch=images,
        epilogue=EPILOGUES[epilogue],
    )
    graph, feeds, reference = build(case)
    gpu, slices = as_gpu(device), cut(reference.shape, 1, [3, 16])
    assert choose(graph.nodes[0], graph, gpu.info).implementation.name == LINEAR
    assert_right(gpu, graph, feeds, reference, slices=slices, gap=gap)

"""Rows of GPUs whose work-groups take lines, on every device: products with few rows, softmax, cuts, NaN."""

import numpy as np
import pytest

from codl.catalog.choose import choose
from codl.catalog.rows.linear_rows import LINEAR, SOFTMAX
from codl.devices.opencl import Device
from codl.ir.graph import Shape
from codl.ir.ops import Epilogue
from tests.kernels import test_matmul, test_softmax
from tests.kernels.groups import as_gpu
from tests.kernels.harness import EPILOGUES, assert_right, cut, random_array, run_node
from tests.kernels.slices import slices_of

GAPS = pytest.mark.parametrize("gap", [0, 3], ids=["dense", "spaced"])
PRODUCTS = test_matmul.PRODUCTS | {"deep": ((1, 1100), (1100, 21))}


@GAPS
@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("shapes", PRODUCTS.values(), ids=PRODUCTS)
def test_products(device: Device, shapes: tuple[Shape, Shape], bias: bool, gap: int) -> None:
    graph, feeds, reference = test_matmul.build(*shapes, constant=True, bias=bias)
    gpu = as_gpu(device)
    assert choose(graph.nodes[0], graph, gpu.info).implementation.name == LINEAR
    slices = test_matmul.cuts(reference.shape)
    assert_right(gpu, graph, feeds, reference, slices=slices, gap=gap)


@pytest.mark.parametrize("epilogue", EPILOGUES.values(), ids=EPILOGUES)
def test_epilogues_of_products(device: Device, epilogue: Epilogue) -> None:
    graph, feeds, reference = test_matmul.build((5, 8), (8, 37), constant=True, bias=True, epilogue=epilogue)
    assert_right(as_gpu(device), graph, feeds, reference, slices=cut(reference.shape, 1, [3, 16, 33]))


@GAPS
@pytest.mark.parametrize(
    "shape",
    [(21,), (3, 130), (2, 1000), (4, 5, 33), (2, 20, 3, 5)],
    ids=lambda shape: "x".join(map(str, shape)),
)
def test_softmax_agrees_with_onnx_runtime_and_cuts_keep_bits(device: Device, shape: Shape, gap: int) -> None:
    x = 4 * random_array(*shape)
    gpu = as_gpu(device)
    graph, reference = test_softmax.build(x, 1 if len(shape) == 4 else len(shape) - 1)
    assert choose(graph.nodes[0], graph, gpu.info).implementation.name == SOFTMAX
    assert_right(gpu, graph, {"x": x}, reference, slices=slices_of(shape), gap=gap)


@pytest.mark.parametrize(
    "values",
    [[1, np.nan, 2], [np.nan] * 3, [1, np.inf, 2], [1, -np.inf, 2], [-np.inf] * 3, [3e38, -3e38, 3e38]],
    ids=["nan", "all-nan", "infinity", "masked", "all-masked", "far-apart"],
)
def test_softmax_of_special_values(device: Device, values: list[float]) -> None:
    x = np.stack([np.array(values * 9, np.float32)] * 3)
    graph, reference = test_softmax.build(x, 1)
    value = run_node(as_gpu(device), graph, {"x": x})
    np.testing.assert_allclose(value, reference, rtol=1e-5, atol=1e-37)

"""Rows of GPUs whose work-items take channels, on every device: pointwise, copies, windows, sums, cuts."""

import numpy as np
import pytest

from codl.catalog.choose import choose
from codl.catalog.rows.lane_windows import DEPTHWISE, POOL, RESIZE, RESPONSE
from codl.catalog.rows.lanes import POINTWISE, RESHAPE, SUM
from codl.catalog.rows.lines import MEAN
from codl.devices.opencl import Device
from codl.ir.graph import FloatArray, Graph, Shape
from codl.ir.ops import (
    BinaryKind,
    CombineRows,
    Concat,
    Epilogue,
    LocalResponseNorm,
    PoolKind,
    Reshape,
    ResizeMode,
    RowSum,
    Transpose,
    Unary,
)
from tests.kernels import (
    convolutions,
    test_depthwise,
    test_pointwise,
    test_pool,
    test_reduce,
    test_resize,
)
from tests.kernels import test_normalize as normalizations
from tests.kernels.groups import as_gpu
from tests.kernels.harness import (
    EPILOGUES,
    apply_epilogue,
    assert_right,
    one_node_graph,
    random_array,
    run_node,
)
from tests.kernels.slices import slices_of

GAPS = pytest.mark.parametrize("gap", [0, 3], ids=["dense", "spaced"])


def check(
    device: Device, graph: Graph, feeds: dict[str, FloatArray], reference: FloatArray, row: str, *, gap: int
) -> None:
    """Assert that the row is chosen and computes a node, whole and in slices."""
    gpu = as_gpu(device)
    assert choose(graph.nodes[-1], graph, gpu.info).implementation.name == row
    assert_right(gpu, graph, feeds, reference, slices=slices_of(reference.shape), gap=gap)


@GAPS
@pytest.mark.parametrize("shape", test_pointwise.SHAPES.values(), ids=test_pointwise.SHAPES)
def test_unary(device: Device, shape: Shape, gap: int) -> None:
    x = np.asarray(random_array(*shape))
    graph = one_node_graph(Unary(), {"x": x}, shape, epilogue=test_pointwise.LEAKY)
    check(device, graph, {"x": x}, apply_epilogue(x, test_pointwise.LEAKY, None), POINTWISE, gap=gap)


@GAPS
@pytest.mark.parametrize("shapes", test_pointwise.BROADCASTS.values(), ids=test_pointwise.BROADCASTS)
@pytest.mark.parametrize("constants", ["", "b"], ids=["computed", "constant-b"])
def test_binary_broadcasts(device: Device, shapes: tuple[Shape, Shape], constants: str, gap: int) -> None:
    graph, feeds, reference = test_pointwise.binary(
        shapes, BinaryKind.ADD, constants=constants, epilogue=test_pointwise.LEAKY
    )
    check(device, graph, feeds, reference, POINTWISE, gap=gap)


@pytest.mark.parametrize("kind", list(BinaryKind))
@pytest.mark.parametrize("epilogue", EPILOGUES.values(), ids=EPILOGUES)
def test_binary_epilogues(device: Device, epilogue: Epilogue, kind: BinaryKind) -> None:
    graph, feeds, reference = test_pointwise.binary(((1, 20, 3, 4), (20, 1, 1)), kind, epilogue=epilogue)
    check(device, graph, feeds, reference, POINTWISE, gap=0)


@GAPS
@pytest.mark.parametrize("name", [name for name, shape in test_pointwise.SHAPES.items() if len(shape) > 1])
def test_affine(device: Device, name: str, gap: int) -> None:
    graph, feeds, reference = test_pointwise.affine(test_pointwise.SHAPES[name])
    check(device, graph, feeds, reference, POINTWISE, gap=gap)


@GAPS
@pytest.mark.parametrize("axis", [1, 2, 3])
def test_concat(device: Device, axis: int, gap: int) -> None:
    shapes = [(2, *(length if place == axis else 8 for place in (1, 2, 3))) for length in (4, 12, 5)]
    feeds = {f"x{index}": random_array(*shape, seed=index) for index, shape in enumerate(shapes)}
    reference = np.concatenate(list(feeds.values()), axis=axis)
    graph = one_node_graph(Concat(axis=axis), feeds, reference.shape)
    check(device, graph, feeds, reference, POINTWISE, gap=gap)


@GAPS
def test_transpose(device: Device, gap: int) -> None:
    x = random_array(2, 12, 5, 7)
    graph = one_node_graph(Transpose(order=(0, 2, 3, 1)), {"x": x}, (2, 5, 7, 12))
    reference = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    check(device, graph, {"x": x}, reference, POINTWISE, gap=gap)


@GAPS
@pytest.mark.parametrize(
    ("shape", "target"),
    [
        ((2, 12, 5, 7), (2, 420)),
        ((1, 20, 1, 1), (1, 20)),
        ((3, 8, 10), (2, 12, 2, 5)),
        ((6, 35), (1, 5, 6, 7)),
    ],
    ids=["flattened", "one-pixel", "to-image", "matrix-to-image"],
)
def test_reshape(device: Device, shape: Shape, target: Shape, gap: int) -> None:
    x = random_array(*shape)
    graph = one_node_graph(Reshape(), {"x": x}, target)
    check(device, graph, {"x": x}, x.reshape(target), RESHAPE, gap=gap)


@GAPS
@pytest.mark.parametrize("case", test_depthwise.CASES.values(), ids=test_depthwise.CASES)
def test_depthwise_convolutions(device: Device, case: convolutions.Case, gap: int) -> None:
    graph, feeds, reference = convolutions.build(case)
    check(device, graph, feeds, reference, DEPTHWISE, gap=gap)


@pytest.mark.parametrize("epilogue", EPILOGUES.values(), ids=EPILOGUES)
def test_depthwise_epilogues(device: Device, epilogue: Epilogue) -> None:
    graph, feeds, reference = convolutions.build(
        test_depthwise.depthwise(20, image=(4, 5), epilogue=epilogue)
    )
    check(device, graph, feeds, reference, DEPTHWISE, gap=0)


@GAPS
@pytest.mark.parametrize("kind", list(PoolKind))
@pytest.mark.parametrize("case", test_pool.CASES.values(), ids=test_pool.CASES)
def test_pooling(device: Device, case: test_pool.Case, kind: PoolKind, gap: int) -> None:
    graph, x, reference = test_pool.build(case, kind)
    check(device, graph, {"x": x}, reference, POOL, gap=gap)


@pytest.mark.parametrize("kind", list(PoolKind))
def test_nan_spreads_to_all_windows_that_hold_it(device: Device, kind: PoolKind) -> None:
    x = random_array(1, 8, 6, 7)
    x[0, 1, 2, 3] = np.nan
    graph, _, _ = test_pool.build(test_pool.Case(x=(1, 8, 6, 7)), kind, x)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    expected = windows.max((-1, -2)) if kind is PoolKind.MAX else windows.mean((-1, -2))
    value = run_node(as_gpu(device), graph, {"x": x}, gap=0)
    np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5)


@GAPS
@pytest.mark.parametrize("half", [RowSum, CombineRows])
@pytest.mark.parametrize("shape", test_reduce.SHAPES.values(), ids=test_reduce.SHAPES)
def test_sums(device: Device, shape: Shape, half: type[RowSum | CombineRows], gap: int) -> None:
    graph, feeds, reference = test_reduce.build(half, shape)
    is_long = shape[3 if half is RowSum else 2] > 16
    check(device, graph, feeds, reference, MEAN if is_long else SUM, gap=gap)


@GAPS
@pytest.mark.parametrize("shape", normalizations.SHAPES.values(), ids=normalizations.SHAPES)
@pytest.mark.parametrize("size", [1, 3, 5, 9])
def test_response_norm(device: Device, shape: Shape, size: int, gap: int) -> None:
    op = LocalResponseNorm(size=size, alpha=0.5, beta=0.75, bias=1.0)
    check(device, *normalizations.response_case(shape, op), RESPONSE, gap=gap)


def test_response_norm_of_even_windows_and_special_values(device: Device) -> None:
    op, x = LocalResponseNorm(size=4, alpha=0.5, beta=0.75, bias=1.0), random_array(1, 32, 2, 2)
    x[0, 0, 0, 0], x[0, 16, 0, 0], x[0, 24, 1, 1] = np.nan, np.inf, 1e15
    value = run_node(as_gpu(device), one_node_graph(op, {"x": x}, x.shape), {"x": x})
    np.testing.assert_allclose(value, normalizations.windows_by_pooling(op, x), rtol=1e-5, atol=1e-6)


@GAPS
@pytest.mark.parametrize("epilogue", ["relu-before", "sigmoid-none"])
def test_normalize(device: Device, epilogue: str, gap: int) -> None:
    case = normalizations.normalize_case((2, 20, 3, 4), EPILOGUES[epilogue])
    check(device, *case, POINTWISE, gap=gap)


@GAPS
@pytest.mark.parametrize("mode", list(ResizeMode))
@pytest.mark.parametrize(("shape", "image"), test_resize.SIZES.values(), ids=test_resize.SIZES)
def test_resize_of_images(device: Device, shape: Shape, image: Shape, mode: ResizeMode, gap: int) -> None:
    graph, x, reference = test_resize.build(shape, image, mode=mode)
    check(device, graph, {"x": x}, reference, RESIZE, gap=gap)


@GAPS
def test_reshape_by_vectors(device: Device, gap: int) -> None:
    x = random_array(1, 6, 40)
    graph = one_node_graph(Reshape(), {"x": x}, (6, 5, 8))
    check(device, graph, {"x": x}, x.reshape(6, 5, 8), RESHAPE, gap=gap)

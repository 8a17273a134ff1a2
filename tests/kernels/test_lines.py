"""Rows of GPUs whose work-groups take lines, on every device: axes, lengths, shares of a line, cuts, NaN."""

import numpy as np
import pytest

from codl.catalog.choose import choose
from codl.catalog.groups import choose_assembly
from codl.catalog.rows.lines import COMBINE, IMPLEMENTATIONS, LAYER, MEAN, ROWS, SOFTMAX, THREADS
from codl.catalog.spec import Selection
from codl.devices.opencl import Device
from codl.ir.graph import FloatArray, Graph, Shape
from codl.ir.ops import CombineMoments, Epilogue, ResidualOrder, RowMoments
from tests.kernels import test_layer_norm as layer_norms
from tests.kernels import test_normalize as normalizations
from tests.kernels import test_reduce_mean as means
from tests.kernels import test_softmax as softmaxes
from tests.kernels.groups import as_gpu
from tests.kernels.harness import EPILOGUES, assert_right, one_node_graph, random_array, run_node
from tests.kernels.slices import EVERY_AXIS, slices_of

TABLE = {row.name: row for row in IMPLEMENTATIONS}
GAPS = pytest.mark.parametrize("gap", [0, 3], ids=["dense", "spaced"])
EACH_SHARE = pytest.mark.parametrize("threads", THREADS)
LONG: list[tuple[Shape, int]] = [((2, 1000), 1), ((3, 130), 1), ((300, 5), 0), ((2, 20, 3, 5), 1)]


def select(device: Device, row: str, threads: int) -> Selection:
    """Return a row with so many work-items for a line."""
    return Selection(
        implementation=TABLE[row], parameters={"threads": threads, **choose_assembly(device.info)}
    )


def check(
    device: Device,
    graph: Graph,
    feeds: dict[str, FloatArray],
    reference: FloatArray,
    *,
    row: str,
    gap: int = 3,
) -> None:
    """Assert that the row is chosen and computes a node, whole and in slices."""
    gpu = as_gpu(device)
    assert choose(graph.nodes[-1], graph, gpu.info).implementation.name == row
    assert_right(gpu, graph, feeds, reference, slices=slices_of(reference.shape), gap=gap)


@GAPS
@pytest.mark.parametrize(("shape", "axis"), [*EVERY_AXIS, *LONG])
def test_softmax(device: Device, shape: Shape, axis: int, gap: int) -> None:
    x = 4 * random_array(*shape)
    graph, reference = softmaxes.build(x, axis)
    check(device, graph, {"x": x}, reference, row=SOFTMAX, gap=gap)


@GAPS
@pytest.mark.parametrize("has_shift", [True, False], ids=["shift", "no shift"])
@pytest.mark.parametrize(("shape", "axis"), [*EVERY_AXIS, *LONG])
def test_layer_norm(device: Device, shape: Shape, axis: int, has_shift: bool, gap: int) -> None:
    x = 4 * random_array(*shape) + 1
    graph, reference = layer_norms.build(x, axis, has_shift=has_shift)
    check(device, graph, {"x": x}, reference, row=LAYER, gap=gap)


@GAPS
@pytest.mark.parametrize(("shape", "axes"), means.MEANS.values(), ids=means.MEANS)
def test_means(device: Device, shape: Shape, axes: tuple[int, ...], gap: int) -> None:
    check(device, *means.build(shape, axes), row=MEAN, gap=gap)


@pytest.mark.parametrize(
    "epilogue",
    [one for one in EPILOGUES.values() if one.residual is ResidualOrder.NONE],
    ids=[name for name, one in EPILOGUES.items() if one.residual is ResidualOrder.NONE],
)
def test_epilogues_of_means(device: Device, epilogue: Epilogue) -> None:
    check(device, *means.build((2, 20, 3, 5), (2,), epilogue), row=MEAN)


@GAPS
@pytest.mark.parametrize("shape", normalizations.SHAPES.values(), ids=normalizations.SHAPES)
def test_moments(device: Device, shape: Shape, gap: int) -> None:
    check(device, *normalizations.rows_case(shape), row=ROWS, gap=gap)
    check(device, *normalizations.combine_case(shape), row=COMBINE, gap=gap)


@pytest.mark.parametrize("value", [3.0, 1e-3])
def test_equal_values_have_no_deviations(device: Device, value: float) -> None:
    x = np.full((1, 5, 3, 50), value, np.float32)
    moments = run_node(as_gpu(device), one_node_graph(RowMoments(), {"x": x}, (1, 5, 3, 2)), {"x": x})
    np.testing.assert_array_equal(moments[..., 0], x[..., 0])
    np.testing.assert_array_equal(moments[..., 1], 0)
    weights = {"s": random_array(5), "t": random_array(5, seed=1)}
    op = CombineMoments(epsilon=1e-5, row_length=50)
    graph = one_node_graph(op, {"m": moments, **weights}, (1, 5, 1, 2), constants=weights)
    factors = run_node(as_gpu(device), graph, {"m": moments})
    np.testing.assert_array_equal(factors[0, :, 0, 1], weights["t"])


@EACH_SHARE
@pytest.mark.parametrize(("shape", "axis"), [((9, 101), 1), ((101, 9), 0)], ids=["along", "across"])
def test_any_number_of_work_items_shares_a_line(
    device: Device, shape: Shape, axis: int, threads: int
) -> None:
    x, gpu, slices = random_array(*shape), as_gpu(device), slices_of(shape)
    for row, build in ((SOFTMAX, softmaxes.build), (LAYER, layer_norms.build)):
        graph, reference = build(x, axis)
        chosen = select(gpu, row, threads)
        assert_right(gpu, graph, {"x": x}, reference, slices=slices, selection=chosen)
    mean, feeds, expected = means.build(shape, (axis,))
    assert_right(gpu, mean, feeds, expected, selection=select(gpu, MEAN, threads))


@pytest.mark.parametrize(
    "values",
    [[1, np.nan, 2], [np.nan] * 3, [1, np.inf, 2], [1, -np.inf, 2], [-np.inf] * 3, [3e38, -3e38, 3e38]],
    ids=["nan", "all-nan", "infinity", "masked", "all-masked", "far-apart"],
)
@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_of_special_values(device: Device, values: list[float], axis: int) -> None:
    x = np.stack([np.array(values * 9, np.float32)] * 3, axis=1 - axis)
    graph, reference = softmaxes.build(x, axis)
    value = run_node(as_gpu(device), graph, {"x": x})
    np.testing.assert_allclose(value, reference, rtol=1e-5, atol=1e-37)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38, 0.0, 1e-30], ids=str)
def test_layer_norm_of_special_values(device: Device, value: float, axis: int) -> None:
    x = random_array(20, 20)
    x[3], x[:, 5] = value, value
    graph, reference = layer_norms.build(x, axis)
    got = run_node(as_gpu(device), graph, {"x": x})
    assert np.array_equal(np.isnan(got), np.isnan(reference))
    np.testing.assert_allclose(got, reference, rtol=1e-4, atol=1e-4)

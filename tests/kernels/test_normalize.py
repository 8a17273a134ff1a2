"""Instance normalization's three nodes and response norm on every device: lengths, tile edges, cuts, NaN."""

import numpy as np
import onnx
import pytest
from onnx import helper

from codl.catalog.rows.normalize import IMPLEMENTATIONS
from codl.catalog.spec import Selection
from codl.devices.opencl import Device
from codl.ir.graph import NO_EPILOGUE, FloatArray, Graph, Shape
from codl.ir.ops import CombineMoments, Epilogue, LocalResponseNorm, Normalize, ResidualOrder, RowMoments
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
from tests.oracle import OPERATOR_TOLERANCE, relative_error

ROW_OF = dict(zip(["rows", "combine", "normalize", "layer", "response"], IMPLEMENTATIONS, strict=True))
GAPS = pytest.mark.parametrize("gap", [0, 3], ids=["dense", "spaced"])
EPSILON = 1e-5
Case = tuple[Graph, dict[str, FloatArray], FloatArray]

SHAPES: dict[str, Shape] = {
    "usual": (2, 40, 7, 6),
    "few-channels": (1, 3, 5, 4),
    "many-channels": (1, 200, 3, 3),
    "one-pixel": (2, 20, 1, 1),
    "large": (1, 16, 40, 33),
}


def image(shape: Shape) -> FloatArray:
    """Return values whose mean is large against their spread, as makes naive variances fail."""
    return random_array(*shape) + np.float32(30)


def row_moments(x: FloatArray) -> FloatArray:
    """Return ONNX Runtime's mean and squared deviations of each row."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["m"], axes=[3]),
        helper.make_node("Sub", ["x", "m"], ["d"]),
        helper.make_node("ReduceSumSquare", ["d"], ["q"], axes=[3]),
        helper.make_node("Concat", ["m", "q"], ["y"], axis=3),
    ]
    return run_onnx(nodes, {"x": x})


def rows_case(shape: Shape) -> Case:
    x = image(shape)
    reference = row_moments(x)
    return one_node_graph(RowMoments(), {"x": x}, reference.shape), {"x": x}, reference


def combine_case(shape: Shape) -> Case:
    channels, x = shape[1], image(shape)
    scale, shift = random_array(channels, seed=1), random_array(channels, seed=2)
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["m"], axes=[2, 3]),
        helper.make_node("Sub", ["x", "m"], ["d"]),
        helper.make_node("Mul", ["d", "d"], ["dd"]),
        helper.make_node("ReduceMean", ["dd"], ["v"], axes=[2, 3]),
        helper.make_node("Add", ["v", "e"], ["ve"]),
        helper.make_node("Sqrt", ["ve"], ["r"]),
        helper.make_node("Div", ["s", "r"], ["q"]),
        helper.make_node("Sign", ["v"], ["i"]),  # 0 of equal values
        helper.make_node("Mul", ["q", "i"], ["f"]),
        helper.make_node("Mul", ["m", "f"], ["mf"]),
        helper.make_node("Sub", ["t", "mf"], ["b"]),
        helper.make_node("Concat", ["f", "b"], ["y"], axis=3),
    ]
    column = (1, channels, 1, 1)
    feeds = {
        "x": x,
        "e": np.array(EPSILON, np.float32),
        "s": scale.reshape(column),
        "t": shift.reshape(column),
    }
    reference = run_onnx(nodes, feeds)
    moments = row_moments(x)
    graph = one_node_graph(
        CombineMoments(epsilon=EPSILON, row_length=shape[3]),
        {"m": moments, "s": scale, "t": shift},
        reference.shape,
        constants=("s", "t"),
    )
    return graph, {"m": moments}, reference


def normalize_case(shape: Shape, epilogue: Epilogue = NO_EPILOGUE) -> Case:
    x, factors = random_array(*shape), random_array(*shape[:2], 1, 2)
    nodes = [
        helper.make_node("Mul", ["x", "f"], ["xf"]),
        helper.make_node("Add", ["xf", "b"], ["y"]),
    ]
    plain = run_onnx(nodes, {"x": x, "f": factors[..., :1].copy(), "b": factors[..., 1:].copy()})
    feeds, residual = {"x": x, "f": factors}, None
    if epilogue.residual is not ResidualOrder.NONE:
        residual = feeds["r"] = random_array(*shape, seed=1)
    graph = one_node_graph(Normalize(), feeds, shape, epilogue=epilogue)
    return graph, feeds, apply_epilogue(plain, epilogue, residual)


def response_case(shape: Shape, op: LocalResponseNorm | None = None) -> Case:
    op = op or LocalResponseNorm(size=5, alpha=0.5, beta=0.75, bias=1.0)
    x = random_array(*shape)
    return one_node_graph(op, {"x": x}, shape), {"x": x}, run_onnx([response_node(op)], {"x": x})


def response_node(op: LocalResponseNorm) -> onnx.NodeProto:
    return helper.make_node("LRN", ["x"], ["y"], size=op.size, alpha=op.alpha, beta=op.beta, bias=op.bias)


CASES = {"rows": rows_case, "combine": combine_case, "normalize": normalize_case, "response": response_case}
EACH = pytest.mark.parametrize("name", CASES)


@GAPS
@EACH
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_agrees_with_onnx_runtime_and_cuts_keep_bits(
    device: Device, shape: Shape, name: str, gap: int
) -> None:
    graph, feeds, reference = CASES[name](shape)
    assert_right(device, graph, feeds, reference, slices=slices_of(reference.shape), gap=gap)


@EACH
@pytest.mark.parametrize("channels", [*EDGES.values(), 16, 23], ids=[*EDGES, "vectors", "vectors-gt"])
def test_tile_edges(device: Device, channels: int, name: str) -> None:
    graph, feeds, reference = CASES[name]((1, channels, 3, 4))
    lanes = Selection(implementation=ROW_OF[name], parameters={"VECTOR": 4})
    assert_right(device, graph, feeds, reference, slices=slices_of(reference.shape), gap=0, selection=lanes)


@pytest.mark.parametrize("name", ["rows", "combine"])
def test_both_of_a_pair_are_right_by_themselves(device: Device, name: str) -> None:
    graph, feeds, reference = CASES[name]((2, 20, 6, 9))
    value = run_node(device, graph, feeds)
    for part in (0, 1):
        assert relative_error(value[..., part], reference[..., part]) <= OPERATOR_TOLERANCE


@pytest.mark.parametrize(
    "shape", [pytest.param(shape, id=name) for name, shape in SHAPES.items() if name != "one-pixel"]
)
def test_three_nodes_are_instance_normalization(device: Device, shape: Shape) -> None:
    x, scale, shift = random_array(*shape), random_array(shape[1], seed=1), random_array(shape[1], seed=2)
    node = helper.make_node("InstanceNormalization", ["x", "s", "t"], ["y"], epsilon=EPSILON)
    reference = run_onnx([node], {"x": x, "s": scale, "t": shift})
    graph = one_node_graph(RowMoments(), {"x": x}, (*shape[:3], 2))
    moments = run_node(device, graph, {"x": x})
    graph = one_node_graph(
        CombineMoments(epsilon=EPSILON, row_length=shape[3]),
        {"m": moments, "s": scale, "t": shift},
        (*shape[:2], 1, 2),
    )
    factors = run_node(device, graph, {"m": moments, "s": scale, "t": shift})
    graph = one_node_graph(Normalize(), {"x": x, "f": factors}, shape)
    assert_right(device, graph, {"x": x, "f": factors}, reference)


@pytest.mark.parametrize("channels", [1, 4, 19, 40])
@pytest.mark.parametrize("width", [1, 7, 100])
def test_equal_values_give_the_shift_exactly(device: Device, channels: int, width: int) -> None:
    values, shift = random_array(channels, seed=3) * 100, random_array(channels, seed=2)
    shape = (1, channels, 5, width)
    x = np.broadcast_to(values.reshape(1, -1, 1, 1), shape).copy()

    moments = run_node(device, one_node_graph(RowMoments(), {"x": x}, (*shape[:3], 2)), {"x": x})
    feeds = {"m": moments, "s": random_array(channels, seed=1), "t": shift}
    op = CombineMoments(epsilon=EPSILON, row_length=width)
    factors = run_node(device, one_node_graph(op, feeds, (1, channels, 1, 2)), feeds)
    feeds = {"x": x, "f": factors}
    value = run_node(device, one_node_graph(Normalize(), feeds, shape), feeds)

    assert np.array_equal(value, np.broadcast_to(shift.reshape(1, -1, 1, 1), shape))


@pytest.mark.parametrize("epilogue", EPILOGUES.values(), ids=EPILOGUES)
def test_epilogues_of_normalize(device: Device, epilogue: Epilogue) -> None:
    graph, feeds, reference = normalize_case((1, 19, 3, 4), epilogue)
    assert_right(device, graph, feeds, reference, slices=slices_of(reference.shape))


@pytest.mark.parametrize(
    "op",
    [
        LocalResponseNorm(size=3, alpha=1e-4, beta=0.75, bias=2.0),
        LocalResponseNorm(size=1, alpha=2.0, beta=0.5, bias=0.1),
        LocalResponseNorm(size=9, alpha=1.0, beta=3.0, bias=1.0),
    ],
    ids=["usual", "one", "wider-than-all"],
)
def test_windows_of_response_norm(device: Device, op: LocalResponseNorm) -> None:
    for channels in (5, 24):
        graph, feeds, reference = response_case((1, channels, 2, 3), op)
        assert_right(device, graph, feeds, reference, slices=slices_of(reference.shape))


def windows_by_pooling(op: LocalResponseNorm, x: FloatArray) -> FloatArray:
    """Return the response norm of one image by average pooling over channels.

    ONNX Runtime's own LRN knows odd windows only, and its running sum carries NaN on to later channels.
    """
    below = (op.size - 1) // 2
    pool = {"kernel_shape": (op.size, 1), "pads": (below, 0, op.size - 1 - below, 0), "count_include_pad": 1}
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["xx"]),
        helper.make_node("AveragePool", ["xx"], ["mean"], **pool),
        helper.make_node("Mul", ["mean", "alpha"], ["scaled"]),
        helper.make_node("Add", ["scaled", "bias"], ["base"]),
        helper.make_node("Pow", ["base", "beta"], ["power"]),
        helper.make_node("Div", ["x", "power"], ["y"]),
    ]
    numbers = {name: np.array(getattr(op, name), np.float32) for name in ("alpha", "bias", "beta")}
    return run_onnx(nodes, {"x": x.reshape(1, 1, x.shape[1], -1), **numbers}).reshape(x.shape)


def test_even_windows_reach_further_up(device: Device) -> None:
    op, x = LocalResponseNorm(size=4, alpha=0.5, beta=0.75, bias=1.0), random_array(1, 24, 2, 3)
    graph = one_node_graph(op, {"x": x}, x.shape)
    assert_right(device, graph, {"x": x}, windows_by_pooling(op, x), slices=slices_of(x.shape))


def test_response_norm_passes_special_values_on(device: Device) -> None:
    op, x = LocalResponseNorm(size=5, alpha=0.5, beta=0.75, bias=1.0), random_array(1, 32, 2, 2)
    x[0, 0, 0, 0], x[0, 16, 0, 0], x[0, 24, 1, 1] = np.nan, np.inf, 1e15
    value = run_node(device, one_node_graph(op, {"x": x}, x.shape), {"x": x})
    np.testing.assert_allclose(value, windows_by_pooling(op, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["rows", "combine"])
def test_nan_reaches_the_moments_of_its_channel(device: Device, name: str) -> None:
    graph, feeds, _ = CASES[name]((1, 20, 4, 4))
    (key,) = feeds
    feeds[key][0, 1, 2, 0] = np.nan
    value = run_node(device, graph, feeds)
    assert np.isnan(value[0, 1]).any(axis=-1).any()
    assert np.isfinite(np.delete(value, 1, axis=1)).all()

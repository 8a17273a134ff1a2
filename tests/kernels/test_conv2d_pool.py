"""Convolutions with the maxima over windows of their values in one kernel."""

from dataclasses import replace

import numpy as np
import pytest
from onnx import helper

from codl.catalog.rows.conv2d_pool import IMPLEMENTATIONS, find_halved
from codl.catalog.spec import Implementation, Parameters, Selection
from codl.devices.opencl import Device
from codl.ir.graph import FloatArray, Graph, Node, Tensor
from codl.ir.ops import Activation, ActivationKind, Conv2d, Epilogue, Pool2d, PoolKind, ResidualOrder
from codl.ir.regions import Boxes, Region
from tests.catalog.nodes import device_info
from tests.kernels.convolutions import Case, build
from tests.kernels.harness import ACTIVATIONS, assert_right, cut, run_node, run_onnx

*WINOGRAD, PATCH = IMPLEMENTATIONS
STREAMED, FUSED, STAGED = WINOGRAD
EACH_ROW = pytest.mark.parametrize("row", WINOGRAD, ids=["streamed", "fused", "staged"])
SMALL: Parameters = {"TILE": 4, "FETCH": 0, "MR": 4, "NR": 8, "VECTOR": 4}
RELU = Epilogue(activation=Activation(kind=ActivationKind.RELU))
HALVE = Pool2d(kind=PoolKind.MAX, kernel=(2, 2), stride=(2, 2))


def halved(op: Pool2d = HALVE, **facts: object) -> tuple[Graph, dict[str, FloatArray], FloatArray]:
    """Return convolution and maxima as a graph, its feeds, and ONNX Runtime's result."""
    usual: dict[str, object] = {
        "image": (12, 14),
        "inputs": 8,
        "outputs": 16,
        "tile": (4, 4),
        "epilogue": RELU,
    }
    graph, feeds, values = build(Case(**(usual | facts)))  # type: ignore[arg-type]
    pool = helper.make_node("MaxPool", ["v"], ["p"], kernel_shape=op.kernel, strides=op.stride, pads=op.pads)
    reference = run_onnx([pool], {"v": values})
    second = Node(name="pool", op=op, inputs=("y",), output="p")
    tensors = {**graph.tensors, "p": Tensor(name="p", shape=reference.shape)}
    return replace(graph, nodes=(*graph.nodes, second), outputs=("p",), tensors=tensors), feeds, reference


def select(row: Implementation, **parameters: int) -> Selection:
    """Return a row with these parameters and small ones besides."""
    known = {**SMALL, "NR": 4, "DEPTH": 32} if row is STREAMED else SMALL  # fits 32 KiB
    return Selection(implementation=row, parameters={**known, **parameters})


CASES: dict[str, dict[str, object]] = {
    "usual": {},
    "two-by-two": {"image": (2, 2)},
    "odd": {"image": (11, 9)},
    "many-tiles": {"image": (26, 34), "inputs": 4, "outputs": 20},
    "batch": {"image": (6, 10), "batch": 3, "has_bias": False},
    "few-outputs": {"outputs": 3},
    "many-panels": {"image": (4, 6), "outputs": 70},
    "no-padding": {"pads": (0, 0, 0, 0)},
}


@EACH_ROW
@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("facts", CASES.values(), ids=CASES)
def test_agrees_with_onnx_runtime_and_cuts_keep_bits(
    device: Device, row: Implementation, facts: dict[str, object], tile: int
) -> None:
    graph, feeds, reference = halved(HALVE, **facts)
    shape = reference.shape
    slices = [
        *cut(shape, 1, [1, shape[1] // 2]),
        *cut(shape, 2, [1, shape[2] // 2]),
        *cut(shape, 3, [shape[3] // 2]),
        Region.whole(shape).cut(1, 2, 7).cut(2, 1, 4).cut(3, 1, shape[3]),
    ]
    assert_right(
        device,
        graph,
        feeds,
        reference,
        slices=[region for region in slices if not region.is_empty],
        selection=select(row, TILE=tile),
    )


@EACH_ROW
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda activation: activation.kind)
def test_activations(device: Device, row: Implementation, activation: Activation) -> None:
    graph, feeds, reference = halved(image=(6, 8), outputs=13, epilogue=Epilogue(activation=activation))
    assert_right(device, graph, feeds, reference, selection=select(row))


@EACH_ROW
def test_keeps_nan(device: Device, row: Implementation) -> None:
    graph, feeds, _ = halved(image=(8, 8))
    feeds["x"][0, 3, 5, 2] = np.nan
    found = run_node(device, graph, feeds, selection=select(row, TILE=2))
    assert np.isnan(found[0, :, 2:, :]).any()
    assert not np.isnan(found[0, :, 0, 2:]).any()


def test_own_parameters_are_those_of_the_convolution() -> None:
    graph, _, _ = halved(image=(28, 28), inputs=64, outputs=64)
    info, node = device_info(16), graph.nodes[-1]
    assert FUSED.accepts(node, graph, info)
    deep, _, _ = halved(image=(14, 14), inputs=1024, outputs=256)
    assert not FUSED.accepts(deep.nodes[-1], deep, info)
    assert STAGED.accepts(deep.nodes[-1], deep, info)


@pytest.mark.parametrize(
    "op",
    [
        replace(HALVE, kernel=(3, 3)),
        replace(HALVE, stride=(1, 1)),
        replace(HALVE, kind=PoolKind.AVERAGE),
        replace(HALVE, dilation=(2, 2)),
    ],
    ids=["window", "stride", "average", "dilated"],
)
def test_leaves_other_windows_alone(op: Pool2d) -> None:
    graph, _, _ = halved()
    second = replace(graph.nodes[-1], op=op)
    assert find_halved(second, replace(graph, nodes=(graph.nodes[0], second))) is None


def test_leaves_values_alone_that_others_read() -> None:
    graph, _, _ = halved()
    first, second = graph.nodes
    assert isinstance(first.op, Conv2d)
    assert find_halved(second, graph) == first
    assert find_halved(second, replace(graph, outputs=("p", "y"))) is None
    other = replace(second, name="other", output="q")
    tensors = {**graph.tensors, "q": graph.tensors["p"]}
    assert find_halved(second, replace(graph, nodes=(first, second, other), tensors=tensors)) is None
    added, _, _ = halved(epilogue=Epilogue(residual=ResidualOrder.BEFORE))
    assert find_halved(added.nodes[-1], added) is None


PATCHES: dict[str, dict[str, object]] = {
    "usual": {},
    "odd": {"image": (11, 9)},
    "long-rows": {"image": (6, 50), "outputs": 24},
    "batch": {"batch": 3, "has_bias": False},
    "strided": {"image": (13, 18), "stride": (2, 2), "kernel": (7, 7), "pads": (3, 3, 3, 3)},
    "narrow": {"outputs": 5},
    "no-padding": {"pads": (0, 0, 0, 0), "inputs": 1},
}
WINDOWS = {
    "halves": HALVE,
    "overlapping": replace(HALVE, kernel=(3, 3), pads=(1, 1, 1, 1)),
    "beyond-the-end": replace(HALVE, kernel=(3, 3), pads=(0, 0, 1, 1)),
    "every-row": replace(HALVE, kernel=(3, 2), stride=(1, 1), pads=(2, 1, 0, 0)),
    "apart": replace(HALVE, kernel=(1, 2), stride=(3, 3)),
}


@pytest.mark.parametrize(
    ("op", "parameters"),
    [
        *(pytest.param(op, (4, 2, 4), id=name) for name, op in WINDOWS.items()),
        *(pytest.param(WINDOWS["overlapping"], tile, id=str(tile)) for tile in [(6, 1, 8), (3, 3, 4)]),
    ],
)
@pytest.mark.parametrize("facts", PATCHES.values(), ids=PATCHES)
def test_patches_agree_with_onnx_runtime_and_cuts_keep_bits(
    device: Device, facts: dict[str, object], op: Pool2d, parameters: tuple[int, int, int]
) -> None:
    graph, feeds, reference = halved(op, **{"inputs": 3, "tile": (1, 1)} | facts)
    shape = reference.shape
    if shape[1] < parameters[2]:
        pytest.skip("a vector is wider than all channels")
    slices = [
        *cut(shape, 1, [1, shape[1] // 2]),
        *cut(shape, 2, [1]),
        *cut(shape, 3, [shape[3] // 2]),
        Region.whole(shape).cut(1, 2, 5).cut(2, 1, 4).cut(3, 1, shape[3]),
    ]
    selection = Selection(
        implementation=PATCH, parameters=dict(zip(("MR", "VECTORS", "VECTOR"), parameters, strict=True))
    )
    slices = [region for region in slices if not region.is_empty]
    assert_right(device, graph, feeds, reference, slices=slices, selection=selection)


@pytest.mark.parametrize("op", WINDOWS.values(), ids=WINDOWS)
def test_patches_have_the_bits_of_two_launches(device: Device, op: Pool2d) -> None:
    graph, feeds, _ = halved(op, inputs=3, image=(21, 37), outputs=19, stride=(2, 2), tile=(1, 1))
    feeds["x"][0, 1, 12, 12] = np.nan
    first, second = graph.nodes
    values = run_node(device, replace(graph, nodes=(first,), outputs=("y",)), feeds)
    apart = run_node(device, replace(graph, nodes=(second,)), {"y": values})
    parameters = {"MR": 4, "VECTORS": 2, "VECTOR": 4}
    found = run_node(device, graph, feeds, selection=Selection(implementation=PATCH, parameters=parameters))
    assert np.isnan(found).any()
    np.testing.assert_array_equal(found.view(np.uint32), apart.view(np.uint32))


def test_patches_take_more_rows_where_windows_overlap() -> None:
    taken = {}
    for name in ("overlapping", "halves"):
        graph, _, _ = halved(WINDOWS[name], inputs=3, outputs=64, image=(112, 112))
        node, info = graph.nodes[-1], device_info(16)
        parameters = PATCH.accepts(node, graph, info)
        assert parameters is not None
        out = Boxes.of([Region.whole(graph.shape("p"))])
        (batch,) = PATCH.describe(node, graph, out, info, parameters)
        (taken[name],) = batch.scalars["item_rows"]
    assert 56 > taken["overlapping"] > taken["halves"]


def test_patches_and_values_share_local_memory() -> None:
    graph, _, _ = halved(inputs=3, outputs=16, image=(64, 200), kernel=(13, 13), pads=(6, 6, 6, 6))
    node, info = graph.nodes[-1], device_info(16)
    patch_bytes, value_bytes = 4 * 13 * 212 * 3, 4 * 2 * (200 * 16 + 16)
    enough = patch_bytes + value_bytes
    assert PATCH.accepts(node, graph, replace(info, local_memory_bytes=enough)) is not None
    assert PATCH.accepts(node, graph, replace(info, local_memory_bytes=enough - 1)) is None


@pytest.mark.parametrize("kind", list(ActivationKind))
def test_patches_take_frequent_activations(device: Device, kind: ActivationKind) -> None:
    activation = Activation(kind=kind, alpha=0.1, beta=0.6)
    graph, feeds, reference = halved(inputs=3, tile=(1, 1), epilogue=Epilogue(activation=activation))
    parameters = PATCH.accepts(graph.nodes[-1], graph, device.info)
    is_frequent = kind in ("identity", "relu", "clip", "leaky_relu")
    assert (parameters is not None) == is_frequent
    if parameters is not None:
        selection = Selection(implementation=PATCH, parameters=parameters)
        assert_right(device, graph, feeds, reference, selection=selection)

"""Rows over images on every device that has them: windows, tile edges, epilogues, cuts."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from onnx import helper

from codl.catalog.candidates import can_use, iterate_candidates
from codl.catalog.choose import choose
from codl.catalog.images import FROM_IMAGE, LONGEST_SIDE, TO_IMAGE, can_be_image
from codl.catalog.rows import conv2d, conv2d_image, pixel_image
from codl.catalog.spec import Implementation, Selection
from codl.devices.opencl import Device
from codl.ir.graph import FloatArray, Graph
from codl.ir.ops import (
    Activation,
    ActivationKind,
    Binary,
    BinaryKind,
    Epilogue,
    PoolKind,
    ResidualOrder,
    Unary,
)
from codl.ir.regions import Boxes, Region
from tests.catalog.nodes import conv, device_info
from tests.kernels.convolutions import Case, build
from tests.kernels.harness import (
    EPILOGUES,
    apply_epilogue,
    assert_right,
    cut,
    one_node_graph,
    random_array,
    run_node,
    run_onnx,
)
from tests.kernels.slices import EDGES, slices_of
from tests.kernels.test_pool import CASES as POOLS
from tests.kernels.test_pool import Case as PoolCase
from tests.kernels.test_pool import build as build_pool

ROWS = {row.name: row for row in (*conv2d_image.IMPLEMENTATIONS, *pixel_image.IMPLEMENTATIONS)}
DIRECT, POINTWISE = ROWS[conv2d_image.DIRECT], ROWS[conv2d_image.POINTWISE]
CONVOLUTIONS = {
    "same": Case(image=(7, 9), inputs=8, outputs=12),
    "odd-channels": Case(image=(6, 7), inputs=5, outputs=7),
    "one-channel": Case(image=(5, 6), inputs=1, outputs=1),
    "one-pixel": Case(image=(1, 1), inputs=9, outputs=10),
    "strided": Case(image=(11, 9), inputs=3, outputs=9, stride=(2, 3)),
    "dilated": Case(image=(9, 10), inputs=6, outputs=5, dilation=(2, 3), pads=(2, 3, 2, 3)),
    "large-window": Case(image=(4, 5), inputs=4, outputs=6, kernel=(5, 7), pads=(4, 6, 3, 5), has_bias=False),
    "pads-apart": Case(image=(8, 7), inputs=7, outputs=8, kernel=(2, 3), pads=(1, 0, 0, 2)),
    "batch": Case(image=(5, 4), inputs=6, outputs=11, batch=3),
    "in-cells": Case(image=(9, 10), inputs=5, outputs=9, tile=(4, 4)),
}
POINTWISES = {
    "plain": Case(image=(7, 9), inputs=20, outputs=18, kernel=(1, 1), pads=(0, 0, 0, 0)),
    "strided": Case(image=(9, 8), inputs=6, outputs=9, kernel=(1, 1), pads=(0, 0, 0, 0), stride=(2, 3)),
    "batch": Case(image=(4, 5), inputs=7, outputs=3, kernel=(1, 1), pads=(0, 0, 0, 0), batch=2),
}


@pytest.fixture(autouse=True)
def _has_images(device: Device) -> None:
    if not device.info.has_images:
        pytest.skip(f"{device.info.name} has no images")


def select(device: Device, graph: Graph, row: Implementation, **changes: int) -> Selection:
    """Return the row with its own parameters for a graph of one node, some of them changed."""
    own = row.accepts(graph.nodes[0], graph, device.info)
    assert own is not None
    return Selection(implementation=row, parameters={**own, **changes})


def slices(reference: FloatArray) -> list[Region]:
    """Return cuts of an output along all axes and a box that touches no edge."""
    return [region for region in slices_of(reference.shape) if not region.is_empty]


@pytest.mark.parametrize("case", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_convolution_agrees_with_onnx_runtime_and_cuts_keep_bits(device: Device, case: Case) -> None:
    graph, feeds, reference = build(case)
    selection = select(device, graph, DIRECT)
    assert_right(device, graph, feeds, reference, slices=slices(reference), selection=selection)


@pytest.mark.parametrize("row", [DIRECT, POINTWISE], ids=["direct", "pointwise"])
@pytest.mark.parametrize("case", POINTWISES.values(), ids=POINTWISES)
def test_pointwise_agrees_with_onnx_runtime_and_cuts_keep_bits(
    device: Device, case: Case, row: Implementation
) -> None:
    graph, feeds, reference = build(case)
    selection = select(device, graph, row)
    assert_right(device, graph, feeds, reference, slices=slices(reference), selection=selection)


@pytest.mark.parametrize("outputs", [2 * n for n in EDGES.values()], ids=EDGES)
@pytest.mark.parametrize("columns", EDGES.values(), ids=EDGES)
def test_tile_edges(device: Device, columns: int, outputs: int) -> None:
    image = Case(image=(3, columns), inputs=5, outputs=outputs)
    line = Case(image=(1, columns), inputs=5, outputs=outputs, kernel=(1, 1), pads=(0, 0, 0, 0))
    for case, row in ((image, DIRECT), (line, POINTWISE)):
        graph, feeds, reference = build(case)
        parts = [*cut(reference.shape, 1, [outputs // 2]), *cut(reference.shape, 3, [columns // 2])]
        selection = select(device, graph, row, PIXELS=4, BLOCKS=2)
        assert_right(device, graph, feeds, reference, slices=parts, selection=selection)


@pytest.mark.parametrize("row", [DIRECT, POINTWISE], ids=["direct", "pointwise"])
def test_every_tile_gives_the_bits_of_the_implicit_gemm(device: Device, row: Implementation) -> None:
    case = CONVOLUTIONS["odd-channels"] if row is DIRECT else POINTWISES["plain"]
    graph, feeds, _ = build(case)
    (usual,) = conv2d.IMPLEMENTATIONS
    expected = run_node(device, graph, feeds, selection=select(device, graph, usual))
    for pixels, blocks, group in product((1, 2, 4), (1, 2), (1, 8)):
        if group > 1 and device.info.max_work_group_size < group**2:
            continue
        selection = select(device, graph, row, PIXELS=pixels, BLOCKS=blocks, GROUP=group)
        np.testing.assert_array_equal(run_node(device, graph, feeds, selection=selection), expected)


@pytest.mark.parametrize("epilogue", EPILOGUES.values(), ids=EPILOGUES)
def test_convolution_epilogues(device: Device, epilogue: Epilogue) -> None:
    case = Case(image=(4, 5), inputs=6, outputs=7, kernel=(1, 1), pads=(0, 0, 0, 0), epilogue=epilogue)
    graph, feeds, reference = build(case)
    for row in (DIRECT, POINTWISE):
        selection = select(device, graph, row)
        parts = cut(reference.shape, 1, [3])
        assert_right(device, graph, feeds, reference, slices=parts, selection=selection)


def test_convolution_with_its_own_input_as_residual(device: Device) -> None:
    case = Case(image=(5, 6), inputs=7, outputs=7, epilogue=Epilogue(residual=ResidualOrder.BEFORE))
    graph, feeds, _ = build(case)
    _, _, convolved = build(replace(case, epilogue=Epilogue()))
    node = replace(graph.nodes[0], inputs=("x", "w", "b", "x"))
    own = replace(graph, nodes=(node,), inputs=("x",))
    reference = np.asarray(convolved + feeds["x"])
    selection = select(device, own, DIRECT)
    assert_right(device, own, feeds, reference, slices=slices(reference), selection=selection)


def test_passes_nan_and_infinity_on(device: Device) -> None:
    relu = Epilogue(activation=Activation(kind=ActivationKind.RELU))
    graph, feeds, _ = build(Case(image=(4, 6), inputs=3, outputs=6, epilogue=relu))
    feeds["x"][0, 0, 1, 1] = np.nan
    feeds["x"][0, 1, 3, 5] = np.inf
    node = helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1])
    reference = run_onnx([node, helper.make_node("Relu", ["c"], ["y"])], {**feeds, **graph.constants})
    value = run_node(device, graph, feeds, selection=select(device, graph, DIRECT))
    np.testing.assert_allclose(value, reference, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", list(PoolKind))
@pytest.mark.parametrize("name", POOLS)
def test_pooling_agrees_with_onnx_runtime_and_cuts_keep_bits(
    device: Device, name: str, kind: PoolKind
) -> None:
    graph, x, reference = build_pool(POOLS[name], kind)
    selection = select(device, graph, ROWS[pixel_image.POOL])
    assert_right(device, graph, {"x": x}, reference, slices=slices(reference), selection=selection)


def test_nan_spreads_to_all_windows_that_hold_it(device: Device) -> None:
    x = random_array(1, 5, 6, 7)
    x[0, 2, 1, 1], x[0, 3, 5, 0] = np.nan, np.inf
    graph, _, _ = build_pool(PoolCase(x=x.shape), PoolKind.MAX, x)
    value = run_node(device, graph, {"x": x}, selection=select(device, graph, ROWS[pixel_image.POOL]))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    np.testing.assert_array_equal(value, windows.max((-1, -2)))


@pytest.mark.parametrize("channels", EDGES.values(), ids=EDGES)
@pytest.mark.parametrize("kind", list(BinaryKind))
def test_binary_agrees_with_onnx_runtime_and_cuts_keep_bits(
    device: Device, kind: BinaryKind, channels: int
) -> None:
    a, b = random_array(2, channels, 3, 5), random_array(2, channels, 3, 5, seed=1)
    names = {BinaryKind.ADD: "Add", BinaryKind.MUL: "Mul", BinaryKind.SUB: "Sub", BinaryKind.DIV: "Div"}
    if kind is BinaryKind.PRELU:
        reference = np.where(a < 0, a * b, a)
    else:
        reference = run_onnx([helper.make_node(names[kind], ["a", "b"], ["y"])], {"a": a, "b": b})
    graph = one_node_graph(Binary(kind=kind), {"a": a, "b": b}, a.shape)
    selection = select(device, graph, ROWS[pixel_image.BINARY])
    assert_right(device, graph, {"a": a, "b": b}, reference, slices=slices(reference), selection=selection)


@pytest.mark.parametrize("epilogue", EPILOGUES.values(), ids=EPILOGUES)
def test_pointwise_functions_and_epilogues(device: Device, epilogue: Epilogue) -> None:
    a, b, r = (random_array(1, 6, 3, 5, seed=seed) for seed in range(3))
    feeds, residual = {"a": a, "b": b}, None
    if epilogue.residual is not ResidualOrder.NONE:
        feeds["r"] = residual = r
    graph = one_node_graph(Binary(kind=BinaryKind.ADD), feeds, a.shape, epilogue=epilogue)
    reference = apply_epilogue(np.asarray(a + b), epilogue, residual)
    selection = select(device, graph, ROWS[pixel_image.BINARY])
    assert_right(device, graph, feeds, reference, slices=cut(a.shape, 1, [3]), selection=selection)
    if residual is None:
        graph = one_node_graph(Unary(), {"a": a}, a.shape, epilogue=epilogue)
        selection = select(device, graph, ROWS[pixel_image.UNARY])
        reference = apply_epilogue(a, epilogue, None)
        assert_right(
            device, graph, {"a": a}, reference, slices=cut(a.shape, 1, [3]), selection=selection, gap=0
        )


def test_is_no_choice_without_a_measurement(device: Device) -> None:
    graph, _, _ = build(CONVOLUTIONS["same"])
    (node,) = graph.nodes
    assert choose(node, graph, device.info).implementation is not DIRECT
    selection = select(device, graph, DIRECT, PIXELS=2)
    assert can_use(selection, node, graph, device.info, default=select(device, graph, DIRECT).parameters)
    entries = Boxes.of(cut((1, 12, 7, 9), 1, [5]))
    first, *_, last = DIRECT.describe(node, graph, entries, device.info, selection.parameters)
    assert (first.entry, last.entry) == (TO_IMAGE, FROM_IMAGE)


def test_refuses_what_fits_no_image(device: Device) -> None:
    assert can_be_image((1, 4 * LONGEST_SIDE, 1, 1))
    assert not can_be_image((1, 5, 1, LONGEST_SIDE))
    assert not can_be_image((2, 4, LONGEST_SIDE, 1))
    sample = conv(16, 64, 28)
    assert DIRECT.accepts(sample.node, sample.graph, device_info(8)) is None
    names = {one.implementation.name for one in iterate_candidates(sample.node, sample.graph, device_info(8))}
    assert DIRECT.name not in names

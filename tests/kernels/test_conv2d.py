"""Implicit-GEMM convolution on every device: tile edges, windows, groups, epilogues, cuts."""

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from onnx import helper

from codl.catalog.choose import choose
from codl.catalog.rows.conv2d import IMPLEMENTATIONS
from codl.catalog.spec import Selection, can_fetch
from codl.devices.opencl import Device
from codl.ir.graph import Graph, Shape
from codl.ir.ops import Activation, ActivationKind, Conv2d, Epilogue, Pads
from codl.ir.regions import Boxes, Region
from tests.catalog.nodes import device_info, sample
from tests.kernels.convolutions import Case, build
from tests.kernels.harness import EPILOGUES, assert_right, cut, run_node, run_onnx

(ROW,) = IMPLEMENTATIONS


def tile(mr: int, nr: int, vector: int, *, fetch: int = 0) -> Selection:
    """Return the row with these parameters."""
    parameters = {"MR": mr, "NR": nr, "VECTOR": vector, "FETCH": fetch}
    return Selection(implementation=ROW, parameters=parameters)


def usual(device: Device, graph: Graph) -> Selection:
    """Return the row with the parameters that it proposes, also where another row is preferred."""
    (node,) = graph.nodes
    parameters = ROW.accepts(node, graph, device.info)
    assert parameters is not None
    return Selection(implementation=ROW, parameters=parameters)


CASES = {
    "one-pixel": Case(image=(1, 1), inputs=40, outputs=70, kernel=(1, 1), pads=(0, 0, 0, 0)),
    "pointwise": Case(image=(7, 9), inputs=24, outputs=40, kernel=(1, 1), pads=(0, 0, 0, 0)),
    "pointwise-strided": Case(
        image=(9, 7), inputs=8, outputs=16, kernel=(1, 1), stride=(2, 2), pads=(0, 0, 0, 0)
    ),
    "first-layer": Case(
        image=(17, 40), inputs=3, outputs=33, kernel=(7, 7), stride=(2, 2), pads=(3, 3, 3, 3)
    ),
    "three-by-three": Case(image=(9, 31), inputs=5, outputs=32),
    "no-bias": Case(image=(8, 8), inputs=5, outputs=17, has_bias=False),
    "batch": Case(image=(5, 6), inputs=4, outputs=9, batch=3),
    "asymmetric": Case(image=(8, 11), inputs=4, outputs=20, kernel=(2, 5), stride=(1, 3), pads=(0, 3, 2, 1)),
    "dilated": Case(image=(12, 13), inputs=3, outputs=18, dilation=(2, 3), pads=(2, 3, 2, 3)),
    "kernel-beyond-image": Case(image=(3, 2), inputs=4, outputs=8, kernel=(7, 5), pads=(4, 3, 4, 3)),
    "all-padding-rows": Case(image=(2, 3), inputs=4, outputs=8, kernel=(1, 1), pads=(2, 2, 2, 2)),
    "groups-even": Case(image=(6, 7), inputs=12, outputs=32, groups=4),
    "groups-of-one-input": Case(image=(6, 7), inputs=5, outputs=15, groups=5),
    "many-panels-an-item": Case(image=(20, 31), inputs=2, outputs=150),
    "many-groups-an-item": Case(image=(21, 30), inputs=8, outputs=72, groups=4),
    "groups-wide": Case(image=(6, 7), inputs=10, outputs=80, groups=2),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_agrees_with_onnx_runtime_and_cuts_keep_bits(device: Device, case: Case) -> None:
    graph, feeds, reference = build(case)
    shape = reference.shape
    slices = [
        *cut(shape, 0, [1]),
        *cut(shape, 1, [1, 5, shape[1] // 2, shape[1] - 1]),
        *cut(shape, 2, [1, shape[2] // 2, shape[2] - 1]),
        *cut(shape, 3, [shape[3] // 3]),
        Region.whole(shape).cut(1, 3, 7).cut(2, shape[2] // 2, shape[2]).cut(3, 0, shape[3] - 1),
    ]
    slices = [region for region in slices if not region.is_empty]
    assert_right(device, graph, feeds, reference, slices=slices, selection=usual(device, graph))


def test_dense_storage_gives_the_bits_of_spaced_storage(device: Device) -> None:
    graph, feeds, reference = build(CASES["three-by-three"])
    spaced = run_node(device, graph, feeds, gap=3)
    shape = reference.shape
    for region in (Region.whole(shape), *cut(shape, 2, [1, 5]), *cut(shape, 3, [7, 20])):
        dense = run_node(device, graph, feeds, region=region, gap=0)
        expected = spaced[tuple(map(slice, region.begin, region.end))]
        np.testing.assert_array_equal(dense, expected)


@pytest.mark.parametrize(
    "outputs",
    [pytest.param(n, id=name) for name, n in {"lt": 5, "eq": 8, "div": 24, "gt": 27}.items()],
)
@pytest.mark.parametrize(
    "pixels", [pytest.param(n, id=name) for name, n in {"lt": 3, "eq": 4, "div": 12, "gt": 13}.items()]
)
def test_tile_edges(device: Device, pixels: int, outputs: int) -> None:
    graph, feeds, reference = build(Case(image=(1, pixels), inputs=6, outputs=outputs))
    slices = [*cut(reference.shape, 1, [outputs // 2]), *cut(reference.shape, 3, [pixels // 2])]
    assert_right(device, graph, feeds, reference, slices=slices, selection=tile(4, 8, 4))


@pytest.mark.parametrize(
    "parameters", [(1, 64, 16), (6, 16, 8), (14, 32, 16), (2, 4, 4)], ids=lambda p: "x".join(map(str, p))
)
def test_every_tile_gives_the_same_bits(device: Device, parameters: tuple[int, int, int]) -> None:
    graph, feeds, reference = build(Case(image=(5, 7), inputs=6, outputs=70))
    usual = run_node(device, graph, feeds)
    other = run_node(device, graph, feeds, selection=tile(*parameters))
    np.testing.assert_array_equal(usual, other)
    assert_right(device, graph, feeds, reference, selection=tile(*parameters))


@pytest.mark.parametrize("pads", [(1, 1, 1, 1), (0, 0, 0, 0)], ids=["padded", "inner"])
def test_asking_for_inputs_ahead_keeps_bits(device: Device, pads: Pads) -> None:
    if not can_fetch(device.info):
        pytest.skip("the device knows no way to ask for memory ahead")
    graph, feeds, reference = build(Case(image=(9, 21), inputs=40, outputs=35, stride=(2, 2), pads=pads))
    plain, fetching = tile(4, 16, 8), tile(4, 16, 8, fetch=1)
    value = run_node(device, graph, feeds, selection=fetching)
    np.testing.assert_array_equal(value, run_node(device, graph, feeds, selection=plain))
    slices = [*cut(reference.shape, 1, [9]), *cut(reference.shape, 2, [2]), *cut(reference.shape, 3, [5])]
    assert_right(device, graph, feeds, reference, slices=slices, selection=fetching)


@pytest.mark.parametrize(
    ("inputs", "size", "kernel", "is_asked"),
    [(128, 56, 3, True), (128, 28, 3, False), (128, 56, 1, False), (8, 256, 3, False)],
    ids=["far", "near", "no-window", "short-walks"],
)
def test_asks_for_inputs_that_no_core_keeps(inputs: int, size: int, kernel: int, is_asked: bool) -> None:
    shapes: dict[str, Shape] = {"x": (1, inputs, size, size), "w": (64, inputs, kernel, kernel)}
    pads = (kernel // 2,) * 4
    case = sample(Conv2d(kernel=(kernel, kernel), pads=pads), shapes, ("w",), (1, 64, size, size), "")
    for width, asks in ((8, is_asked), (16, False)):
        info = replace(device_info(width), driver="pocl")
        parameters = ROW.accepts(case.node, case.graph, info)
        assert parameters is not None
        assert parameters["FETCH"] == asks


@pytest.mark.parametrize("epilogue", EPILOGUES.values(), ids=EPILOGUES)
def test_epilogues(device: Device, epilogue: Epilogue) -> None:
    graph, feeds, reference = build(Case(image=(4, 5), inputs=6, outputs=35, epilogue=epilogue))
    slices = [*cut(reference.shape, 1, [3, 16, 18]), *cut(reference.shape, 2, [1])]
    assert_right(device, graph, feeds, reference, slices=slices)


def test_passes_nan_and_infinity_on(device: Device) -> None:
    relu = Epilogue(activation=Activation(kind=ActivationKind.RELU))
    graph, feeds, _ = build(Case(image=(4, 6), inputs=3, outputs=4, epilogue=relu))
    feeds["x"][0, 0, 1, 1] = np.nan
    feeds["x"][0, 1, 3, 5] = np.inf
    conv = helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1])
    reference = run_onnx([conv, helper.make_node("Relu", ["c"], ["y"])], {**feeds, **graph.constants})
    np.testing.assert_allclose(run_node(device, graph, feeds), reference, rtol=1e-4, atol=1e-4)


def test_counts_the_work_of_each_candidate(device: Device) -> None:
    graph, _, reference = build(Case(image=(20, 20), inputs=8, outputs=64))
    (node,) = graph.nodes
    selection = choose(node, graph, device.info)
    halves = Boxes.of(cut(reference.shape, 2, [10]))
    whole = Boxes.of([Region.whole(reference.shape)])
    (part,) = ROW.describe(node, graph, halves, device.info, selection.parameters)
    (all_of_it,) = ROW.describe(node, graph, whole, device.info, selection.parameters)
    assert part.flops.tolist() == [all_of_it.flops[0] // 2] * 2
    assert all_of_it.flops[0] == 2 * prod(reference.shape) * 8 * 9
    assert (part.units["steps"] < all_of_it.units["steps"]).all()
    assert part.written_bytes.sum() == all_of_it.written_bytes[0]

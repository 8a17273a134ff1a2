"""Convolutions of few input channels on every device: windows over a padded copy, epilogues, cuts."""

from dataclasses import replace

import numpy as np
import pytest
from onnx import helper

from codl.catalog.choose import choose
from codl.catalog.rows.conv2d import IMPLEMENTATIONS as IMPLICIT_GEMM
from codl.catalog.rows.conv2d_patch import IMPLEMENTATIONS
from codl.catalog.spec import Selection
from codl.devices.opencl import Device
from codl.ir.graph import Graph
from codl.ir.ops import Activation, ActivationKind, Epilogue
from codl.ir.regions import Boxes, Region
from tests.kernels.convolutions import Case, build
from tests.kernels.harness import EPILOGUES, assert_right, cut, run_node, run_onnx

(ROW,) = IMPLEMENTATIONS


def tile(mr: int, vectors: int, vector: int) -> Selection:
    """Return the row with these parameters."""
    parameters = {"MR": mr, "VECTORS": vectors, "VECTOR": vector}
    return Selection(implementation=ROW, parameters=parameters)


CASES = {
    "seven-by-seven": Case(
        image=(17, 40), inputs=3, outputs=33, kernel=(7, 7), stride=(2, 2), pads=(3, 3, 3, 3)
    ),
    "three-by-three": Case(image=(9, 31), inputs=3, outputs=24, stride=(2, 2), pads=(0, 0, 1, 1)),
    "no-padding": Case(image=(8, 9), inputs=3, outputs=64, stride=(2, 2), pads=(0, 0, 0, 0)),
    "one-input": Case(image=(8, 8), inputs=1, outputs=17, has_bias=False),
    "batch": Case(image=(5, 6), inputs=4, outputs=9, batch=3),
    "asymmetric": Case(image=(8, 11), inputs=4, outputs=20, kernel=(2, 5), stride=(1, 3), pads=(0, 3, 2, 1)),
    "kernel-beyond-image": Case(image=(3, 2), inputs=4, outputs=8, kernel=(7, 5), pads=(4, 3, 4, 3)),
    "all-padding-rows": Case(image=(2, 3), inputs=2, outputs=8, kernel=(1, 2), pads=(2, 3, 2, 2)),
    "stride-beyond-kernel": Case(image=(13, 14), inputs=3, outputs=8, kernel=(2, 2), stride=(4, 5)),
    "many-panels": Case(image=(6, 31), inputs=2, outputs=150),
    "few-outputs": Case(image=(7, 20), inputs=3, outputs=3),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_agrees_with_onnx_runtime_and_cuts_keep_bits(device: Device, case: Case) -> None:
    graph, feeds, reference = build(case)
    assert choose(graph.nodes[0], graph, device.info).implementation is ROW
    shape = reference.shape
    slices = [
        *cut(shape, 0, [1]),
        *cut(shape, 1, [1, shape[1] // 2, shape[1] - 1]),
        *cut(shape, 2, [1, shape[2] // 2, shape[2] - 1]),
        *cut(shape, 3, [1, shape[3] // 3, shape[3] - 1]),
        Region.whole(shape).cut(1, 1, shape[1]).cut(2, shape[2] // 2, shape[2]).cut(3, 0, shape[3] - 1),
    ]
    assert_right(device, graph, feeds, reference, slices=[s for s in slices if not s.is_empty])


def test_dense_storage_gives_the_bits_of_spaced_storage(device: Device) -> None:
    graph, feeds, reference = build(CASES["seven-by-seven"])
    spaced = run_node(device, graph, feeds, gap=3)
    shape = reference.shape
    for region in (Region.whole(shape), *cut(shape, 2, [1, 5]), *cut(shape, 3, [7])):
        dense = run_node(device, graph, feeds, region=region, gap=0)
        np.testing.assert_array_equal(dense, spaced[tuple(map(slice, region.begin, region.end))])


@pytest.mark.parametrize(
    "outputs",
    [pytest.param(n, id=name) for name, n in {"lt": 5, "eq": 8, "div": 24, "gt": 27}.items()],
)
@pytest.mark.parametrize(
    "pixels", [pytest.param(n, id=name) for name, n in {"lt": 3, "eq": 4, "div": 12, "gt": 13}.items()]
)
def test_tile_edges(device: Device, pixels: int, outputs: int) -> None:
    graph, feeds, reference = build(Case(image=(2, pixels), inputs=3, outputs=outputs))
    slices = [*cut(reference.shape, 1, [outputs // 2]), *cut(reference.shape, 3, [pixels // 2])]
    assert_right(device, graph, feeds, reference, slices=slices, selection=tile(4, 2, 4))


@pytest.mark.parametrize(
    "parameters", [(14, 1, 16), (5, 4, 16), (3, 3, 8)], ids=lambda p: "x".join(map(str, p))
)
def test_every_tile_gives_the_bits_of_the_implicit_gemm(
    device: Device, parameters: tuple[int, int, int]
) -> None:
    graph, feeds, _ = build(Case(image=(5, 17), inputs=3, outputs=70))
    value = run_node(device, graph, feeds, selection=tile(*parameters))
    np.testing.assert_array_equal(value, run_node(device, graph, feeds, selection=implicit(device, graph)))


def implicit(device: Device, graph: Graph) -> Selection:
    """Return the implicit GEMM for the graph's node."""
    (node,), row = graph.nodes, IMPLICIT_GEMM[-1]
    parameters = row.accepts(node, graph, device.info)
    assert parameters is not None
    return Selection(implementation=row, parameters=parameters)


@pytest.mark.parametrize("epilogue", EPILOGUES.values(), ids=EPILOGUES)
def test_epilogues(device: Device, epilogue: Epilogue) -> None:
    graph, feeds, reference = build(Case(image=(4, 5), inputs=3, outputs=35, epilogue=epilogue))
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
    graph, _, reference = build(Case(image=(20, 20), inputs=3, outputs=64))
    (node,) = graph.nodes
    info = replace(device.info, units=2)  # with more, a half takes as many waves as the whole
    selection = choose(node, graph, info)
    halves = Boxes.of(cut(reference.shape, 2, [10]))
    whole = Boxes.of([Region.whole(reference.shape)])
    (part,) = ROW.describe(node, graph, halves, info, selection.parameters)
    (all_of_it,) = ROW.describe(node, graph, whole, info, selection.parameters)
    assert part.flops.tolist() == [all_of_it.flops[0] // 2] * 2
    assert (part.units["steps"] < all_of_it.units["steps"]).all()
    assert part.written_bytes.sum() == all_of_it.written_bytes[0]

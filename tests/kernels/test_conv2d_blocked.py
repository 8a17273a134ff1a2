"""Convolutions in blocks of K on every device: block and tile edges, windows, epilogues, cuts."""

from functools import partial

import numpy as np
import pytest
from onnx import helper

from codl.catalog.choose import choose
from codl.catalog.gemm_tile import FEW_REGISTERS
from codl.catalog.rows.conv2d import IMPLEMENTATIONS as IMPLICIT_GEMM
from codl.catalog.rows.conv2d_blocked import IMPLEMENTATIONS
from codl.catalog.spec import Selection
from codl.devices.opencl import Device
from codl.ir.ops import Activation, ActivationKind, Epilogue
from codl.ir.regions import Boxes, Region
from codl.machine import DeviceKind
from tests.kernels.convolutions import Case, build
from tests.kernels.harness import EPILOGUES, assert_right, cut, run_node, run_onnx

(ROW,) = IMPLEMENTATIONS
ONE_PIXEL = partial(Case, kernel=(1, 1), pads=(0, 0, 0, 0))


def tile(mr: int, vectors: int, vector: int, depth: int = 64, *, fetch: int = 0) -> Selection:
    """Return the row with these parameters."""
    parameters = {"MR": mr, "VECTORS": vectors, "VECTOR": vector, "DEPTH": depth, "FETCH": fetch}
    return Selection(implementation=ROW, parameters=parameters)


CASES = {
    "one-pixel": ONE_PIXEL(image=(1, 1), inputs=150, outputs=70),
    "1x1": ONE_PIXEL(image=(7, 9), inputs=130, outputs=72),
    "1x1-strided": ONE_PIXEL(image=(9, 7), inputs=128, outputs=64, stride=(2, 2)),
    "3x3": Case(image=(7, 7), inputs=24, outputs=80),
    "3x3-strided": Case(image=(9, 11), inputs=20, outputs=66, stride=(2, 2)),
    "3x3-dilated": Case(image=(8, 7), inputs=16, outputs=65, dilation=(2, 2), pads=(2, 2, 2, 2)),
    "odd-channels": Case(image=(5, 6), inputs=19, outputs=67),
    "uneven-pads": Case(image=(6, 5), inputs=17, outputs=64, kernel=(2, 4), pads=(0, 1, 1, 2)),
    "batch": Case(image=(4, 5), inputs=16, outputs=64, batch=3),
    "no-bias": Case(image=(4, 5), inputs=16, outputs=64, has_bias=False),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_agrees_with_onnx_runtime_and_cuts_keep_bits(device: Device, case: Case) -> None:
    graph, feeds, reference = build(case)
    is_left = case.kernel == (1, 1) and device.info.vector_registers <= FEW_REGISTERS
    if device.info.kind is DeviceKind.CPU:
        assert (choose(graph.nodes[0], graph, device.info).implementation is ROW) is not is_left
    selection = tile(5, 2, 8, 128) if is_left else None
    shape = reference.shape
    slices = [
        *cut(shape, 0, [1]),
        *cut(shape, 1, [1, 5, shape[1] // 2, shape[1] - 1]),
        *cut(shape, 2, [1, shape[2] // 2]),
        *cut(shape, 3, [shape[3] // 3]),
        Region.whole(shape).cut(1, shape[1] // 3, shape[1]).cut(2, shape[2] // 2, shape[2]),
    ]
    kept = [one for one in slices if not one.is_empty]
    assert_right(device, graph, feeds, reference, slices=kept, selection=selection)


@pytest.mark.parametrize(
    "inputs", [pytest.param(n, id=name) for name, n in {"lt": 60, "eq": 64, "div": 192, "gt": 150}.items()]
)
@pytest.mark.parametrize(
    "pixels", [pytest.param(n, id=name) for name, n in {"lt": 3, "eq": 4, "div": 12, "gt": 13}.items()]
)
@pytest.mark.parametrize(
    "outputs", [pytest.param(n, id=name) for name, n in {"lt": 5, "eq": 8, "gt": 27}.items()]
)
def test_tile_and_block_edges(device: Device, inputs: int, pixels: int, outputs: int) -> None:
    graph, feeds, reference = build(ONE_PIXEL(image=(1, pixels), inputs=inputs, outputs=outputs))
    slices = [*cut(reference.shape, 1, [outputs // 2]), *cut(reference.shape, 3, [pixels // 2])]
    assert_right(device, graph, feeds, reference, slices=slices, selection=tile(4, 2, 4))


@pytest.mark.parametrize(
    "selection",
    [tile(14, 2, 16), tile(7, 3, 16, 128), tile(6, 4, 8, 256), tile(5, 1, 4), tile(9, 3, 16, 64)],
    ids=str,
)
def test_every_tile_gives_the_bits_of_the_implicit_gemm(device: Device, selection: Selection) -> None:
    graph, feeds, reference = build(Case(image=(6, 7), inputs=24, outputs=140))
    (node,) = graph.nodes
    usual = IMPLICIT_GEMM[-1].accepts(node, graph, device.info)
    assert usual is not None
    expected = run_node(
        device, graph, feeds, selection=Selection(implementation=IMPLICIT_GEMM[-1], parameters=usual)
    )
    np.testing.assert_array_equal(run_node(device, graph, feeds, selection=selection), expected)
    slices = [*cut(reference.shape, 1, [9, 70, 90]), *cut(reference.shape, 2, [2])]
    assert_right(device, graph, feeds, reference, slices=slices, selection=selection)


def test_asking_for_weights_ahead_changes_no_bit(device: Device) -> None:
    graph, feeds, reference = build(Case(image=(6, 7), inputs=24, outputs=140))
    (node,) = graph.nodes
    fetching = tile(6, 2, 8, fetch=1)
    assert ROW.fits is not None
    if not ROW.fits(node, graph, device.info, fetching.parameters):
        pytest.skip("the driver's compiler has no way to ask for memory ahead")
    value = run_node(device, graph, feeds, selection=fetching)
    np.testing.assert_array_equal(value, run_node(device, graph, feeds, selection=tile(6, 2, 8)))
    assert_right(device, graph, feeds, reference, slices=cut(reference.shape, 2, [1]), selection=fetching)


@pytest.mark.parametrize("epilogue", EPILOGUES.values(), ids=EPILOGUES)
def test_epilogues(device: Device, epilogue: Epilogue) -> None:
    graph, feeds, reference = build(Case(image=(4, 5), inputs=16, outputs=75, epilogue=epilogue))
    slices = [*cut(reference.shape, 1, [3, 16, 18]), *cut(reference.shape, 2, [1])]
    assert_right(device, graph, feeds, reference, slices=slices)


def test_passes_nan_and_infinity_on(device: Device) -> None:
    relu = Epilogue(activation=Activation(kind=ActivationKind.RELU))
    graph, feeds, _ = build(ONE_PIXEL(image=(4, 6), inputs=130, outputs=64, epilogue=relu))
    feeds["x"][0, 0, 1, 1] = np.nan
    feeds["x"][0, 1, 3, 5] = np.inf
    conv = helper.make_node("Conv", ["x", "w", "b"], ["c"])
    reference = run_onnx([conv, helper.make_node("Relu", ["c"], ["y"])], {**feeds, **graph.constants})
    np.testing.assert_allclose(run_node(device, graph, feeds), reference, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kilobytes", [16, 48, 256, 1024])
def test_shares_that_local_memory_holds(device: Device, kilobytes: int) -> None:
    graph, _, reference = build(Case(image=(10, 10), inputs=64, outputs=600))
    (node,) = graph.nodes
    info = device.with_facts(local_memory_bytes=kilobytes << 10, is_unified=True).info
    parameters = tile(4, 2, 8).parameters
    boxes = Boxes.of([Region.whole(reference.shape), *cut(reference.shape, 2, [1, 5])])
    (batch,) = ROW.describe(node, graph, boxes, info, parameters)
    assert batch.local is not None
    assert (4 * batch.local <= kilobytes << 10).all()
    assert (batch.scalars["item_tiles"] * batch.global_size[:, 0] * 4 >= boxes.size // 600).all()
    assert (batch.scalars["item_panels"] * batch.global_size[:, 1] * 16 >= 600).all()

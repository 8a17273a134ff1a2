"""Transposed convolution on every device: windows, groups, tile edges, epilogues, cuts."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from onnx import helper

from codl.catalog.rows.conv_transpose import IMPLEMENTATIONS
from codl.catalog.spec import Selection
from codl.devices.opencl import Device
from codl.ir.graph import FloatArray, Graph
from codl.ir.ops import ConvTranspose2d, Epilogue, Pads, Pair, ResidualOrder
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
from tests.kernels.slices import slices_of

(ROW,) = IMPLEMENTATIONS


@dataclass(frozen=True, kw_only=True)
class Case:
    """A transposed convolution of random values."""

    image: Pair
    inputs: int
    outputs: int
    kernel: Pair = (3, 3)
    stride: Pair = (2, 2)
    dilation: Pair = (1, 1)
    pads: Pads = (1, 1, 1, 1)
    extra: Pair = (0, 0)
    """ONNX output_padding."""
    groups: int = 1
    batch: int = 1
    has_bias: bool = True
    epilogue: Epilogue = field(default_factory=Epilogue)


CASES = {
    "doubling": Case(image=(4, 5), inputs=6, outputs=20, kernel=(4, 4)),
    "blocks": Case(image=(4, 5), inputs=6, outputs=33, kernel=(2, 2), pads=(0, 0, 0, 0)),
    "output-padding": Case(image=(5, 4), inputs=5, outputs=9, extra=(1, 1)),
    "no-stride": Case(image=(5, 6), inputs=4, outputs=17, stride=(1, 1)),
    "gaps": Case(image=(3, 4), inputs=4, outputs=8, kernel=(1, 2), stride=(3, 4), pads=(0, 0, 0, 0)),
    "asymmetric": Case(image=(4, 7), inputs=3, outputs=8, kernel=(2, 5), stride=(1, 3), pads=(0, 2, 1, 0)),
    "dilated": Case(image=(5, 5), inputs=3, outputs=18, dilation=(2, 3), pads=(1, 2, 0, 3)),
    "dilated-by-stride": Case(image=(4, 4), inputs=3, outputs=8, dilation=(2, 2), pads=(2, 2, 2, 2)),
    "no-bias": Case(image=(3, 3), inputs=5, outputs=12, has_bias=False),
    "batch": Case(image=(3, 4), inputs=4, outputs=9, batch=3),
    "groups": Case(image=(4, 5), inputs=12, outputs=30, groups=3),
    "depthwise": Case(image=(4, 5), inputs=7, outputs=7, kernel=(4, 4), groups=7),
    "one-pixel": Case(image=(1, 1), inputs=40, outputs=70, kernel=(4, 4), stride=(1, 1), pads=(0,) * 4),
    "many-panels-an-item": Case(image=(9, 4), inputs=2, outputs=300),
    "crop": Case(image=(4, 4), inputs=3, outputs=5, kernel=(5, 5), pads=(4, 3, 5, 4)),
}


def build(case: Case) -> tuple[Graph, dict[str, FloatArray], FloatArray]:
    """Return the graph, its feeds and ONNX Runtime's result."""
    x = random_array(case.batch, case.inputs, *case.image)
    constants = {"w": random_array(case.inputs, case.outputs // case.groups, *case.kernel)}
    if case.has_bias:
        constants["b"] = random_array(case.outputs)
    node = helper.make_node(
        "ConvTranspose",
        ["x", *constants],
        ["conv"],
        strides=case.stride,
        dilations=case.dilation,
        pads=case.pads,
        output_padding=case.extra,
        group=case.groups,
    )
    plain = run_onnx([node], {"x": x, **constants})
    op = ConvTranspose2d(
        kernel=case.kernel,
        stride=case.stride,
        dilation=case.dilation,
        pads=case.pads,
        groups=case.groups,
        has_bias=case.has_bias,
    )
    feeds, residual = {"x": x}, {}
    if case.epilogue.residual is not ResidualOrder.NONE:
        residual = {"r": random_array(*plain.shape, seed=1)}
    graph = one_node_graph(
        op,
        {**feeds, **constants, **residual},
        plain.shape,
        constants=constants,
        epilogue=case.epilogue,
    )
    reference = apply_epilogue(plain, case.epilogue, residual.get("r"))
    return graph, feeds | residual, reference


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_agrees_with_onnx_runtime_and_cuts_keep_bits(device: Device, case: Case) -> None:
    graph, feeds, reference = build(case)
    assert_right(device, graph, feeds, reference, slices=slices_of(reference.shape))


def test_dense_storage_gives_the_bits_of_spaced_storage(device: Device) -> None:
    graph, feeds, _ = build(CASES["doubling"])
    dense, spaced = (run_node(device, graph, feeds, gap=gap) for gap in (0, 3))
    np.testing.assert_array_equal(dense, spaced)


@pytest.mark.parametrize(
    "outputs",
    [pytest.param(n, id=name) for name, n in {"lt": 5, "eq": 8, "div": 24, "gt": 27}.items()],
)
@pytest.mark.parametrize(
    "pixels", [pytest.param(n, id=name) for name, n in {"lt": 3, "eq": 4, "div": 12, "gt": 13}.items()]
)
def test_tile_edges(device: Device, pixels: int, outputs: int) -> None:
    graph, feeds, reference = build(Case(image=(2, pixels), inputs=6, outputs=outputs))
    slices = [*cut(reference.shape, 1, [outputs // 2]), *cut(reference.shape, 3, [pixels // 2])]
    selection = Selection(implementation=ROW, parameters={"MR": 4, "NR": 8, "VECTOR": 4})
    assert_right(device, graph, feeds, reference, slices=slices, selection=selection)


@pytest.mark.parametrize("epilogue", EPILOGUES.values(), ids=EPILOGUES)
def test_epilogues(device: Device, epilogue: Epilogue) -> None:
    graph, feeds, reference = build(Case(image=(3, 4), inputs=6, outputs=35, epilogue=epilogue))
    slices = [*cut(reference.shape, 1, [3, 16, 18]), *cut(reference.shape, 2, [1])]
    assert_right(device, graph, feeds, reference, slices=slices)


def test_passes_nan_and_infinity_on(device: Device) -> None:
    graph, feeds, _ = build(Case(image=(4, 6), inputs=3, outputs=4))
    feeds["x"][0, 0, 1, 1], feeds["x"][0, 1, 3, 5] = np.nan, np.inf
    node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], strides=[2, 2], pads=[1, 1, 1, 1])
    reference = run_onnx([node], {**feeds, **graph.constants})
    np.testing.assert_allclose(run_node(device, graph, feeds), reference, rtol=1e-4, atol=1e-4)


def test_computed_weights_are_left_to_the_host(device: Device) -> None:
    shapes = {"x": (1, 3, 4, 4), "w": (3, 5, 2, 2)}
    graph = one_node_graph(ConvTranspose2d(kernel=(2, 2), stride=(2, 2)), shapes, (1, 5, 8, 8))
    assert ROW.accepts(graph.nodes[0], graph, device.info) is None

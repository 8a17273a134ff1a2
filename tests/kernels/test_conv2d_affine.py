"""A map of channels and the 1x1 convolution behind it in one kernel: tile edges, epilogues, cuts."""

from dataclasses import replace

import numpy as np
import pytest
from onnx import helper

from codl.catalog.rows.conv2d_affine import IMPLEMENTATIONS
from codl.catalog.spec import Selection
from codl.devices.opencl import Device
from codl.ir.graph import FloatArray, Graph, Node, Tensor
from codl.ir.ops import Activation, ActivationKind, Affine, Epilogue
from codl.machine import DeviceKind
from tests.kernels.convolutions import Case, build
from tests.kernels.harness import (
    ACTIVATIONS,
    EPILOGUES,
    apply_epilogue,
    assert_right,
    cut,
    cut_everywhere,
    random_array,
    run_node,
    run_onnx,
)

(ROW,) = IMPLEMENTATIONS
CASES = {
    "one-pixel": Case(image=(1, 1), inputs=9, outputs=5, kernel=(1, 1), pads=(0, 0, 0, 0)),
    "image": Case(image=(7, 9), inputs=24, outputs=40, kernel=(1, 1), pads=(0, 0, 0, 0)),
    "many-channels": Case(image=(3, 5), inputs=37, outputs=203, kernel=(1, 1), pads=(0, 0, 0, 0)),
    "one-channel": Case(image=(4, 4), inputs=1, outputs=1, kernel=(1, 1), pads=(0, 0, 0, 0)),
    "batch": Case(image=(5, 6), inputs=4, outputs=19, kernel=(1, 1), pads=(0, 0, 0, 0), batch=3),
    "strided": Case(
        image=(9, 7), inputs=8, outputs=16, kernel=(1, 1), pads=(0, 0, 0, 0), stride=(2, 3), has_bias=False
    ),
}
RELU = Activation(kind=ActivationKind.RELU)


def put_behind_map(
    case: Case, activation: Activation = RELU
) -> tuple[Graph, dict[str, FloatArray], FloatArray]:
    """Return map and convolution as a graph, its feeds, and ONNX Runtime's result."""
    plain, feeds, _ = build(case)
    source, inputs = feeds["x"], case.inputs
    scale, shift = random_array(inputs, seed=5), random_array(inputs, seed=6)
    image = (-1, 1, 1)
    maps = [helper.make_node("Mul", ["x", "s"], ["scaled"]), helper.make_node("Add", ["scaled", "t"], ["z"])]
    mapped = run_onnx(maps, {"x": source, "s": scale.reshape(image), "t": shift.reshape(image)})
    mapped = apply_epilogue(mapped, Epilogue(activation=activation), None)
    (conv,) = plain.nodes
    weights = {name: plain.constants[name] for name in conv.inputs if name in plain.constants}
    node = helper.make_node("Conv", ["m", *weights], ["y"], strides=case.stride)
    value = run_onnx([node], {"m": mapped, **weights})
    reference = apply_epilogue(value, case.epilogue, feeds.get("r"))
    first = Node(
        name="map", op=Affine(), inputs=("x", "s", "t"), output="m", epilogue=Epilogue(activation=activation)
    )
    second = replace(conv, inputs=("m", *conv.inputs[1:]))
    shapes = {"m": source.shape, "s": scale.shape, "t": shift.shape}
    graph = replace(
        plain,
        nodes=(first, second),
        tensors={**plain.tensors, **{name: Tensor(name=name, shape=shape) for name, shape in shapes.items()}},
        constants={**plain.constants, "s": scale, "t": shift},
    )
    return graph, feeds, reference


def select(device: Device, graph: Graph, parameters: tuple[int, int, int] | None = None) -> Selection:
    """Return the row with its own parameters or (MR, VECTORS, VECTOR), on any sort of device."""
    own = ROW.accepts(graph.nodes[-1], graph, replace(device.info, kind=DeviceKind.CPU))
    assert own is not None
    if parameters is not None:
        own = dict(zip(("MR", "VECTORS", "VECTOR"), parameters, strict=True))
    return Selection(implementation=ROW, parameters=own)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_agrees_with_onnx_runtime_and_cuts_keep_bits(device: Device, case: Case) -> None:
    graph, feeds, reference = put_behind_map(case)
    slices = cut_everywhere(reference.shape)
    assert_right(device, graph, feeds, reference, slices=slices, selection=select(device, graph))


@pytest.mark.parametrize("parameters", [(4, 2, 4), (5, 1, 8), (1, 1, 4)], ids=lambda p: "x".join(map(str, p)))
@pytest.mark.parametrize("outputs", [5, 8, 24, 27], ids=["lt", "eq", "div", "gt"])
def test_tile_edges(device: Device, outputs: int, parameters: tuple[int, int, int]) -> None:
    for pixels in (3, 4, 9):
        case = Case(image=(1, pixels), inputs=6, outputs=outputs, kernel=(1, 1), pads=(0, 0, 0, 0))
        graph, feeds, reference = put_behind_map(case)
        slices = [*cut(reference.shape, 1, [outputs // 2]), *cut(reference.shape, 3, [pixels // 2])]
        selection = select(device, graph, parameters)
        assert_right(device, graph, feeds, reference, slices=slices, selection=selection)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=[str(one.kind) for one in ACTIVATIONS])
def test_activations_of_the_map(device: Device, activation: Activation) -> None:
    graph, feeds, reference = put_behind_map(CASES["image"], activation)
    assert_right(device, graph, feeds, reference, selection=select(device, graph))


@pytest.mark.parametrize("epilogue", EPILOGUES.values(), ids=EPILOGUES)
def test_epilogues(device: Device, epilogue: Epilogue) -> None:
    graph, feeds, reference = put_behind_map(replace(CASES["image"], epilogue=epilogue))
    slices = cut(reference.shape, 1, [3, 18])
    assert_right(device, graph, feeds, reference, slices=slices, selection=select(device, graph))


def test_passes_nan_on(device: Device) -> None:
    graph, feeds, _ = put_behind_map(CASES["image"])
    feeds["x"][0, 3, 2, 4] = np.nan
    from_row = run_node(device, graph, feeds, selection=select(device, graph))
    assert np.isnan(from_row[0, :, 2, 4]).all()
    assert np.isnan(from_row).sum() == from_row.shape[1]

"""A depthwise convolution and the 1x1 convolution behind it in one kernel: edges, windows, epilogues."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from onnx import helper

from codl.catalog.choose import choose
from codl.catalog.rows.conv2d_depthwise import IMPLEMENTATIONS
from codl.catalog.spec import Selection
from codl.devices.opencl import Device
from codl.ir.graph import FloatArray, Graph, Tensor
from codl.ir.ops import Activation, ActivationKind, Conv2d, Epilogue, ResidualOrder
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
CLIP = Epilogue(activation=Activation(kind=ActivationKind.CLIP, alpha=0.0, beta=1.5))
Tile = tuple[int, int, int, int]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A depthwise convolution, and what stands behind it."""

    first: Case
    outputs: int
    groups: int = 1
    has_bias: bool = True
    epilogue: Epilogue = field(default_factory=Epilogue)


def depthwise(channels: int, **more: object) -> Case:
    """Return a convolution with one filter a channel."""
    usual: dict[str, object] = {"epilogue": CLIP}
    return Case(inputs=channels, outputs=channels, groups=channels, **usual | more)  # type: ignore[arg-type]


PAIRS = {
    "usual": Pair(first=depthwise(40, image=(9, 21)), outputs=24),
    "strided": Pair(first=depthwise(20, image=(11, 14), stride=(2, 2)), outputs=50),
    "five-by-five": Pair(first=depthwise(17, image=(7, 9), kernel=(5, 5), pads=(2, 2, 2, 2)), outputs=16),
    "asymmetric": Pair(
        first=depthwise(16, image=(8, 10), kernel=(3, 2), stride=(1, 3), pads=(0, 1, 2, 0)), outputs=17
    ),
    "dilated": Pair(first=depthwise(19, image=(12, 13), dilation=(3, 2), pads=(3, 2, 3, 2)), outputs=33),
    "kernel-beyond-image": Pair(
        first=depthwise(18, image=(2, 3), kernel=(7, 7), pads=(3, 3, 3, 3)), outputs=20
    ),
    "wide-windows": Pair(first=depthwise(20, image=(5, 23), kernel=(5, 7), pads=(2, 3, 2, 3)), outputs=18),
    "beyond-guards": Pair(first=depthwise(16, image=(4, 19), dilation=(1, 4), pads=(1, 4, 1, 4)), outputs=16),
    "one-pixel": Pair(first=depthwise(24, image=(1, 1)), outputs=18),
    "many-outputs": Pair(first=depthwise(16, image=(5, 5)), outputs=203),
    "batch-without-bias": Pair(
        first=depthwise(21, image=(5, 6), batch=3, has_bias=False), outputs=19, has_bias=False
    ),
    "groups": Pair(first=depthwise(60, image=(6, 7)), outputs=54, groups=3),
    "groups-across-panels": Pair(first=depthwise(30, image=(6, 7)), outputs=24, groups=3),
}


def put_together(pair: Pair) -> tuple[Graph, dict[str, FloatArray], FloatArray]:
    """Return both convolutions as a graph, its feeds, and ONNX Runtime's result."""
    alone, feeds, values = build(pair.first)
    (first,) = alone.nodes
    constants = {"pw": random_array(pair.outputs, pair.first.outputs // pair.groups, 1, 1)}
    if pair.has_bias:
        constants["pb"] = random_array(pair.outputs, seed=3)
    conv = helper.make_node("Conv", ["v", *constants], ["y"], group=pair.groups)
    plain = run_onnx([conv], {"v": values, **constants})
    names: tuple[str, ...] = ("v", *constants)
    if pair.epilogue.residual is not ResidualOrder.NONE:
        feeds["r"] = random_array(*plain.shape, seed=1)
        names = (*names, "r")
    op = Conv2d(kernel=(1, 1), groups=pair.groups, has_bias=pair.has_bias)
    nodes = (
        replace(first, name="first", output="v"),
        replace(first, name="second", op=op, inputs=names, output="y", epilogue=pair.epilogue),
    )
    shapes = {"v": values.shape, "y": plain.shape} | {name: one.shape for name, one in constants.items()}
    if "r" in feeds:
        shapes["r"] = plain.shape
    graph = replace(
        alone,
        nodes=nodes,
        inputs=tuple(feeds),
        tensors={**alone.tensors, **{name: Tensor(name=name, shape=shape) for name, shape in shapes.items()}},
        constants={**alone.constants, **constants},
    )
    return graph, feeds, apply_epilogue(plain, pair.epilogue, feeds.get("r"))


def select(device: Device, graph: Graph, tile: Tile | None = None) -> Selection:
    """Return the row with its own parameters or (RUN, MR, VECTORS, VECTOR), on any sort of device."""
    own = ROW.accepts(
        graph.nodes[-1], graph, replace(device.info, kind=DeviceKind.CPU, vector_width=4, units=2)
    )
    assert own is not None
    if tile is not None:
        own = dict(zip(("RUN", "MR", "VECTORS", "VECTOR"), tile, strict=True))
    return Selection(implementation=ROW, parameters=own)


def run_apart(device: Device, graph: Graph, feeds: dict[str, FloatArray]) -> FloatArray:
    """Return what two launches compute."""
    first, second = graph.nodes
    alone = replace(graph, nodes=(first,), outputs=("v",))
    values = run_node(device, alone, feeds, selection=choose(first, alone, device.info))
    behind = replace(graph, nodes=(second,))
    return run_node(device, behind, feeds | {"v": values}, selection=choose(second, behind, device.info))


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_agrees_with_onnx_runtime_and_cuts_keep_bits(device: Device, pair: Pair) -> None:
    graph, feeds, reference = put_together(pair)
    slices = cut_everywhere(reference.shape)
    assert_right(device, graph, feeds, reference, slices=slices, selection=select(device, graph))


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_has_the_bits_of_two_launches(device: Device, pair: Pair) -> None:
    graph, feeds, _ = put_together(pair)
    found = run_node(device, graph, feeds, selection=select(device, graph))
    np.testing.assert_array_equal(found.view(np.uint32), run_apart(device, graph, feeds).view(np.uint32))


@pytest.mark.parametrize(
    "tile", [(6, 4, 2, 4), (7, 5, 1, 8), (6, 1, 1, 4)], ids=lambda p: "x".join(map(str, p))
)
@pytest.mark.parametrize("outputs", [8, 16, 24, 27], ids=["lt", "eq", "div", "gt"])
def test_tile_edges(device: Device, outputs: int, tile: Tile) -> None:
    for channels, columns in ((9, 3), (8, 6), (16, 12), (13, 13)):
        graph, feeds, reference = put_together(
            Pair(first=depthwise(channels, image=(3, columns)), outputs=outputs)
        )
        slices = [*cut(reference.shape, 1, [outputs // 2]), *cut(reference.shape, 3, [columns // 2])]
        assert_right(device, graph, feeds, reference, slices=slices, selection=select(device, graph, tile))


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=[str(one.kind) for one in ACTIVATIONS])
def test_activations_between(device: Device, activation: Activation) -> None:
    first = depthwise(21, image=(4, 9), epilogue=Epilogue(activation=activation))
    graph, feeds, reference = put_together(Pair(first=first, outputs=20))
    assert_right(device, graph, feeds, reference, selection=select(device, graph))


@pytest.mark.parametrize("epilogue", EPILOGUES.values(), ids=EPILOGUES)
def test_epilogues(device: Device, epilogue: Epilogue) -> None:
    graph, feeds, reference = put_together(
        Pair(first=depthwise(20, image=(4, 7)), outputs=22, epilogue=epilogue)
    )
    slices = cut(reference.shape, 1, [3, 18])
    assert_right(device, graph, feeds, reference, slices=slices, selection=select(device, graph))


def test_passes_nan_on(device: Device) -> None:
    graph, feeds, _ = put_together(PAIRS["usual"])
    feeds["x"][0, 3, 2, 4] = np.nan
    found = run_node(device, graph, feeds, selection=select(device, graph))
    assert np.isnan(found[0, :, 1:4, 3:6]).all()
    assert np.isnan(found).sum() == 9 * found.shape[1]

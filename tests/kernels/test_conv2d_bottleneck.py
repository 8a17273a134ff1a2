"""A 1x1, a depthwise and a second 1x1 convolution in one kernel: tile edges, windows, epilogues, cuts."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from onnx import helper

from codl.catalog.choose import choose
from codl.catalog.rows.conv2d_bottleneck import IMPLEMENTATIONS, find_widening
from codl.catalog.spec import Selection
from codl.devices.opencl import Device
from codl.ir.graph import FloatArray, Graph, Node, Tensor
from codl.ir.ops import Activation, ActivationKind, Conv2d, Epilogue, Pads, Pair, ResidualOrder
from codl.machine import DeviceKind
from tests.kernels.convolutions import Case, build
from tests.kernels.harness import (
    ACTIVATIONS,
    EPILOGUES,
    PLAIN,
    apply_epilogue,
    assert_right,
    cut,
    cut_everywhere,
    random_array,
    run_node,
    run_onnx,
)

(ROW,) = IMPLEMENTATIONS
CLIP = Epilogue(activation=Activation(kind=ActivationKind.CLIP, alpha=-0.2, beta=1.5))
Tile = tuple[int, int, int, int]


@dataclass(frozen=True, kw_only=True)
class Block:
    """Three convolutions of random values."""

    image: Pair = (9, 13)
    inputs: int = 7
    channels: int = 24
    outputs: int = 20
    kernel: Pair = (3, 3)
    stride: Pair = (1, 1)
    pads: Pads = (1, 1, 1, 1)
    batch: int = 1
    has_bias: bool = True
    wide: Epilogue = CLIP
    before: Epilogue = CLIP
    epilogue: Epilogue = field(default_factory=Epilogue)


BLOCKS = {
    "usual": Block(),
    "strided": Block(image=(11, 14), stride=(2, 2), channels=37, outputs=33),
    "five-by-five": Block(kernel=(5, 5), pads=(2, 2, 2, 2), channels=16),
    "asymmetric": Block(image=(8, 10), kernel=(3, 2), stride=(1, 3), pads=(0, 1, 2, 0)),
    "stride-beyond-window": Block(image=(13, 15), kernel=(2, 2), stride=(3, 3), pads=(0, 0, 0, 0)),
    "window-beyond-image": Block(image=(2, 3), kernel=(7, 7), pads=(3, 3, 3, 3)),
    "one-pixel": Block(image=(1, 1), inputs=1),
    "many-outputs": Block(image=(4, 5), outputs=203, channels=19),
    "batch-without-bias": Block(image=(5, 6), batch=3, has_bias=False),
}


def put_together(block: Block) -> tuple[Graph, dict[str, FloatArray], FloatArray]:
    """Return the three convolutions as a graph, its feeds, and ONNX Runtime's result."""
    first = Case(
        image=block.image,
        inputs=block.inputs,
        outputs=block.channels,
        kernel=(1, 1),
        pads=(0, 0, 0, 0),
        batch=block.batch,
        has_bias=block.has_bias,
        epilogue=block.wide,
    )
    alone, feeds, value = build(first)
    nodes, tensors = [replace(alone.nodes[0], name="first", output="u")], {"u": value}
    constants: dict[str, FloatArray] = {}
    middle = Conv2d(
        kernel=block.kernel,
        stride=block.stride,
        pads=block.pads,
        groups=block.channels,
        has_bias=block.has_bias,
    )
    last = Conv2d(kernel=(1, 1), has_bias=block.has_bias)
    for name, op, outputs, epilogue in (
        ("v", middle, block.channels, block.before),
        ("y", last, block.outputs, block.epilogue),
    ):
        given = nodes[-1].output
        own = {f"w{name}": random_array(outputs, block.channels // op.groups, *op.kernel)}
        if block.has_bias:
            own[f"b{name}"] = random_array(outputs, seed=3)
        conv = helper.make_node(
            "Conv", [given, *own], ["out"], group=op.groups, strides=op.stride, pads=op.pads
        )
        value = run_onnx([conv], {given: value, **own})
        if epilogue.residual is not ResidualOrder.NONE:
            feeds["r"] = random_array(*value.shape, seed=1)
        operands = (given, *own, *(("r",) if epilogue.residual is not ResidualOrder.NONE else ()))
        value = apply_epilogue(value, epilogue, feeds.get("r"))
        nodes.append(Node(name=name, op=op, inputs=operands, output=name, epilogue=epilogue))
        tensors[name] = value
        constants |= own
    arrays = {**tensors, **constants, **feeds}
    graph = replace(
        alone,
        nodes=tuple(nodes),
        inputs=tuple(feeds),
        tensors={
            **alone.tensors,
            **{name: Tensor(name=name, shape=array.shape) for name, array in arrays.items()},
        },
        constants={**alone.constants, **constants},
    )
    return graph, feeds, value


def select(device: Device, graph: Graph, tile: Tile | None = None) -> Selection:
    """Return the row with its own parameters or (RUN, MR, VECTORS, VECTOR), on any sort of device."""
    info = replace(device.info, kind=DeviceKind.CPU, vector_width=4, units=2)
    own = ROW.accepts(graph.nodes[-1], graph, info)
    assert own is not None
    if tile is not None:
        own = dict(zip(("RUN", "MR", "VECTORS", "VECTOR"), tile, strict=True))
    return Selection(implementation=ROW, parameters=own)


def run_apart(device: Device, graph: Graph, feeds: dict[str, FloatArray]) -> FloatArray:
    """Return what three launches compute."""
    known = dict(feeds)
    for node in graph.nodes:
        alone = replace(graph, nodes=(node,), outputs=(node.output,))
        known[node.output] = run_node(device, alone, known, selection=choose(node, alone, device.info))
    return known[graph.nodes[-1].output]


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_agrees_with_onnx_runtime_and_cuts_keep_bits(device: Device, block: Block) -> None:
    graph, feeds, reference = put_together(block)
    slices = cut_everywhere(reference.shape)
    assert_right(device, graph, feeds, reference, slices=slices, selection=select(device, graph))


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_has_the_bits_of_three_launches(device: Device, block: Block) -> None:
    graph, feeds, _ = put_together(block)
    found = run_node(device, graph, feeds, selection=select(device, graph))
    np.testing.assert_array_equal(found.view(np.uint32), run_apart(device, graph, feeds).view(np.uint32))


@pytest.mark.parametrize(
    "tile", [(6, 4, 2, 4), (7, 5, 1, 8), (6, 1, 1, 4)], ids=lambda p: "x".join(map(str, p))
)
@pytest.mark.parametrize("outputs", [8, 16, 24, 27], ids=["lt", "eq", "div", "gt"])
def test_tile_edges(device: Device, outputs: int, tile: Tile) -> None:
    for channels, columns in ((9, 3), (8, 6), (16, 12), (13, 13)):
        block = Block(image=(3, columns), inputs=3, channels=channels, outputs=outputs)
        graph, feeds, reference = put_together(block)
        slices = [*cut(reference.shape, 1, [outputs // 2]), *cut(reference.shape, 3, [columns // 2])]
        assert_right(device, graph, feeds, reference, slices=slices, selection=select(device, graph, tile))


@pytest.mark.parametrize("activation", PLAIN, ids=[str(one.kind) for one in PLAIN])
def test_activations_between(device: Device, activation: Activation) -> None:
    inner = Epilogue(activation=activation)
    graph, feeds, reference = put_together(Block(wide=inner, before=inner))
    assert_right(device, graph, feeds, reference, selection=select(device, graph))


@pytest.mark.parametrize("epilogue", EPILOGUES.values(), ids=EPILOGUES)
def test_epilogues(device: Device, epilogue: Epilogue) -> None:
    graph, feeds, reference = put_together(Block(image=(4, 7), epilogue=epilogue))
    slices = cut(reference.shape, 1, [3, 18])
    assert_right(device, graph, feeds, reference, slices=slices, selection=select(device, graph))


def test_passes_nan_on(device: Device) -> None:
    graph, feeds, _ = put_together(Block())
    feeds["x"][0, 3, 2, 4] = np.nan
    found = run_node(device, graph, feeds, selection=select(device, graph))
    assert np.isnan(found[0, :, 1:4, 3:6]).all()
    assert np.isnan(found).sum() == 9 * found.shape[1]


def test_leaves_values_alone_that_others_read() -> None:
    graph, _, _ = put_together(Block())
    assert find_widening(graph.nodes[-1], graph) == graph.nodes[:2]
    for name in ("u", "v"):
        assert find_widening(graph.nodes[-1], replace(graph, outputs=("y", name))) is None


def test_leaves_rare_activations_alone() -> None:
    rare = Epilogue(activation=ACTIVATIONS[-1])
    for block in (Block(wide=rare), Block(before=rare)):
        graph, _, _ = put_together(block)
        assert find_widening(graph.nodes[-1], graph) is None

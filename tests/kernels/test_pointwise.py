"""Functions of single elements on every device: shapes, broadcasting, constants, epilogues, cuts, NaN."""

from dataclasses import replace

import numpy as np
import pytest
from onnx import helper

from codl.catalog.choose import choose
from codl.catalog.rows.pointwise import AFFINE, BINARY, IMPLEMENTATIONS, UNARY
from codl.catalog.spec import Selection
from codl.devices.opencl import Device
from codl.ir.graph import FloatArray, Graph, Shape
from codl.ir.ops import Activation, ActivationKind, Affine, Binary, BinaryKind, Epilogue, ResidualOrder, Unary
from tests.kernels.harness import (
    ACTIVATIONS,
    EPILOGUES,
    apply_epilogue,
    assert_right,
    one_node_graph,
    random_array,
    run_node,
    run_onnx,
)
from tests.kernels.slices import EDGES, slices_of

ROWS = {row.name: row for row in IMPLEMENTATIONS}
PLAIN = {name: epilogue for name, epilogue in EPILOGUES.items() if name.endswith(ResidualOrder.NONE)}
LEAKY = Epilogue(activation=Activation(kind=ActivationKind.LEAKY_RELU, alpha=0.1))
GAPS = pytest.mark.parametrize("gap", [0, 3], ids=["dense", "spaced"])

SHAPES: dict[str, Shape] = {
    "number": (),
    "vector": (37,),
    "matrix": (3, 20),
    "column": (5, 1),
    "sequence": (2, 3, 17),
    "image": (2, 20, 3, 5),
    "few-channels": (1, 3, 6, 7),
    "most-channels-of-a-pattern": (2, 16, 3, 7),
    "one-channel": (1, 1, 20, 3),
    "long-line": (1, 40000),
}

OP_TYPES = {
    BinaryKind.ADD: "Add",
    BinaryKind.MUL: "Mul",
    BinaryKind.SUB: "Sub",
    BinaryKind.DIV: "Div",
    BinaryKind.PRELU: "PRelu",
}

BROADCASTS: dict[str, tuple[Shape, Shape]] = {
    "same": ((2, 20, 3, 5), (2, 20, 3, 5)),
    "by-channel": ((2, 20, 3, 5), (20, 1, 1)),
    "by-few-channels": ((2, 3, 6, 7), (3, 1, 1)),
    "by-most-channels-of-a-pattern": ((1, 16, 6, 7), (1, 16, 1, 1)),
    "by-batch-and-few-channels": ((2, 5, 6, 7), (2, 5, 1, 1)),
    "by-channel-of-one-row": ((1, 3, 1, 40), (1, 3, 1, 1)),
    "by-batch-and-channel": ((2, 20, 1, 1), (2, 20, 3, 5)),
    "by-column": ((1, 20, 3, 5), (5,)),
    "by-pixel": ((2, 20, 3, 5), (1, 1, 3, 5)),
    "with-number": ((2, 7, 3, 5), ()),
    "number-first": ((1, 1), (2, 20)),
    "both-ways": ((20, 1, 4), (2, 1, 3, 1)),
    "outer": ((5, 1), (1, 33)),
    "rows": ((7, 33), (33,)),
    "sequences": ((2, 3, 17), (3, 1)),
    "numbers": ((), ()),
}


@GAPS
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_unary_agrees_with_onnx_runtime_and_cuts_keep_bits(device: Device, shape: Shape, gap: int) -> None:
    x = np.asarray(random_array(*shape))
    graph = one_node_graph(Unary(), {"x": x}, shape, epilogue=LEAKY)
    reference = apply_epilogue(x, LEAKY, None)
    assert_right(device, graph, {"x": x}, reference, slices=slices_of(shape), gap=gap)


@pytest.mark.parametrize("epilogue", PLAIN.values(), ids=PLAIN)
def test_unary_passes_special_values_on(device: Device, epilogue: Epilogue) -> None:
    x = np.tile(np.array([np.nan, np.inf, -np.inf, -0.0, 7.0], np.float32), 9)
    graph = one_node_graph(Unary(), {"x": x}, x.shape, epilogue=epilogue)
    expected = apply_epilogue(x, epilogue, None)
    np.testing.assert_allclose(run_node(device, graph, {"x": x}), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=[a.kind for a in ACTIVATIONS])
def test_activations_are_accurate_everywhere(device: Device, activation: Activation) -> None:
    x = np.concatenate([sign * np.geomspace(1e-6, 90, 3000) for sign in (-1, 1)]).astype(np.float32)
    epilogue = Epilogue(activation=activation)
    graph = one_node_graph(Unary(), {"x": x}, x.shape, epilogue=epilogue)
    reference = apply_epilogue(x, epilogue, None)
    assert_right(device, graph, {"x": x}, reference, slices=slices_of(x.shape), tolerance=1e-6)


def binary(
    shapes: tuple[Shape, Shape], kind: BinaryKind, *, constants: str = "", epilogue: Epilogue
) -> tuple[Graph, dict[str, FloatArray], FloatArray]:
    """Return the graph of one Binary, its activations and ONNX Runtime's result."""
    inputs = {name: np.asarray(random_array(*shape)) for name, shape in zip("ab", shapes, strict=True)}
    plain = run_onnx([helper.make_node(OP_TYPES[kind], ["a", "b"], ["y"])], inputs)
    residual = None
    if epilogue.residual is not ResidualOrder.NONE:
        residual = inputs["r"] = np.asarray(random_array(*plain.shape, seed=1))
    reference = apply_epilogue(plain, epilogue, residual)
    graph = one_node_graph(
        Binary(kind=kind), inputs, reference.shape, constants=tuple(constants), epilogue=epilogue
    )
    return graph, {name: inputs[name] for name in graph.inputs}, reference


@GAPS
@pytest.mark.parametrize("shapes", BROADCASTS.values(), ids=BROADCASTS)
@pytest.mark.parametrize("constants", ["", "a", "b"], ids=["computed", "constant-a", "constant-b"])
def test_binary_broadcasts_as_onnx_runtime_and_cuts_keep_bits(
    device: Device, shapes: tuple[Shape, Shape], constants: str, gap: int
) -> None:
    graph, feeds, reference = binary(shapes, BinaryKind.ADD, constants=constants, epilogue=LEAKY)
    assert_right(device, graph, feeds, reference, slices=slices_of(reference.shape), gap=gap)


@pytest.mark.parametrize("kind", list(BinaryKind))
@pytest.mark.parametrize("epilogue", EPILOGUES.values(), ids=EPILOGUES)
@pytest.mark.parametrize(
    "shapes", [((1, 20, 3, 4),) * 2, ((1, 20, 3, 4), (20, 1, 1))], ids=["same", "repeated"]
)
def test_binary_epilogues(
    device: Device, shapes: tuple[Shape, Shape], epilogue: Epilogue, kind: BinaryKind
) -> None:
    graph, feeds, reference = binary(shapes, kind, epilogue=epilogue)
    assert_right(device, graph, feeds, reference, slices=slices_of(reference.shape))


def test_binary_of_a_tensor_with_itself(device: Device) -> None:
    x = random_array(1, 20, 3, 4)
    node = helper.make_node("Mul", ["x", "x"], ["y"])
    one = one_node_graph(Binary(kind=BinaryKind.MUL), {"x": x}, x.shape)
    graph = replace(one, nodes=(replace(one.nodes[0], inputs=("x", "x")),))
    assert_right(device, graph, {"x": x}, run_onnx([node], {"x": x}), slices=slices_of(x.shape))


def affine(shape: Shape, epilogue: Epilogue = LEAKY) -> tuple[Graph, dict[str, FloatArray], FloatArray]:
    """Return the graph of one Affine, its activations and ONNX Runtime's result."""
    channels = shape[1]
    inputs = {"x": random_array(*shape), "s": random_array(channels), "t": random_array(channels, seed=1)}
    statistics = {"m": np.zeros(channels, np.float32), "v": np.ones(channels, np.float32)}
    node = helper.make_node("BatchNormalization", ["x", "s", "t", "m", "v"], ["y"], epsilon=0.0)
    reference = apply_epilogue(run_onnx([node], inputs | statistics), epilogue, None)
    graph = one_node_graph(Affine(), inputs, shape, constants=("s", "t"), epilogue=epilogue)
    return graph, {"x": inputs["x"]}, reference


@GAPS
@pytest.mark.parametrize(
    "shape",
    [pytest.param(shape, id=name) for name, shape in SHAPES.items() if len(shape) > 1],
)
def test_affine_agrees_with_onnx_runtime_and_cuts_keep_bits(device: Device, shape: Shape, gap: int) -> None:
    graph, feeds, reference = affine(shape)
    assert_right(device, graph, feeds, reference, slices=slices_of(shape), gap=gap)


@pytest.mark.parametrize("epilogue", PLAIN.values(), ids=PLAIN)
def test_affine_epilogues(device: Device, epilogue: Epilogue) -> None:
    graph, feeds, reference = affine((1, 20, 3, 4), epilogue)
    assert_right(device, graph, feeds, reference, slices=slices_of(reference.shape))


@pytest.mark.parametrize("length", EDGES.values(), ids=EDGES)
@pytest.mark.parametrize("name", [UNARY, BINARY, AFFINE])
def test_tile_edges(device: Device, name: str, length: int) -> None:
    shape = (2, length, 2, 3)
    x = random_array(*shape)
    if name == UNARY:
        graph, feeds, reference = one_node_graph(Unary(), {"x": x}, shape), {"x": x}, x
    elif name == BINARY:
        graph, feeds, reference = binary((shape, (length, 1, 1)), BinaryKind.MUL, epilogue=LEAKY)
    else:
        graph, feeds, reference = affine(shape)
    lanes = Selection(implementation=ROWS[name], parameters={"VECTOR": 4})
    assert_right(device, graph, feeds, reference, slices=slices_of(shape), selection=lanes)


@pytest.mark.parametrize("op", [Unary(), Affine()], ids=["unary", "affine"])
def test_residuals_are_left_to_other_rows(device: Device, op: Unary | Affine) -> None:
    shape = (1, 8, 2, 2)
    inputs: dict[str, FloatArray | Shape] = {"x": shape}
    if isinstance(op, Affine):
        inputs |= {"s": random_array(8), "t": random_array(8)}
    inputs["r"] = shape
    graph = one_node_graph(
        op,
        inputs,
        shape,
        constants=[name for name in inputs if name in "st"],
        epilogue=Epilogue(residual=ResidualOrder.AFTER),
    )
    assert all(row.accepts(graph.nodes[0], graph, device.info) is None for row in IMPLEMENTATIONS)


@pytest.mark.parametrize(
    ("shape", "width", "lanes"), [((1, 3, 9, 9), 16, 16), ((5,), 16, 4), ((40,), 8, 8), ((40,), 1, 4)]
)
def test_unary_lanes_follow_device_and_size(device: Device, shape: Shape, width: int, lanes: int) -> None:
    graph = one_node_graph(Unary(), {"x": shape}, shape)
    info = replace(device.info, vector_width=width)
    assert choose(graph.nodes[0], graph, info).parameters == {"VECTOR": lanes}

"""Matrix products on every device: tile edges, batches, broadcast, epilogues, cuts."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from onnx import helper

from codl.catalog.choose import choose
from codl.catalog.rows import matmul, matmul_packed
from codl.catalog.spec import Implementation, Selection
from codl.devices.opencl import Device
from codl.ir.graph import NO_EPILOGUE, FloatArray, Graph, Shape
from codl.ir.ops import Epilogue, MatMul, ResidualOrder
from codl.ir.regions import Boxes, Region
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

IMPLEMENTATIONS = (*matmul_packed.IMPLEMENTATIONS, *matmul.IMPLEMENTATIONS)
PACKED, PLAIN = IMPLEMENTATIONS
SMALL = {
    PACKED.name: {"MR": 4, "VECTORS": 2, "VECTOR": 4, "STREAMS": 0},
    PLAIN.name: {"MR": 4, "NR": 8, "VECTOR": 4},
}


class Product(NamedTuple):
    """A matrix product and ONNX Runtime's result."""

    graph: Graph
    feeds: dict[str, FloatArray]
    reference: FloatArray


def build(
    a: Shape,
    b: Shape,
    *,
    constant: bool,
    bias: bool = False,
    epilogue: Epilogue = NO_EPILOGUE,
    round_factors: Callable[[FloatArray], FloatArray] = lambda value: value,
) -> Product:
    """Return a product of random values, whose result is that of rounded factors."""
    feeds = {"a": random_array(*a), "b": random_array(*b, seed=1)}
    rounded = {name: round_factors(value) for name, value in feeds.items()}
    plain = run_onnx([helper.make_node("MatMul", ["a", "b"], ["p"])], rounded)
    constants = ("b",) if constant else ()
    if bias:
        feeds["bias"] = random_array(b[-1], seed=2)
        constants = (*constants, "bias")
        plain = run_onnx([helper.make_node("Add", ["p", "bias"], ["q"])], {"p": plain, "bias": feeds["bias"]})
    if epilogue.residual is not ResidualOrder.NONE:
        feeds["r"] = random_array(*plain.shape, seed=3)
    graph = one_node_graph(MatMul(has_bias=bias), feeds, plain.shape, constants=constants, epilogue=epilogue)
    return Product(graph, feeds, apply_epilogue(plain, epilogue, feeds.get("r")))


def cuts(shape: Shape) -> list[Region]:
    """Return slices along every axis, and one box cut along all of them."""
    rank = len(shape)
    slices = [
        region
        for axis, length in enumerate(shape)
        for region in cut(shape, axis, sorted({1, length // 2, length - 1}))
    ]
    inner = Region.whole(shape)
    for axis in range(rank):
        inner = inner.cut(axis, shape[axis] // 3, shape[axis])
    return [region for region in [*slices, inner] if not region.is_empty]


PRODUCTS: dict[str, tuple[Shape, Shape]] = {
    "vector": ((1, 300), (300, 200)),
    "few-rows": ((3, 40), (40, 50)),
    "matrix": ((29, 37), (37, 45)),
    "one-column": ((9, 12), (12, 1)),
    "batch": ((3, 7, 10), (10, 20)),
}
BATCHES: dict[str, tuple[Shape, Shape]] = {
    "batches": ((3, 5, 9), (3, 9, 14)),
    "left-repeats": ((1, 5, 9), (3, 9, 14)),
    "right-repeats": ((3, 5, 9), (1, 9, 14)),
    "left-shared": ((5, 9), (3, 9, 14)),
    "heads": ((2, 3, 6, 8), (2, 3, 8, 19)),
    "heads-repeat": ((2, 1, 6, 8), (1, 3, 8, 19)),
    "heads-shared": ((2, 3, 6, 8), (8, 40)),
}


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("shapes", PRODUCTS.values(), ids=PRODUCTS)
def test_constant_operand(device: Device, shapes: tuple[Shape, Shape], bias: bool) -> None:
    graph, feeds, reference = build(*shapes, constant=True, bias=bias)
    assert choose(graph.nodes[0], graph, device.info).implementation is PACKED
    assert_right(device, graph, feeds, reference, slices=cuts(reference.shape))


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("shapes", (PRODUCTS | BATCHES).values(), ids=PRODUCTS | BATCHES)
def test_computed_operand(device: Device, shapes: tuple[Shape, Shape], bias: bool) -> None:
    graph, feeds, reference = build(*shapes, constant=False, bias=bias)
    assert choose(graph.nodes[0], graph, device.info).implementation is PLAIN
    assert_right(device, graph, feeds, reference, slices=cuts(reference.shape))


def test_constant_batch_of_matrices(device: Device) -> None:
    graph, feeds, reference = build(*BATCHES["batches"], constant=True, bias=True)
    assert_right(device, graph, feeds, reference, slices=cuts(reference.shape))


@pytest.mark.parametrize("row", IMPLEMENTATIONS, ids=[row.name for row in IMPLEMENTATIONS])
@pytest.mark.parametrize(
    "columns", [pytest.param(n, id=name) for name, n in {"lt": 5, "eq": 8, "div": 16, "gt": 17}.items()]
)
@pytest.mark.parametrize(
    "rows", [pytest.param(n, id=name) for name, n in {"lt": 3, "eq": 4, "div": 8, "gt": 9}.items()]
)
def test_tile_edges(device: Device, rows: int, columns: int, row: Implementation) -> None:
    graph, feeds, reference = build((rows, 11), (11, columns), constant=True)
    tile = Selection(implementation=row, parameters=SMALL[row.name])
    slices = [*cut(reference.shape, 0, [rows // 2]), *cut(reference.shape, 1, [columns // 2])]
    assert_right(device, graph, feeds, reference, slices=slices, selection=tile)


@pytest.mark.parametrize("columns", [3, 8, 17, 40])
def test_streams_give_the_bits_of_rows(device: Device, columns: int) -> None:
    graph, feeds, reference = build((1, 70), (70, columns), constant=True, bias=True)
    tiles = [
        Selection(
            implementation=PACKED, parameters={"MR": 1, "VECTORS": 3, "VECTOR": 4, "STREAMS": are_streams}
        )
        for are_streams in (0, 1)
    ]
    rows, streams = (run_node(device, graph, feeds, selection=tile) for tile in tiles)
    np.testing.assert_array_equal(rows.view(np.uint32), streams.view(np.uint32))
    slices = cut(reference.shape, 1, [columns // 3, columns // 2])
    assert_right(device, graph, feeds, reference, slices=slices, selection=tiles[1])


def test_streams_are_right_where_an_item_takes_several_panels(device: Device) -> None:
    graph, feeds, reference = build((400, 1, 64), (64, 24), constant=True)
    tile = {"MR": 1, "VECTORS": 3, "VECTOR": 4, "STREAMS": 1}
    (batch,) = PACKED.describe(graph.nodes[0], graph, Boxes.whole(reference.shape, 1), device.info, tile)
    assert device.info.units > 4 or batch.scalars["item_panels"][0] == 2
    assert_right(
        device,
        graph,
        feeds,
        reference,
        slices=cut(reference.shape, 0, [150]),
        selection=Selection(implementation=PACKED, parameters=tile),
    )


@pytest.mark.parametrize("constant", [False, True], ids=["computed", "constant"])
@pytest.mark.parametrize("epilogue", EPILOGUES.values(), ids=EPILOGUES)
def test_epilogues(device: Device, epilogue: Epilogue, constant: bool) -> None:
    graph, feeds, reference = build((5, 8), (8, 37), constant=constant, bias=True, epilogue=epilogue)
    assert_right(device, graph, feeds, reference, slices=cut(reference.shape, 1, [3, 16, 33]))


def test_dense_storage_gives_the_bits_of_spaced_storage(device: Device) -> None:
    graph, feeds, _ = build((9, 20), (20, 40), constant=False)
    np.testing.assert_array_equal(
        run_node(device, graph, feeds, gap=0), run_node(device, graph, feeds, gap=3)
    )

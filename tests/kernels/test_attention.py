"""Attention on every device: heads and rows anywhere, masks, cuts along each axis, infinities and NaN."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from onnx import helper

from codl.catalog.choose import choose
from codl.catalog.groups import choose_assembly, takes_groups
from codl.catalog.rows.attention import IMPLEMENTATIONS, ROWS, TILE, TILES
from codl.catalog.spec import Selection
from codl.devices.opencl import Device
from codl.ir.graph import FloatArray, Graph, Shape
from codl.ir.ops import Attention
from tests.kernels.groups import as_gpu
from tests.kernels.harness import assert_right, one_node_graph, random_array, run_node, run_onnx
from tests.kernels.slices import slices_of

TABLE = {row.name: row for row in IMPLEMENTATIONS}
GAPS = pytest.mark.parametrize("gap", [0, 3], ids=["dense", "spaced"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Sizes of an attention."""

    batch: int = 1
    heads: int = 2
    rows: int = 5
    keys: int = 5
    depth: int = 4
    width: int = 4
    row_axis: int = 1
    begins: tuple[int, int, int] = (0, 0, 0)
    mask: Shape | None = None


CASES = {
    "one": Case(heads=1, rows=1, keys=1, depth=1, width=1),
    "lt": Case(rows=3, keys=3),
    "eq": Case(rows=16, keys=32, depth=8, width=8),
    "gt": Case(rows=17, keys=33, depth=5, width=7),
    "tiles": Case(rows=70, keys=101, depth=12, width=20),
    "batch": Case(batch=2, heads=3, rows=9, keys=40, begins=(4, 8, 12)),
    "rows-first": Case(batch=2, heads=3, rows=9, keys=40, row_axis=0, begins=(3, 0, 1)),
    "vision": Case(heads=3, rows=35, keys=35, depth=64, width=64),
    "broad": Case(heads=2, rows=18, keys=37, depth=128, width=128),
    "broad-values": Case(heads=2, rows=18, keys=37, depth=20, width=100),
    "mask": Case(batch=2, rows=6, keys=40, mask=(2, 2, 6, 40)),
    "mask-of-keys": Case(batch=2, rows=6, keys=40, mask=(2, 1, 1, 40)),
    "mask-of-rows": Case(batch=2, rows=20, keys=20, row_axis=0, mask=(20, 20)),
    "mask-of-heads": Case(rows=20, keys=20, mask=(2, 1, 20)),
}
EACH_CASE = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def build(case: Case, *, size: float = 1.0) -> tuple[Graph, dict[str, FloatArray], FloatArray]:
    """Return the graph of an attention, feeds, and what ONNX Runtime makes of them."""
    sizes = (case.depth, case.depth, case.width)
    feeds: dict[str, FloatArray] = {}
    for seed, name in enumerate("qkv"):
        length = case.rows if name == "q" else case.keys
        channels = case.begins[seed] + case.heads * sizes[seed] + 2
        feeds[name] = size * random_array(case.batch, length, channels, seed=seed)
        if case.row_axis == 0:
            feeds[name] = np.ascontiguousarray(feeds[name].swapaxes(0, 1))
    if case.mask is not None:
        feeds["m"] = random_array(*case.mask, seed=7)
    op = Attention(
        heads=case.heads,
        depth=case.depth,
        width=case.width,
        scale=0.3,
        begins=case.begins,
        row_axis=case.row_axis,
        has_mask=case.mask is not None,
    )
    reference = refer(op, feeds)
    return one_node_graph(op, feeds, reference.shape), feeds, reference


def refer(op: Attention, feeds: dict[str, FloatArray]) -> FloatArray:
    """Return what ONNX Runtime computes: a product, softmax and a product of matrices."""
    matrices = {
        name: np.ascontiguousarray(
            np.moveaxis(feeds[name], op.row_axis, 1)[..., begin : begin + op.heads * size]
            .reshape(feeds[name].shape[op.batch_axis], -1, op.heads, size)
            .transpose((0, 2, 3, 1) if name == "k" else (0, 2, 1, 3))
        )
        for name, begin, size in zip("qkv", op.begins, (op.depth, op.depth, op.width), strict=True)
    }
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["products"]),
        helper.make_node("Mul", ["products", "scale"], ["scores"]),
        helper.make_node("Add" if op.has_mask else "Identity", ["scores", "m"][: 1 + op.has_mask], ["sums"]),
        helper.make_node("Softmax", ["sums"], ["shares"], axis=3),
        helper.make_node("MatMul", ["shares", "v"], ["mixed"]),
        helper.make_node("Transpose", ["mixed"], ["y"], perm=(0, 2, 1, 3) if op.row_axis else (2, 0, 1, 3)),
    ]
    others = {"scale": np.full(1, op.scale, np.float32)} | ({"m": feeds["m"]} if op.has_mask else {})
    mixed = run_onnx(nodes, matrices | others)
    return mixed.reshape(*mixed.shape[:2], -1)


@GAPS
@EACH_CASE
def test_rows_agree_with_onnx_runtime_and_cuts_keep_bits(device: Device, case: Case, gap: int) -> None:
    graph, feeds, reference = build(case)
    assert choose(graph.nodes[0], graph, device.info).implementation.name == ROWS
    assert_right(device, graph, feeds, reference, slices=slices_of(reference.shape), gap=gap)


@GAPS
@pytest.mark.parametrize("tile", TILES)
@EACH_CASE
def test_tiles_of_groups(device: Device, case: Case, tile: int, gap: int) -> None:
    if max(case.depth, case.width) > 64 and tile > TILES[0]:
        pytest.skip("no room")
    graph, feeds, reference = build(case)
    gpu = as_gpu(device)
    assert not takes_groups(gpu.info) or choose(graph.nodes[0], graph, gpu.info).implementation.name == TILE
    chosen = Selection(implementation=TABLE[TILE], parameters={"BM": tile, **choose_assembly(gpu.info)})
    slices = slices_of(reference.shape)
    assert_right(gpu, graph, feeds, reference, slices=slices, gap=gap, selection=chosen)


def test_bits_of_groups_depend_on_neither_tiles_nor_storage(device: Device) -> None:
    graph, feeds, _ = build(CASES["tiles"])
    gpu = as_gpu(device)
    values = [
        run_node(
            gpu,
            graph,
            feeds,
            gap=gap,
            selection=Selection(
                implementation=TABLE[TILE], parameters={"BM": tile, **choose_assembly(gpu.info)}
            ),
        )
        for tile in TILES
        for gap in (0, 3)
    ]
    for value in values[1:]:
        np.testing.assert_array_equal(value.view(np.uint32), values[0].view(np.uint32))


@pytest.mark.parametrize("is_gpu", [False, True], ids=["rows", "tile"])
def test_one_tensor_holds_query_key_and_value(device: Device, is_gpu: bool) -> None:
    op = Attention(heads=3, depth=8, width=8, scale=0.3, begins=(0, 24, 48))
    x = random_array(2, 37, 72)
    reference = refer(op, dict.fromkeys("qkv", x))
    graph = one_node_graph(op, {"x": x}, reference.shape)
    (node,) = graph.nodes
    packed = replace(graph, nodes=(replace(node, inputs=("x",) * 3),))
    chosen = as_gpu(device) if is_gpu else device
    assert_right(chosen, packed, {"x": x}, reference, slices=slices_of(reference.shape))


@pytest.mark.parametrize("is_gpu", [False, True], ids=["rows", "tile"])
@pytest.mark.parametrize("masked", [(0, 33), (0, 40), (5, 6)], ids=["first tile", "all", "one"])
@pytest.mark.parametrize("value", [-np.inf, np.inf, np.nan, -3.4e38], ids=str)
def test_special_values_of_masks(device: Device, masked: tuple[int, int], value: float, is_gpu: bool) -> None:
    graph, feeds, _ = build(CASES["mask"])
    feeds["m"][:, :, 2, slice(*masked)] = value
    (node,) = graph.nodes
    assert isinstance(node.op, Attention)
    got = run_node(as_gpu(device) if is_gpu else device, graph, feeds)
    np.testing.assert_allclose(got, refer(node.op, feeds), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("is_gpu", [False, True], ids=["rows", "tile"])
def test_great_scores_do_not_overflow(device: Device, is_gpu: bool) -> None:
    graph, feeds, reference = build(CASES["tiles"], size=30.0)
    got = run_node(as_gpu(device) if is_gpu else device, graph, feeds)
    np.testing.assert_allclose(got, reference, rtol=1e-3, atol=1e-3)

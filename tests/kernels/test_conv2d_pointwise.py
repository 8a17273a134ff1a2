"""1x1 convolutions as matrix products on every device: tile edges, groups, strides, epilogues, cuts."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from onnx import helper

from codl.catalog.choose import choose
from codl.catalog.gemm_tile import ALLOWED_TILES, choose_tile, is_tile
from codl.catalog.rows.conv2d import IMPLEMENTATIONS as IMPLICIT_GEMM
from codl.catalog.rows.conv2d_pointwise import IMPLEMENTATIONS
from codl.catalog.spec import STOLEN_ITEMS, Selection, can_fetch
from codl.devices.opencl import Device
from codl.ir.ops import Activation, ActivationKind, Epilogue, Pads, Pair
from codl.ir.regions import Boxes, Region
from codl.machine import DeviceKind
from tests.catalog.nodes import device_info
from tests.kernels.convolutions import Case, build
from tests.kernels.harness import EPILOGUES, assert_right, cut, run_node, run_onnx

(ROW,) = IMPLEMENTATIONS
NO_PADS: Pads = (0, 0, 0, 0)


def pointwise(
    image: Pair,
    inputs: int,
    outputs: int,
    *,
    stride: Pair = (1, 1),
    groups: int = 1,
    batch: int = 1,
    has_bias: bool = True,
    epilogue: Epilogue | None = None,
) -> Case:
    """Return a 1x1 convolution."""
    return Case(
        image=image,
        inputs=inputs,
        outputs=outputs,
        kernel=(1, 1),
        pads=NO_PADS,
        stride=stride,
        groups=groups,
        batch=batch,
        has_bias=has_bias,
        epilogue=epilogue or Epilogue(),
    )


def tile(mr: int, vectors: int, vector: int, *, fetch: int = 0) -> Selection:
    """Return the row with these parameters."""
    parameters = {"MR": mr, "VECTORS": vectors, "VECTOR": vector, "FETCH": fetch}
    return Selection(implementation=ROW, parameters=parameters)


CASES = {
    "one-pixel": pointwise((1, 1), 40, 70),
    "image": pointwise((7, 9), 24, 40),
    "many-channels": pointwise((5, 5), 9, 203),
    "few-channels": pointwise((9, 13), 5, 3),
    "one-channel": pointwise((4, 4), 7, 1),
    "no-bias": pointwise((6, 8), 5, 17, has_bias=False),
    "batch": pointwise((5, 6), 4, 19, batch=3),
    "strided": pointwise((9, 7), 8, 16, stride=(2, 2)),
    "strided-down": pointwise((11, 6), 8, 20, stride=(3, 1)),
    "strided-across": pointwise((6, 11), 8, 20, stride=(1, 3)),
    "strided-long-rows": pointwise((5, 61), 8, 36, stride=(2, 2)),
    "groups-narrow": pointwise((10, 9), 12, 20, groups=4),
    "groups-of-a-vector": pointwise((6, 7), 12, 64, groups=4),
    "groups-beyond-a-vector": pointwise((6, 7), 10, 68, groups=2),
    "groups-of-one-input": pointwise((6, 7), 5, 15, groups=5),
    "groups-strided": pointwise((9, 9), 6, 56, groups=2, stride=(2, 2)),
    "many-tiles-an-item": pointwise((33, 31), 2, 50),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_agrees_with_onnx_runtime_and_cuts_keep_bits(device: Device, case: Case) -> None:
    graph, feeds, reference = build(case)
    assert choose(graph.nodes[0], graph, device.info).implementation is ROW
    shape = reference.shape
    slices = [
        *cut(shape, 0, [1]),
        *cut(shape, 1, [1, 5, shape[1] // 2, shape[1] - 1]),
        *cut(shape, 2, [1, shape[2] // 2, shape[2] - 1]),
        *cut(shape, 3, [shape[3] // 3]),
        Region.whole(shape).cut(1, shape[1] // 3, shape[1]).cut(2, shape[2] // 2, shape[2]),
        Region.whole(shape).cut(1, 0, -(-shape[1] // 2)).cut(3, 0, max(1, shape[3] - 1)),
    ]
    assert_right(device, graph, feeds, reference, slices=[s for s in slices if not s.is_empty])


@pytest.mark.parametrize("name", ["image", "batch", "strided", "groups-beyond-a-vector"])
def test_dense_storage_gives_the_bits_of_spaced_storage(device: Device, name: str) -> None:
    graph, feeds, _ = build(CASES[name])
    spaced = run_node(device, graph, feeds, gap=3)
    shape = spaced.shape
    for region in (Region.whole(shape), *cut(shape, 2, [1]), *cut(shape, 3, [2]), *cut(shape, 1, [7])):
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
    graph, feeds, reference = build(pointwise((1, pixels), 6, outputs))
    slices = [*cut(reference.shape, 1, [outputs // 2]), *cut(reference.shape, 3, [pixels // 2])]
    assert_right(device, graph, feeds, reference, slices=slices, selection=tile(4, 2, 4))


@pytest.mark.parametrize(
    "parameters", [(14, 1, 16), (5, 5, 16), (3, 4, 8), (9, 3, 4)], ids=lambda p: "x".join(map(str, p))
)
def test_every_tile_gives_the_bits_of_the_implicit_gemm(
    device: Device, parameters: tuple[int, int, int]
) -> None:
    graph, feeds, reference = build(pointwise((5, 7), 20, 140, groups=2))
    (node,) = graph.nodes
    usual = IMPLICIT_GEMM[-1].accepts(node, graph, device.info)
    assert usual is not None
    selection = Selection(implementation=IMPLICIT_GEMM[-1], parameters=usual)
    value = run_node(device, graph, feeds, selection=tile(*parameters))
    np.testing.assert_array_equal(value, run_node(device, graph, feeds, selection=selection))
    slices = [*cut(reference.shape, 1, [9, 70, 90]), *cut(reference.shape, 2, [2])]
    assert_right(device, graph, feeds, reference, slices=slices, selection=tile(*parameters))


@pytest.mark.parametrize(
    "image", [pytest.param((1, 3), id="one-tile"), pytest.param((6, 7), id="more-tiles-than-vectors")]
)
def test_asking_for_weights_ahead_keeps_bits(device: Device, image: Pair) -> None:
    if not can_fetch(device.info):
        pytest.skip("the device knows no way to ask for memory ahead")
    graph, feeds, reference = build(pointwise(image, 40, 200))
    plain, fetching = tile(4, 3, 8), tile(4, 3, 8, fetch=1)
    value = run_node(device, graph, feeds, selection=fetching)
    np.testing.assert_array_equal(value, run_node(device, graph, feeds, selection=plain))
    slices = [*cut(reference.shape, 1, [9, 70]), *cut(reference.shape, 3, [2])]
    assert_right(device, graph, feeds, reference, slices=slices, selection=fetching)


@pytest.mark.parametrize(
    ("image", "stride"),
    [pytest.param((4, 5), (1, 1), id="line"), pytest.param((3, 53), (2, 2), id="rows")],
)
@pytest.mark.parametrize("epilogue", EPILOGUES.values(), ids=EPILOGUES)
def test_epilogues(device: Device, epilogue: Epilogue, image: Pair, stride: Pair) -> None:
    graph, feeds, reference = build(pointwise(image, 6, 35, stride=stride, epilogue=epilogue))
    slices = [*cut(reference.shape, 1, [3, 16, 18]), *cut(reference.shape, 2, [1])]
    assert_right(device, graph, feeds, reference, slices=slices)


def test_passes_nan_and_infinity_on(device: Device) -> None:
    relu = Epilogue(activation=Activation(kind=ActivationKind.RELU))
    graph, feeds, _ = build(pointwise((4, 6), 3, 20, epilogue=relu))
    feeds["x"][0, 0, 1, 1] = np.nan
    feeds["x"][0, 1, 3, 5] = np.inf
    conv = helper.make_node("Conv", ["x", "w", "b"], ["c"])
    reference = run_onnx([conv, helper.make_node("Relu", ["c"], ["y"])], {**feeds, **graph.constants})
    np.testing.assert_allclose(run_node(device, graph, feeds), reference, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("width", [1, 4, 8, 16, 32])
def test_chooses_a_tile_that_fits_the_registers(width: int) -> None:
    info = device_info(width)
    for rows, channels, depth in product((1, 49, 12544), (1, 24, 34, 2048), (3, 64, 2048)):
        chosen = choose_tile(info, rows=rows, channels=channels, depth=depth)
        assert is_tile(chosen, info)
        assert all(chosen[name] in values for name, values in ALLOWED_TILES.items())


@pytest.mark.parametrize("rows", [49, 784, 1024])
def test_who_asks_for_no_weights_ahead_reads_fewer_in_a_step(rows: int) -> None:
    asking, waiting = (
        choose_tile(device_info(16), rows=rows, channels=1024, depth=1024, prefetches=prefetches)
        for prefetches in (True, False)
    )
    assert waiting["VECTORS"] <= asking["VECTORS"]
    assert is_tile(waiting, device_info(16))


@pytest.mark.parametrize(("channels", "depth"), [(256, 64), (512, 128), (512, 256)])
def test_residuals_are_read_by_whole_lines(channels: int, depth: int) -> None:
    chosen = choose_tile(device_info(8), rows=784, channels=channels, depth=depth, has_residual=True)
    assert chosen["VECTORS"] * chosen["VECTOR"] % 16 == 0


@pytest.mark.parametrize("units", [1, 2, 3, 16])
@pytest.mark.parametrize("image", [(1, 1), (7, 7), (14, 14), (28, 28), (56, 56)], ids=str)
@pytest.mark.parametrize("outputs", [24, 320, 1024])
def test_shares_work_among_units(outputs: int, image: Pair, units: int) -> None:
    graph, _, reference = build(pointwise(image, 96, outputs))
    (node,) = graph.nodes
    info = replace(device_info(16), units=units)
    parameters = ROW.accepts(node, graph, info)
    assert parameters is not None
    whole = Boxes.of([Region.whole(reference.shape)])
    (batch,) = ROW.describe(node, graph, whole, info, parameters)
    tiles, panels = -(-image[0] * image[1] // parameters["MR"]), int(batch.scalars["panels"][0])
    names = ("item_tiles", "item_panels", "part_tiles", "part_panels")
    item_tiles, item_panels, part_tiles, part_panels = (int(batch.scalars[name][0]) for name in names)
    parts = -(-tiles // part_tiles) * -(-panels // part_panels)
    assert batch.global_size[0].tolist() == [
        -(-part_tiles // item_tiles),
        -(-part_panels // item_panels),
        parts,
    ]
    assert item_tiles >= min(parameters["VECTORS"] * parameters["FETCH"], part_tiles)
    busiest = int(batch.units["tiles"][0])
    assert tiles * panels / units <= busiest <= 1.25 * tiles * panels / units + parameters["VECTORS"] * panels


def test_units_take_panels_of_their_own_where_weights_are_most() -> None:
    info = replace(device_info(16), units=2)
    shares = []
    for image in ((14, 14), (56, 56)):
        graph, _, reference = build(pointwise(image, 256, 1024))
        (node,) = graph.nodes
        parameters = choose(node, graph, info).parameters
        whole = Boxes.of([Region.whole(reference.shape)])
        (batch,) = ROW.describe(node, graph, whole, info, parameters)
        shares.append(batch.scalars["part_panels"][0] / batch.scalars["panels"][0])
    assert shares == [0.5, 1.0]


def test_units_have_items_enough_to_take_from_each_other() -> None:
    graph, _, reference = build(pointwise((56, 56), 64, 256))
    (node,) = graph.nodes
    whole = Boxes.of([Region.whole(reference.shape)])
    for units in (2, 4):
        info = replace(device_info(16), units=units)
        (batch,) = ROW.describe(node, graph, whole, info, choose(node, graph, info).parameters)
        assert batch.steals
        assert batch.global_size[0].prod() >= STOLEN_ITEMS * units


def test_gpus_take_many_small_work_items() -> None:
    graph, _, reference = build(pointwise((56, 56), 64, 256))
    (node,) = graph.nodes
    whole = Boxes.of([Region.whole(reference.shape)])
    items = []
    for kind, units in ((DeviceKind.CPU, 1), (DeviceKind.GPU, 64)):
        info = replace(device_info(4), kind=kind, units=units)
        parameters = ROW.accepts(node, graph, info)
        assert parameters is not None
        (batch,) = ROW.describe(node, graph, whole, info, parameters)
        items.append(int(batch.global_size[0].prod()))
    assert items[1] > 2 * 64 * items[0]


def test_counts_the_work_of_each_candidate(device: Device) -> None:
    graph, _, reference = build(pointwise((20, 20), 8, 64))
    (node,) = graph.nodes
    selection = choose(node, graph, device.info)
    halves = Boxes.of(cut(reference.shape, 2, [10]))
    whole = Boxes.of([Region.whole(reference.shape)])
    (part,) = ROW.describe(node, graph, halves, device.info, selection.parameters)
    (all_of_it,) = ROW.describe(node, graph, whole, device.info, selection.parameters)
    assert part.flops.tolist() == [all_of_it.flops[0] // 2] * 2
    assert (part.units["steps"] < all_of_it.units["steps"]).all()
    assert part.written_bytes.sum() == all_of_it.written_bytes[0]

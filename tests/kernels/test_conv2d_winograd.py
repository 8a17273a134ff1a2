"""Minimal filtering on every device, in each arrangement: tile edges, padding, epilogues, cuts, accuracy."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from codl.catalog.candidates import iterate_candidates
from codl.catalog.choose import choose
from codl.catalog.rows import conv2d_winograd, conv2d_winograd_streamed
from codl.catalog.spec import Implementation, Parameters, Selection
from codl.catalog.winograd_streamed import most_tiles, pack_taps, share_tiles
from codl.catalog.winograd_tile import depth_of, fits_local, most_local_bytes
from codl.devices.opencl import Device
from codl.ir.graph import FLOAT_BYTES, FloatArray, Graph
from codl.ir.ops import Conv2d, Epilogue
from codl.ir.regions import Boxes, Region
from codl.latency.features import FEATURES, extract_features
from tests.catalog.nodes import device_info
from tests.kernels.convolutions import Case, build
from tests.kernels.harness import EPILOGUES, assert_right, cut, one_node_graph, run_node
from tests.oracle import OPERATOR_TOLERANCE, relative_error

FUSED, STAGED = conv2d_winograd.IMPLEMENTATIONS
(STREAMED,) = conv2d_winograd_streamed.IMPLEMENTATIONS
IMPLEMENTATIONS = (FUSED, STAGED, STREAMED)
EACH_ROW = pytest.mark.parametrize("row", IMPLEMENTATIONS, ids=["fused", "staged", "streamed"])
SMALL: Parameters = {"TILE": 4, "FETCH": 0, "MR": 4, "NR": 8, "VECTOR": 4}


def winograd(**facts: object) -> Case:
    """Return a 3x3 convolution that may be computed in tiles of 4."""
    usual: dict[str, object] = {"image": (11, 14), "inputs": 8, "outputs": 16, "tile": (4, 4)}
    return Case(**(usual | facts))  # type: ignore[arg-type]


def select(row: Implementation, **parameters: int) -> Selection:
    """Return a row with these parameters and small ones besides."""
    known = {**SMALL, "NR": 4, "DEPTH": 32} if row is STREAMED else SMALL  # fits 32 KiB
    return Selection(implementation=row, parameters={**known, **parameters})


def fits(selection: Selection, graph: Graph, device: Device) -> bool:
    """Return whether the device has the local memory, and knows the instructions, that a selection takes."""
    decide = selection.implementation.fits
    assert decide is not None
    return decide(graph.nodes[0], graph, device.info, selection.parameters)


def has_room(device: Device, selection: Selection) -> bool:
    """Return whether local memory holds the filters and products of a streamed register tile."""
    return most_tiles(selection.parameters, most_local_bytes(device.info)) > 0


def cuts_of(shape: tuple[int, ...]) -> list[Region]:
    """Return slices along every axis, on the grid and off it, and one off it on all sides."""
    slices = [
        *cut(shape, 0, [1]),
        *cut(shape, 1, [1, shape[1] // 2, shape[1] - 1]),
        *cut(shape, 2, [1, 4, shape[2] // 2, shape[2] - 1]),
        *cut(shape, 3, [3, shape[3] // 2]),
        Region.whole(shape).cut(1, 3, 7).cut(2, 2, 5).cut(3, 1, shape[3] - 1),
    ]
    return [region for region in slices if not region.is_empty]


CASES = {
    "usual": winograd(),
    "one-tile": winograd(image=(3, 2)),
    "oblong-small-window": winograd(image=(7, 9), kernel=(2, 3), pads=(1, 1, 0, 1)),
    "several-blocks-of-channels": winograd(image=(6, 9), inputs=75),
    "whole-tiles": winograd(image=(8, 12)),
    "many-tiles": winograd(image=(27, 33), inputs=4, outputs=20),
    "no-padding": winograd(pads=(0, 0, 0, 0)),
    "padding-at-one-side": winograd(pads=(2, 0, 1, 3)),
    "wide-padding": winograd(image=(5, 6), pads=(5, 6, 7, 5)),
    "batch-without-bias": winograd(image=(6, 9), batch=3, has_bias=False),
    "parts-of-vectors": winograd(inputs=11),
    "less-than-a-vector": winograd(inputs=3, kernel=(5, 5), pads=(2, 2, 2, 2)),
    "few-outputs": winograd(outputs=3),
    "many-panels": winograd(image=(5, 5), outputs=70),
    "window-of-4-parts": winograd(image=(13, 9), kernel=(5, 5), pads=(2, 2, 2, 2)),
    "window-of-9-parts": winograd(image=(10, 15), kernel=(7, 7), pads=(3, 3, 3, 3)),
    "window-of-whole-parts": winograd(image=(9, 6), kernel=(9, 6), pads=(4, 2, 4, 3)),
    "oblong-window": winograd(image=(12, 11), kernel=(3, 8), pads=(0, 1, 2, 7)),
    "window-larger-than-image": winograd(image=(3, 4), kernel=(7, 7), pads=(6, 3, 5, 4)),
}


@EACH_ROW
@pytest.mark.parametrize("tile", [2, 3, 4])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_agrees_with_onnx_runtime_and_cuts_keep_bits(
    device: Device, row: Implementation, case: Case, tile: int
) -> None:
    graph, feeds, reference = build(replace(case, tile=(3, 3)) if tile == 3 else case)
    selection = select(row, TILE=tile)
    depth = depth_of(graph.nodes[0], graph, tile=tile, lanes=SMALL["VECTOR"])
    if row is FUSED and not fits_local(depth, selection.parameters, most_local_bytes(device.info)):
        pytest.skip(f"{device.info.name} has too little local memory")
    if row is STREAMED and (tile == 3 or max(case.kernel) > 3 or not has_room(device, selection)):
        pytest.skip("windows of up to 3 x 3 in tiles of 2 and 4, where local memory holds their products")
    assert_right(device, graph, feeds, reference, slices=cuts_of(reference.shape), selection=selection)


@EACH_ROW
@pytest.mark.parametrize(
    "columns", [pytest.param(n, id=name) for name, n in {"lt": 13, "eq": 16, "div": 32, "gt": 17}.items()]
)
@pytest.mark.parametrize(
    "outputs", [pytest.param(n, id=name) for name, n in {"lt": 5, "eq": 8, "div": 24, "gt": 9}.items()]
)
def test_tile_edges(device: Device, row: Implementation, columns: int, outputs: int) -> None:
    graph, feeds, reference = build(winograd(image=(4, columns), outputs=outputs))
    slices = [*cut(reference.shape, 1, [outputs // 2]), *cut(reference.shape, 3, [columns // 2])]
    assert_right(device, graph, feeds, reference, slices=slices, selection=select(row))


@EACH_ROW
@pytest.mark.parametrize(
    "parameters",
    [
        (2, 0, 6, 16, 8),
        (4, 0, 4, 8, 8),
        (4, 1, 14, 32, 16),
        (2, 1, 8, 16, 16),
        (2, 1, 9, 48, 16),
        (4, 0, 10, 4, 4),
    ],
    ids=lambda p: "x".join(map(str, p)),
)
def test_every_register_tile_gives_the_same_bits(
    device: Device, row: Implementation, parameters: tuple[int, int, int, int, int]
) -> None:
    graph, feeds, reference = build(winograd(inputs=80, outputs=40))
    tile, fetch, mr, nr, vector = parameters
    depth = {"DEPTH": 64} if row is STREAMED else {}
    chosen = select(row, TILE=tile, FETCH=fetch, MR=mr, NR=nr, VECTOR=vector, **depth)
    if not fits(chosen, graph, device):
        pytest.skip(f"{device.info.name} has too little local memory, or does not fetch ahead")
    usual = run_node(device, graph, feeds, selection=select(row, TILE=tile))
    np.testing.assert_array_equal(usual, run_node(device, graph, feeds, selection=chosen))
    assert_right(device, graph, feeds, reference, selection=chosen)


def test_arrangements_of_packed_filters_give_the_same_bits(device: Device) -> None:
    graph, feeds, _ = build(winograd())
    fused, staged = (run_node(device, graph, feeds, selection=select(row)) for row in (FUSED, STAGED))
    np.testing.assert_array_equal(fused, staged)


@pytest.mark.parametrize("epilogue", EPILOGUES.values(), ids=EPILOGUES)
def test_epilogues(device: Device, epilogue: Epilogue) -> None:
    graph, feeds, reference = build(winograd(image=(5, 6), outputs=13, weight=0.25, epilogue=epilogue))
    slices = [*cut(reference.shape, 1, [3, 8]), *cut(reference.shape, 2, [3])]
    for row in IMPLEMENTATIONS:
        assert_right(device, graph, feeds, reference, slices=slices, selection=select(row))


def test_dense_storage_gives_the_bits_of_spaced_storage(device: Device) -> None:
    graph, feeds, _ = build(winograd())
    for row in IMPLEMENTATIONS:
        dense, spaced = (run_node(device, graph, feeds, gap=gap, selection=select(row)) for gap in (0, 3))
        np.testing.assert_array_equal(dense, spaced)


@pytest.mark.parametrize("channels", [32, 128, 512])
@pytest.mark.parametrize("kernel", [3, 5, 7])
def test_stays_close_to_exact_sums(device: Device, kernel: int, channels: int) -> None:
    pads = 4 * (kernel // 2,)
    case = winograd(
        image=(20, 20), inputs=channels, outputs=32, kernel=(kernel, kernel), pads=pads, tile=(12, 12)
    )
    graph, feeds, _ = build(case)
    exact = sum_exactly(feeds["x"], graph.constants["w"], graph.constants["b"])
    for row in IMPLEMENTATIONS:
        for tile in (2, 3, 4):
            selection = select(row, TILE=tile)
            if fits(selection, graph, device):
                value = run_node(device, graph, feeds, selection=selection)
                assert relative_error(value, exact) <= OPERATOR_TOLERANCE


def sum_exactly(x: FloatArray, weight: FloatArray, bias: FloatArray) -> FloatArray:
    """Return a convolution as large as its input, summed in float64."""
    kernel = weight.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), *((side // 2, side // 2) for side in kernel))).astype(np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=(2, 3))
    total = np.einsum("nchwij,ocij->nohw", windows, weight.astype(np.float64), optimize=True)
    return np.asarray(total + bias[:, None, None], np.float32)


@pytest.mark.parametrize(
    ("side", "channels", "tile", "chosen"),
    [(28, 64, 4, FUSED), (14, 128, 2, FUSED), (28, 1024, 4, STAGED), (28, 64, 1, None), (2, 512, 2, None)],
    ids=["large", "middle", "deep", "untiled", "small"],
)
def test_is_chosen_where_it_saves_work(
    side: int, channels: int, tile: int, chosen: Implementation | None
) -> None:
    shape = (1, channels, side, side)
    weight = np.zeros((channels, channels, 3, 3), np.float32)
    op = Conv2d(kernel=(3, 3), pads=(1, 1, 1, 1), tile=(tile, tile))
    graph = one_node_graph(op, {"x": shape, "w": weight}, shape, constants=["w"])
    row = choose(graph.nodes[0], graph, device_info(16)).implementation
    assert row == chosen if chosen else row not in IMPLEMENTATIONS


@pytest.mark.parametrize(
    ("side", "channels", "kernel", "chosen"),
    [(14, 512, 3, STREAMED), (28, 64, 3, FUSED), (14, 64, 5, FUSED), (160, 256, 3, FUSED)],
    ids=["deep", "small-filters", "large-window", "much-to-move"],
)
def test_filters_that_come_from_memory_are_streamed(
    side: int, channels: int, kernel: int, chosen: Implementation
) -> None:
    shape, pads = (1, channels, side, side), 4 * (kernel // 2,)
    weight = np.zeros((channels, channels, kernel, kernel), np.float32)
    op = Conv2d(kernel=(kernel, kernel), pads=pads, tile=(4, 4))
    graph = one_node_graph(op, {"x": shape, "w": weight}, shape, constants=["w"])
    info = device_info(8)
    assert choose(graph.nodes[0], graph, info).implementation == chosen


@pytest.mark.parametrize("local_bytes", [128 << 10, 256 << 10, 1 << 20])
def test_tiles_are_shared_evenly_within_local_memory(local_bytes: int) -> None:
    parameters = {"TILE": 4, "DEPTH": 32, "MR": 4, "NR": 16, "VECTOR": 8}
    bands, panels = np.array([1, 4, 13, 200, 4, 4]), np.array([1, 11, 16, 8, 1, 3])
    for units in (1, 2, 16):
        tiles, items = share_tiles(bands, panels, parameters, local_bytes=local_bytes, units=units)
        groups = -(-4 * bands // tiles)
        assert (tiles <= most_tiles(parameters, local_bytes)).all()
        assert (items == -(-groups * panels // units)).all()
        assert ((groups - 1) * tiles < 4 * bands).all()
    assert (groups * panels)[4] > 1  # one panel, but 16 units to compute it


def test_candidates_of_streamed_filters_fit_local_memory() -> None:
    shape, weight = (1, 256, 14, 14), np.zeros((256, 256, 3, 3), np.float32)
    op = Conv2d(kernel=(3, 3), pads=(1, 1, 1, 1), tile=(4, 4))
    graph = one_node_graph(op, {"x": shape, "w": weight}, shape, constants=["w"])
    info = replace(device_info(8), local_memory_bytes=256 << 10)
    found = list(iterate_candidates(graph.nodes[0], graph, info, (STREAMED,)))
    assert {one.parameters["DEPTH"] for one in found} == {32, 64}
    assert {one.parameters["TILE"] for one in found} == {2, 4}
    for selection in found:
        batches = STREAMED.describe(graph.nodes[0], graph, Boxes.whole(shape, 1), info, selection.parameters)
        floats = [int(batch.local[0]) for batch in batches if batch.local is not None]
        assert FLOAT_BYTES * max(floats) <= info.local_memory_bytes


def test_taps_lie_channel_by_channel() -> None:
    weight = np.arange(3 * 2 * 2 * 3, dtype=np.float32).reshape(3, 2, 2, 3)
    constants = {"w": weight, "b": np.array([7, 8, 9], np.float32)}
    packed = pack_taps(constants, names=("w", "b"), nr=2, inputs=4)
    assert packed.shape == (2, 1 + 4 * 9, 2)
    np.testing.assert_array_equal(packed[:, 0], [[7, 8], [9, 0]])
    taps = packed[:, 1:].reshape(2, 4, 3, 3, 2)
    np.testing.assert_array_equal(taps[0, 1, :2, :, 1], weight[1, 1])
    assert not taps[:, 2:].any()
    assert not taps[:, :, 2].any()


@pytest.mark.parametrize("fetch", [0, 1])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_staged_panels_are_multiplied_as_far_as_boxes_reach(device: Device, width: int, fetch: int) -> None:
    graph, feeds, reference = build(winograd(image=(9, 9), outputs=40))
    chosen = select(STAGED, MR=5, NR=8 * width, VECTOR=8, FETCH=fetch)
    if not fits(chosen, graph, device):
        pytest.skip(f"{device.info.name} cannot ask for memory ahead")
    slices = [region for place in (8, 16, 19, 24, 32) for region in cut(reference.shape, 1, [place])]
    assert_right(
        device,
        graph,
        feeds,
        reference,
        slices=[*slices, Region.whole(reference.shape).cut(1, 11, 13)],
        selection=chosen,
    )


@pytest.mark.parametrize("place", [16, 32, 48, 64])
def test_staged_cuts_between_vectors_cost_no_products(place: int) -> None:
    graph, _, reference = build(winograd(outputs=80, tile=(4, 4)))
    parameters, info = select(STAGED, MR=8, NR=48, VECTOR=16).parameters, replace(device_info(16), units=1)
    assert STAGED.cuts_panels

    def count_steps(boxes: Sequence[Region]) -> list[int]:
        batches = STAGED.describe(graph.nodes[0], graph, Boxes.of(boxes), info, parameters)
        steps: list[int] = batches[1].units["steps"].tolist()
        return steps

    (whole,) = count_steps([Region.whole(reference.shape)])
    assert count_steps(cut(reference.shape, 1, [place])) == [whole * place // 80, whole - whole * place // 80]


def test_cores_that_steal_have_half_of_the_products_each() -> None:
    graph, _, _ = build(winograd(image=(32, 32), inputs=96, outputs=13 * 16, tile=(4, 4)))
    parameters, info = select(STAGED, MR=8, NR=16, VECTOR=16).parameters, replace(device_info(16), units=2)
    shape, panels = graph.shape(graph.nodes[0].output), np.arange(1, 14)
    boxes = Boxes.whole(shape, len(panels)).with_axis(1, 0, panels * 16)
    batch = STAGED.describe(graph.nodes[0], graph, boxes, info, parameters)[1]

    item_panels, groups = batch.scalars["item_panels"], batch.global_size[:, 0]
    assert (groups > 1).any()
    assert (groups * item_panels - panels < groups).all()  # as even as can be
    np.testing.assert_array_equal(batch.units["steps"], 36 * 96 * 8 * panels / 2)


def test_takes_no_more_scratch_memory_than_boards_lend() -> None:
    side, channels = 512, 1024
    shape = (1, channels, side, side)
    weight = np.broadcast_to(np.float32(0), (channels, channels, 3, 3))
    op = Conv2d(kernel=(3, 3), pads=(1, 1, 1, 1), tile=(4, 4))
    graph = one_node_graph(op, {"x": shape, "w": weight}, shape, constants=["w"])
    for vectors in (4, 8, 16):
        info = device_info(vectors)
        choice = choose(graph.nodes[0], graph, info)
        batches = choice.implementation.describe(
            graph.nodes[0], graph, Boxes.whole(shape, 1), info, choice.parameters
        )
        assert all(batch.scratch is None or batch.scratch[0] <= 1 << 28 for batch in batches)


def test_candidates_fit_the_grid_and_local_memory() -> None:
    info, shape, tiles = device_info(16), (1, 24, 14, 14), set()
    weight = np.zeros((24, 24, 3, 3), np.float32)
    op = Conv2d(kernel=(3, 3), pads=(1, 1, 1, 1), tile=(2, 2))
    graph = one_node_graph(op, {"x": shape, "w": weight}, shape, constants=["w"])
    for selection in iterate_candidates(graph.nodes[0], graph, info, IMPLEMENTATIONS):
        parameters = selection.parameters
        tiles.add(parameters["TILE"])
        batches = selection.implementation.describe(
            graph.nodes[0], graph, Boxes.whole(shape, 1), info, parameters
        )
        assert parameters["VECTOR"] in (4, 8)
        floats = [int(batch.local[0]) for batch in batches if batch.local is not None]
        assert FLOAT_BYTES * max(floats, default=0) <= info.local_memory_bytes
    assert tiles == {2}


@EACH_ROW
@pytest.mark.parametrize("tile", [2, 3, 4])
def test_features_count_the_products_of_all_tiles(row: Implementation, tile: int) -> None:
    graph, _, reference = build(winograd(tile=(12, 12)))
    parameters, info = select(row, TILE=tile).parameters, device_info(16)
    batches = row.describe(graph.nodes[0], graph, Boxes.whole(reference.shape, 1), info, parameters)
    (products,) = (batch for batch in batches if "steps" in batch.units)
    found = dict(zip(FEATURES, extract_features((products,), parameters, info).values[0], strict=True))
    vectors = parameters["NR"] // parameters["VECTOR"]
    assert found["products"] == products.units["steps"] * parameters["MR"] * vectors
    assert found["stores"] == products.units["tiles"] * parameters["MR"] * vectors


@EACH_ROW
def test_counts_the_work_of_each_candidate(device: Device, row: Implementation) -> None:
    graph, _, reference = build(winograd(image=(40, 40)))
    (node,) = graph.nodes
    boxes: Iterable[Boxes] = (
        Boxes.of(cut(reference.shape, 2, [20])),
        Boxes.of([Region.whole(reference.shape)]),
    )
    info = replace(device.info, units=2)  # with more, a half takes as many waves as the whole
    launches = [row.describe(node, graph, each, info, select(row).parameters) for each in boxes]
    halves, whole = (next(batch for batch in batches if "steps" in batch.units) for batches in launches)
    assert halves.flops.tolist() == [whole.flops[0] // 2] * 2
    assert (halves.units["steps"] < whole.units["steps"]).all()
    assert launches[0][-1].written_bytes.sum() == launches[1][-1].written_bytes[0]

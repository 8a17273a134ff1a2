"""Minimal filtering of large windows over few channels on every device: phases, edges, cuts, accuracy."""

import numpy as np
import pytest

from codl.catalog.choose import choose
from codl.catalog.rows.conv2d_winograd_patch import IMPLEMENTATIONS
from codl.catalog.spec import Parameters, Selection
from codl.devices.opencl import Device
from codl.frontend.tiling import mark_tiles
from codl.ir.graph import Graph
from codl.ir.ops import Conv2d, Epilogue
from codl.ir.regions import Region
from tests.catalog.nodes import device_info
from tests.kernels.convolutions import Case, build
from tests.kernels.harness import EPILOGUES, assert_right, cut, one_node_graph, run_node
from tests.oracle import OPERATOR_TOLERANCE, relative_error

(ROW,) = IMPLEMENTATIONS
SMALL: Parameters = {"TILE": 3, "MR": 4, "NR": 4, "VECTOR": 4}  # fits 32 KiB


def select(**parameters: int) -> Selection:
    """Return the row with these parameters and small ones besides."""
    return Selection(implementation=ROW, parameters={**SMALL, **parameters})


def fits(selection: Selection, graph: Graph, device: Device) -> bool:
    """Return whether the device has the local memory that a selection takes."""
    assert ROW.fits is not None
    return ROW.fits(graph.nodes[0], graph, device.info, selection.parameters)


def strided(**facts: object) -> Case:
    """Return a 7x7 convolution of stride 2 that may be computed in tiles of 3."""
    usual: dict[str, object] = {
        "image": (21, 33),
        "inputs": 3,
        "outputs": 10,
        "kernel": (7, 7),
        "stride": (2, 2),
        "pads": (3, 3, 3, 3),
        "tile": (12, 12),
    }
    return Case(**(usual | facts))  # type: ignore[arg-type]


CASES = {
    "usual": strided(),
    "one-tile": strided(image=(4, 5)),
    "several-runs": strided(image=(9, 230)),
    "no-padding": strided(pads=(0, 0, 0, 0)),
    "wide-padding": strided(image=(5, 6), pads=(9, 8, 9, 10)),
    "padding-at-one-side": strided(pads=(2, 0, 1, 5)),
    "batch-without-bias": strided(image=(9, 13), batch=3, has_bias=False),
    "one-input": strided(inputs=1, kernel=(8, 7)),
    "four-inputs": strided(image=(13, 15), inputs=4),
    "phases-without-taps": strided(image=(17, 19), kernel=(5, 3), stride=(3, 4), pads=(1, 2, 3, 1)),
    "oblong-stride": strided(image=(12, 31), kernel=(5, 7), stride=(1, 3)),
    "stride-of-4": strided(image=(39, 47), kernel=(11, 11), stride=(4, 4), pads=(2, 2, 2, 2)),
    "stride-of-1": strided(image=(13, 17), kernel=(9, 9), stride=(1, 1), pads=(4, 4, 4, 4)),
    "window-larger-than-image": strided(image=(3, 4), kernel=(9, 7), pads=(6, 3, 5, 4)),
}


@pytest.mark.parametrize("tile", [2, 3, 4])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_agrees_with_onnx_runtime_and_cuts_keep_bits(device: Device, case: Case, tile: int) -> None:
    graph, feeds, reference = build(case)
    selection = select(TILE=tile)
    if not fits(selection, graph, device):
        pytest.skip(f"{device.info.name} has too little local memory")
    shape = reference.shape
    slices = [
        *cut(shape, 0, [1]),
        *cut(shape, 1, [1, shape[1] // 2, shape[1] - 1]),
        *cut(shape, 2, [1, tile, shape[2] // 2, shape[2] - 1]),
        *cut(shape, 3, [1, shape[3] // 2, shape[3] - 1]),
        Region.whole(shape).cut(1, 1, shape[1]).cut(2, shape[2] // 2, shape[2]).cut(3, 0, shape[3] - 1),
    ]
    slices = [one for one in slices if not one.is_empty]
    assert_right(device, graph, feeds, reference, slices=slices, selection=selection)


@pytest.mark.parametrize(
    "columns", [pytest.param(n, id=name) for name, n in {"lt": 23, "eq": 24, "div": 48, "gt": 25}.items()]
)
@pytest.mark.parametrize(
    "outputs", [pytest.param(n, id=name) for name, n in {"lt": 3, "eq": 4, "div": 12, "gt": 5}.items()]
)
def test_tile_edges(device: Device, columns: int, outputs: int) -> None:
    graph, feeds, reference = build(strided(image=(6, columns), outputs=outputs))
    slices = [*cut(reference.shape, 1, [outputs // 2]), *cut(reference.shape, 3, [columns // 4])]
    assert_right(device, graph, feeds, reference, slices=slices, selection=select())


@pytest.mark.parametrize(
    "parameters",
    [(3, 6, 16, 8), (3, 5, 8, 8), (4, 4, 24, 8), (4, 14, 12, 4), (3, 8, 32, 16), (4, 7, 16, 16)],
    ids=lambda p: "x".join(map(str, p)),
)
def test_every_register_tile_gives_the_same_bits(
    device: Device, parameters: tuple[int, int, int, int]
) -> None:
    graph, feeds, reference = build(strided(outputs=40))
    tile, mr, nr, vector = parameters
    chosen = select(TILE=tile, MR=mr, NR=nr, VECTOR=vector)
    if not fits(chosen, graph, device):
        pytest.skip(f"{device.info.name} has too little local memory")
    usual = run_node(device, graph, feeds, selection=select(TILE=tile))
    np.testing.assert_array_equal(usual, run_node(device, graph, feeds, selection=chosen))
    assert_right(device, graph, feeds, reference, selection=chosen)


@pytest.mark.parametrize("epilogue", EPILOGUES.values(), ids=EPILOGUES)
def test_epilogues(device: Device, epilogue: Epilogue) -> None:
    graph, feeds, reference = build(strided(image=(9, 11), outputs=13, epilogue=epilogue))
    slices = [*cut(reference.shape, 1, [3, 8]), *cut(reference.shape, 2, [2])]
    assert_right(device, graph, feeds, reference, slices=slices, selection=select())


def test_dense_storage_gives_the_bits_of_spaced_storage(device: Device) -> None:
    graph, feeds, _ = build(strided())
    dense, spaced = (run_node(device, graph, feeds, gap=gap, selection=select()) for gap in (0, 3))
    np.testing.assert_array_equal(dense, spaced)


@pytest.mark.parametrize("axis", [2, 3])
def test_what_no_window_of_a_tile_sees_changes_nothing(device: Device, axis: int) -> None:
    graph, feeds, _ = build(strided(pads=(0, 0, 0, 0)))
    before = run_node(device, graph, feeds, selection=select())
    two_tiles = (slice(None),) * axis + (slice(0, 6),)
    unseen = (slice(None),) * axis + (slice(17, None),)  # the odd phase lacks the tap that would see 17
    feeds["x"][unseen] = np.inf
    after = run_node(device, graph, feeds, selection=select())
    np.testing.assert_array_equal(before[two_tiles], after[two_tiles])


@pytest.mark.parametrize(
    ("kernel", "stride"), [(7, 2), (11, 4), (9, 1), (5, 1)], ids=["7x7", "11x11", "9x9", "5x5"]
)
def test_stays_close_to_exact_sums(device: Device, kernel: int, stride: int) -> None:
    case = strided(
        image=(64, 64), outputs=32, kernel=(kernel, kernel), stride=(stride, stride), pads=(0, 0, 0, 0)
    )
    graph, feeds, _ = build(case)
    windows = np.lib.stride_tricks.sliding_window_view(
        feeds["x"].astype(np.float64), (kernel, kernel), axis=(2, 3)
    )
    weight, bias = (graph.constants[name].astype(np.float64) for name in ("w", "b"))
    exact = np.einsum("nchwij,ocij->nohw", windows[:, :, ::stride, ::stride], weight, optimize=True)
    exact += bias[:, None, None]
    for tile in (2, 3, 4):
        selection = select(TILE=tile)
        if fits(selection, graph, device):
            value = run_node(device, graph, feeds, selection=selection)
            assert relative_error(value, exact.astype(np.float32)) <= OPERATOR_TOLERANCE


@pytest.mark.parametrize(
    ("kernel", "stride", "outputs", "lanes", "tile"),
    [
        (7, 2, 64, 8, 3),
        (11, 4, 96, 8, 4),
        (9, 1, 32, 8, 4),
        (3, 2, 64, 8, None),
        (3, 1, 64, 8, None),
        (7, 2, 64, 16, 3),
        (3, 2, 64, 16, None),
    ],
    ids=[
        "7x7",
        "11x11",
        "9x9",
        "small-window",
        "small-window-of-stride-1",
        "many-lanes",
        "many-lanes-small-window",
    ],
)
def test_is_chosen_where_it_saves_half_of_the_products(
    kernel: int, stride: int, outputs: int, lanes: int, tile: int | None
) -> None:
    weight = np.zeros((outputs, 3, kernel, kernel), np.float32)
    op = Conv2d(kernel=(kernel, kernel), stride=(stride, stride))
    side = (224 - kernel) // stride + 1
    graph = one_node_graph(
        op, {"x": (1, 3, 224, 224), "w": weight}, (1, outputs, side, side), constants=["w"]
    )
    graph = mark_tiles(graph)
    chosen = choose(graph.nodes[0], graph, device_info(lanes))
    assert (chosen.parameters["TILE"] if chosen.implementation is ROW else None) == tile

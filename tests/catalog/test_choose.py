"""Which row computes a node, and with which tile."""

from dataclasses import replace

import pytest

from codl.catalog.choose import Rung, choose, explain_choice
from codl.catalog.register_tile import ALLOWED_TILES, choose_tile
from codl.errors import UnsupportedError
from codl.ir.graph import Shape
from codl.ir.ops import Conv2d, MatMul
from codl.machine import DeviceKind
from tests.catalog.nodes import NODES, Sample, conv, device_info, sample
from tests.catalog.test_database import database_of, entry_for


@pytest.mark.parametrize("case", NODES.values(), ids=NODES)
def test_prefers_the_special_row(case: Sample) -> None:
    assert choose(case.node, case.graph, device_info(8)).implementation.name == case.row


def test_names_node_and_operator_when_no_row_accepts() -> None:
    shapes: dict[str, Shape] = {"x": (1, 3, 8, 8), "w": (4, 3, 3, 3)}
    computed = sample(Conv2d(kernel=(3, 3)), shapes, (), (1, 4, 6, 6), "none")
    with pytest.raises(UnsupportedError, match=r"'node'.*Conv2d.*w \[4, 3, 3, 3\]"):
        choose(computed.node, computed.graph, device_info(8))


@pytest.mark.parametrize("vector_width", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("rows", [1, 2, 7, 49, 3136])
@pytest.mark.parametrize("channels", [1, 4, 16, 30, 1000])
@pytest.mark.parametrize("depth", [1, 2000])
def test_tiles_fit_the_registers(vector_width: int, rows: int, channels: int, depth: int) -> None:
    tile = choose_tile(vector_width, rows=rows, channels=channels, depth=depth)
    assert all(tile[name] in allowed for name, allowed in ALLOWED_TILES.items())
    vectors = tile["NR"] // tile["VECTOR"]
    registers = 32 if tile["VECTOR"] == 16 else 16
    assert vectors in {1, 2, 3, 4}
    assert tile["MR"] * vectors + vectors + 1 <= registers


def test_few_channels_take_a_narrow_panel() -> None:
    panels = {n: choose_tile(16, rows=100, channels=n, depth=1000)["NR"] for n in (4, 16, 64)}
    assert panels == {4: 4, 16: 16, 64: 64}


def test_short_sums_take_a_wide_panel_when_it_is_well_filled() -> None:
    panels = {n: choose_tile(16, rows=100, channels=n, depth=27)["NR"] for n in (32, 64, 72, 120)}
    assert panels == {32: 32, 64: 64, 72: 48, 120: 64}


def test_single_rows_take_a_wide_panel() -> None:
    assert choose_tile(16, rows=1, channels=1000, depth=2048) == {"MR": 1, "NR": 64, "VECTOR": 16}
    assert choose_tile(8, rows=1, channels=1000, depth=2048) == {"MR": 1, "NR": 32, "VECTOR": 8}


def test_weights_of_single_rows_are_streams_on_cpus() -> None:
    found = {
        (kind, rows): _choose_streams(rows, kind)
        for kind in (DeviceKind.CPU, DeviceKind.GPU)
        for rows in (1, 8)
    }
    assert {case for case, streams in found.items() if streams} == {(DeviceKind.CPU, 1)}


def _choose_streams(rows: int, kind: DeviceKind) -> int:
    graph = sample(MatMul(), {"a": (rows, 64), "b": (64, 1000)}, ("b",), (rows, 1000), "").graph
    device = replace(device_info(vector_width=16), kind=kind, local_memory_bytes=1 << 15)
    return choose(graph.nodes[0], graph, device).parameters["STREAMS"]


def test_rows_that_crowd_a_few_places_of_the_cache_are_few() -> None:
    rows = {inputs: _choose_rows(inputs, 1) for inputs in (512, 1024, 1040, 2048)}
    assert max(rows[inputs] for inputs in (1024, 2048)) <= 8 < rows[1040]
    assert rows[512] == _choose_rows(528, 1)
    assert _choose_rows(512, 2) <= 8


def _choose_rows(inputs: int, stride: int) -> int:
    """Return the pixels of a tile of a 1x1 convolution to 14 x 14 pixels of 256 channels."""
    size = 14 * stride
    shapes: dict[str, Shape] = {"x": (1, inputs, size, size), "w": (256, inputs, 1, 1)}
    computed = sample(Conv2d(kernel=(1, 1), stride=(stride, stride)), shapes, ("w",), (1, 256, 14, 14), "")
    device = replace(device_info(vector_width=16), units=2)
    return choose(computed.node, computed.graph, device).parameters["MR"]


def test_many_filters_take_small_tiles_of_a_small_image_where_registers_are_many() -> None:
    assert [_choose_tile(*case, width=16) for case in ((128, 256, 14), (512, 512, 14))] == [4, 2]
    assert [_choose_tile(*case, width=8) for case in ((128, 256, 14), (512, 1024, 14))] == [4, 4]
    assert _choose_tile(512, 1024, 28, width=16) == 4


def _choose_tile(inputs: int, outputs: int, size: int, *, width: int) -> int:
    """Return the tile in which a 3x3 convolution marked for tiles of 4 is computed."""
    case = conv(inputs, outputs, size, tile=4)
    return choose(case.node, case.graph, device_info(width)).parameters["TILE"]


def test_long_products_of_few_pixels_are_blocked_where_registers_are_many() -> None:
    case = sample(
        Conv2d(kernel=(1, 1)), {"x": (1, 512, 7, 7), "w": (256, 512, 1, 1)}, ("w",), (1, 256, 7, 7), ""
    )
    rows = [choose(case.node, case.graph, device_info(width)).implementation.name for width in (16, 8)]
    assert rows == ["conv2d_blocked__buffer", "conv2d_pointwise__buffer"]


@pytest.mark.parametrize("width", [8, 16])
def test_blocks_of_weights_stay_in_the_first_cache(width: int) -> None:
    case = sample(
        Conv2d(kernel=(3, 3), stride=(2, 2), pads=(1, 1, 1, 1)),
        {"x": (1, 512, 14, 14), "w": (512, 512, 3, 3)},
        ("w",),
        (1, 512, 7, 7),
        "",
    )
    choice = choose(case.node, case.graph, device_info(width))
    assert choice.implementation.name == "conv2d_blocked__buffer"
    depth, panel = choice.parameters["DEPTH"], choice.parameters["VECTORS"] * width
    assert 4 * depth * panel <= 24 << 10 < 4 * 2 * depth * panel


def test_takes_what_was_measured_for_the_shape() -> None:
    case = conv(16, 64, 28)
    entry = entry_for(case, MR=2, NR=16, VECTOR=8, FETCH=0)

    choice = explain_choice(case.node, case.graph, device_info(16), database_of(entry))

    assert (choice.rung, choice.entry) == (Rung.EXACT, entry)
    assert choice.selection.parameters == {"MR": 2, "NR": 16, "VECTOR": 8, "FETCH": 0}


def test_takes_what_was_measured_nearby() -> None:
    case, near, nearer = conv(16, 64, 28), conv(16, 128, 28), conv(16, 60, 28)
    entries = (
        entry_for(near, MR=2, NR=16, VECTOR=8, FETCH=0),
        entry_for(nearer, MR=4, NR=32, VECTOR=16, FETCH=0),
    )

    choice = explain_choice(case.node, case.graph, device_info(16), database_of(*entries))

    assert (choice.rung, choice.entry) == (Rung.NEAREST, entries[1])


def test_far_shapes_say_nothing() -> None:
    case, far = conv(16, 64, 28), conv(64, 256, 28)

    choice = explain_choice(case.node, case.graph, device_info(16), database_of(entry_for(far)))

    assert (choice.rung, choice.entry) == (Rung.HEURISTIC, None)


@pytest.mark.parametrize(
    ("row", "tile"),
    [
        ("conv2d_gemm__buffer", {"MR": 3, "NR": 32, "VECTOR": 16, "FETCH": 0}),
        ("conv2d_gemm__buffer", {"MR": 14, "NR": 64, "VECTOR": 16, "FETCH": 0}),
        ("conv2d_gemm__buffer", {"MR": 6, "NR": 32, "FETCH": 0}),
        ("conv2d_gemm__buffer", {"MR": 6, "NR": 32, "VECTOR": 16, "FETCH": 0, "DEBUG": 1}),
        ("depthwise_conv2d_rows__buffer", {"MR": 6, "NR": 16, "VECTOR": 16}),
        ("pool2d_direct__buffer", {"AVERAGE": 0, "VECTOR": 16}),
    ],
    ids=["not-allowed", "too-large", "incomplete", "unknown", "other-convolution", "other-operator"],
)
def test_an_entry_that_cannot_compute_the_node_is_passed_over(row: str, tile: dict[str, int]) -> None:
    case = conv(16, 64, 28)

    choice = explain_choice(case.node, case.graph, device_info(16), database_of(entry_for(case, row, **tile)))

    assert choice.rung is Rung.HEURISTIC
    assert choice.selection == choose(case.node, case.graph, device_info(16))


def test_the_log_tells_how_a_kernel_was_chosen(caplog: pytest.LogCaptureFixture) -> None:
    case = conv(16, 64, 28)
    with caplog.at_level("DEBUG", logger="codl"):
        choose(case.node, case.graph, device_info(16))
        choose(case.node, case.graph, device_info(16), database_of(entry_for(case)))

    assert [record.getMessage().split(": ")[2].split(" ")[0] for record in caplog.records] == [
        "heuristic",
        "exact",
    ]


@pytest.mark.parametrize(
    ("channels", "kind", "width", "lanes"),
    [
        (1024, DeviceKind.CPU, 8, 16),
        (112, DeviceKind.CPU, 8, 16),
        (24, DeviceKind.CPU, 8, 8),
        (12, DeviceKind.CPU, 8, 8),
        (6, DeviceKind.CPU, 8, 4),
        (8, DeviceKind.CPU, 8, 8),
        (1024, DeviceKind.CPU, 4, 4),
        (1024, DeviceKind.CPU, 16, 16),
        (1024, DeviceKind.GPU, 8, 8),
    ],
)
def test_depthwise_vectors_fill_a_line_where_they_spare_little(
    channels: int, kind: DeviceKind, width: int, lanes: int
) -> None:
    case = conv(channels, channels, 14, groups=channels)
    chosen = choose(case.node, case.graph, replace(device_info(width), kind=kind, local_memory_bytes=1 << 15))

    assert chosen.parameters == {"MR": 7, "NR": lanes, "VECTOR": lanes}


@pytest.mark.parametrize(
    ("kind", "width", "height"), [(DeviceKind.CPU, 8, 6), (DeviceKind.CPU, 16, 8), (DeviceKind.GPU, 1, 8)]
)
def test_depthwise_tiles_are_lower_where_a_vector_takes_two_registers(
    kind: DeviceKind, width: int, height: int
) -> None:
    case = conv(64, 64, 16, groups=64)
    chosen = choose(case.node, case.graph, replace(device_info(width), kind=kind, local_memory_bytes=1 << 15))

    assert chosen.parameters["MR"] == height

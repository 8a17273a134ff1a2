"""Which row computes a node, and with which tile."""

import pytest

from codl.catalog.choose import choose
from codl.catalog.register_tile import ALLOWED_TILES, choose_tile
from codl.errors import UnsupportedError
from codl.ir.graph import Shape
from codl.ir.ops import Conv2d
from tests.catalog.nodes import NODES, Sample, device_info, sample


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
    assert vectors in {1, 2, 4}
    assert tile["MR"] * vectors + vectors + 1 <= registers


def test_few_channels_take_a_narrow_panel() -> None:
    panels = {n: choose_tile(16, rows=100, channels=n, depth=1000)["NR"] for n in (4, 16, 64)}
    assert panels == {4: 4, 16: 16, 64: 32}


def test_short_sums_take_a_wide_panel_when_it_is_well_filled() -> None:
    panels = {n: choose_tile(16, rows=100, channels=n, depth=27)["NR"] for n in (32, 64, 72, 120)}
    assert panels == {32: 32, 64: 64, 72: 32, 120: 64}


def test_single_rows_take_a_wide_panel() -> None:
    assert choose_tile(16, rows=1, channels=1000, depth=2048) == {"MR": 1, "NR": 64, "VECTOR": 16}
    assert choose_tile(8, rows=1, channels=1000, depth=2048) == {"MR": 1, "NR": 32, "VECTOR": 8}

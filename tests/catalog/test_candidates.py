"""Everything that could compute a node: allowed, valid for the device, the rows' own choice first."""

from itertools import groupby

import pytest

from codl.catalog.candidates import fits_registers, iterate_candidates
from codl.catalog.choose import choose
from tests.catalog.nodes import NODES, Sample, device_info
from tests.catalog.test_box_rows import SAMPLES

EACH = pytest.mark.parametrize("case", [*NODES.values(), *SAMPLES.values()], ids=[*NODES, *SAMPLES])
EACH_WIDTH = pytest.mark.parametrize("width", [1, 4, 8, 16])


@EACH
@EACH_WIDTH
def test_first_of_each_row_is_its_own_choice(case: Sample, width: int) -> None:
    info = device_info(width)
    found = list(iterate_candidates(case.node, case.graph, info))

    assert found[0] == choose(case.node, case.graph, info)
    for _, group in groupby(found, key=lambda one: one.implementation.name):
        first = next(group)
        assert first.parameters == first.implementation.accepts(case.node, case.graph, info)


@EACH
@EACH_WIDTH
def test_candidates_are_allowed_and_differ(case: Sample, width: int) -> None:
    found = list(iterate_candidates(case.node, case.graph, device_info(width)))

    assert len({str(one) for one in found}) == len(found)
    for one in found:
        assert set(one.parameters) == set(one.implementation.allowed)
        for name, value in one.parameters.items():
            assert value in one.implementation.allowed[name]


@EACH
@EACH_WIDTH
def test_tiles_fit_the_registers(case: Sample, width: int) -> None:
    info = device_info(width)
    own = {str(choose(case.node, case.graph, info))}
    for one in iterate_candidates(case.node, case.graph, info):
        assert str(one) in own or fits_registers(one.parameters, info)


@pytest.mark.parametrize(
    ("tile", "width", "fits"),
    [
        ((14, 32, 16), 16, True),
        ((14, 64, 16), 16, False),
        ((6, 16, 8), 8, True),
        ((8, 16, 8), 8, False),
        ((8, 16, 16), 8, False),
        ((1, 8, 16), 16, False),
        ((1, 64, 8), 16, False),
    ],
)
def test_registers_hold_rows_weights_and_a_value(tile: tuple[int, int, int], width: int, fits: bool) -> None:
    parameters = dict(zip(("MR", "NR", "VECTOR"), tile, strict=True))

    assert fits_registers(parameters, device_info(width)) is fits


def test_what_the_node_fixes_is_not_varied() -> None:
    found = list(iterate_candidates(SAMPLES["pool"].node, SAMPLES["pool"].graph, device_info(16)))

    assert {one.parameters["AVERAGE"] for one in found} == {0}
    assert {one.parameters["VECTOR"] for one in found} == {4, 8, 16}


def test_depthwise_tiles_are_one_vector_wide() -> None:
    case = NODES["depthwise"]
    found = iterate_candidates(case.node, case.graph, device_info(16))

    for one in found:
        if one.implementation.name == case.row:
            assert one.parameters["NR"] == one.parameters["VECTOR"]


@pytest.mark.parametrize("name", ["conv-in-tiles", "conv-in-tiles-deep"])
def test_panels_of_minimal_filtering_have_up_to_three_vectors(name: str) -> None:
    found = iterate_candidates(NODES[name].node, NODES[name].graph, device_info(16))
    tiles = [one.parameters for one in found if "winograd" in one.implementation.name]

    assert {tile["NR"] // tile["VECTOR"] for tile in tiles} == {1, 2, 3}

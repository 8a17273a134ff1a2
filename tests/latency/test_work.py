"""What the busiest compute unit does: partial work-items, taps in the image, sums of means."""

from dataclasses import replace

import numpy as np
import pytest

from codl.catalog.choose import choose
from codl.catalog.spec import LaunchBatch, Parameters, ceil_div
from codl.ir.boxes import Boxes
from codl.ir.graph import Graph, Node
from codl.ir.ops import Affine, Conv2d, LocalResponseNorm, ReduceMean
from codl.ir.regions import find_splittable_axes
from codl.latency.amounts.taps import list_taps, share_inside
from codl.latency.amounts.work import count_items, count_work
from codl.latency.features import extract_features
from codl.machine import DeviceInfo
from tests.catalog.nodes import NODES, device_info, sample

INFO = replace(device_info(8), units=1)
"""With one unit the busiest one does all that there is."""


def describe(
    node: Node, graph: Graph, axis: int, ends: list[int], info: DeviceInfo = INFO
) -> tuple[LaunchBatch, Parameters]:
    boxes = Boxes.whole(graph.shape(node.output), len(ends)).with_axis(axis, 0, np.array(ends))
    chosen = choose(node, graph, info)
    (batch,) = chosen.implementation.describe(node, graph, boxes, info, chosen.parameters)
    return batch, chosen.parameters


@pytest.mark.parametrize("name", NODES)
def test_there_is_never_more_to_do_than_in_full_items(name: str) -> None:
    node, graph = NODES[name].node, NODES[name].graph
    chosen = choose(node, graph, INFO)
    shape = graph.shape(node.output)
    for axis in find_splittable_axes(node, graph):
        ends = np.arange(1, shape[axis] + 1)
        boxes = Boxes.whole(shape, len(ends)).with_axis(axis, 0, ends)
        for batch in chosen.implementation.describe(node, graph, boxes, INFO, chosen.parameters):
            some, full = count_work(batch, chosen.parameters, INFO), count_items(batch)
            assert set(some.units) == set(full.units)
            for unit, amounts in some.units.items():
                assert (amounts > 0).all()
                assert (amounts <= full.units[unit]).all()


def test_tiles_of_a_product_are_those_of_its_rows() -> None:
    node, graph = NODES["matrix-times-constant"].node, NODES["matrix-times-constant"].graph
    rows = list(range(1, 51))
    batch, parameters = describe(node, graph, 1, rows)

    found = count_work(batch, parameters, INFO)

    panels = -(-20 // (parameters["VECTORS"] * parameters["VECTOR"]))
    assert found.units["tiles"] == pytest.approx(4 * panels * ceil_div(np.array(rows), parameters["MR"]))
    assert found.units["items"].tolist() == batch.units["items"].tolist()


def test_lines_are_those_of_the_box() -> None:
    shape = (1, 24, 56, 56)
    one = sample(Affine(), {"x": shape, "s": (24,), "b": (24,)}, ("s", "b"), shape, "")
    rows = list(range(1, 57))
    batch, parameters = describe(one.node, one.graph, 2, rows)

    found = extract_features((batch,), parameters, INFO)

    assert found.select(["lines"])[:, 0] == pytest.approx(56 * np.array(rows))


@pytest.mark.parametrize("units", [2, 3, 5])
def test_units_take_items_when_they_are_done_with_others(units: int) -> None:
    shape = (1, 24, 400, 56)
    one = sample(Affine(), {"x": shape, "s": (24,), "b": (24,)}, ("s", "b"), shape, "")
    info, rows = replace(INFO, units=units), list(range(1, 401))
    batch, parameters = describe(one.node, one.graph, 2, rows, info)
    item_rows, lines = batch.scalars["item_rows"], 56 * np.array(rows)

    found = count_work(batch, parameters, info).units["vectors"]

    assert (lines % item_rows > 0).any()
    for most, item, count in zip(found, item_rows, lines, strict=True):
        loads = [0] * units
        for begin in range(0, count, item):  # the last one is the small one
            loads[loads.index(min(loads))] += min(item, count - begin)
        assert most == pytest.approx(3 * max(loads))  # vectors of eight channels


def test_taps_in_the_image_are_counted() -> None:
    cases = [
        (begin, end, length, window, stride, dilation, pad)
        for begin, end in ((0, 1), (0, 4), (2, 5))
        for length in (5, 9)
        for window, stride, dilation, pad in (
            (3, 1, 1, 1),
            (3, 2, 1, 1),
            (5, 1, 2, 4),
            (1, 1, 1, 0),
            (3, 1, 1, 0),
        )
    ]

    for begin, end, length, window, stride, dilation, pad in cases:
        inside = [
            0 <= place * stride - pad + tap * dilation < length
            for place in range(begin, end)
            for tap in range(window)
        ]
        found = share_inside(
            *np.array([[begin], [end]]),
            length=np.array([length]),
            window=np.array([window]),
            stride=np.array([stride]),
            dilation=np.array([dilation]),
            pad=np.array([pad]),
        )
        assert found == pytest.approx(np.mean(inside))


def test_rows_outside_the_image_have_no_taps() -> None:
    node, graph = NODES["depthwise"].node, NODES["depthwise"].graph
    batch, parameters = describe(node, graph, 2, [1, 2, 13, 14])
    units = count_work(batch, parameters, INFO).units

    found = list_taps(batch, units, parameters, INFO)

    taps = units["steps"] * parameters["MR"]
    assert found["seen_taps"] / taps == pytest.approx(1 - np.array([1 / 3, 1 / 6, 1 / 39, 2 / 42]))
    assert (found["edge_taps"] <= found["seen_taps"]).all()


@pytest.mark.parametrize(
    ("side", "pads", "dilation", "width", "shares"),
    [
        (3, (1, 1), 1, 28, (0.0, 0.0)),
        (3, (0, 0), 1, 28, (0.0, 0.0)),
        (3, (0, 1), 1, 7, (0.0, 0.0)),
        (3, (2, 2), 1, 28, (0.5, 0.0)),
        (3, (1, 1), 1, 4, (1.0, 0.0)),
        (3, (1, 1), 1, 3, (1.0, 1.0)),
        (3, (2, 2), 2, 28, (1.0, 0.0)),
        (5, (2, 2), 1, 28, (1.0, 0.0)),
        (9, (4, 4), 1, 28, (1.0, 0.5)),
    ],
)
def test_windows_of_few_taps_beside_the_image_ask_of_few(
    side: int, pads: tuple[int, int], dilation: int, width: int, shares: tuple[float, float]
) -> None:
    before, behind = pads
    sides = (before, before, behind, behind)
    op = Conv2d(kernel=(side, side), pads=sides, dilation=(dilation, dilation), groups=16)
    inner = width + dilation * (side - 1) - sum(pads)
    shapes = {"x": (1, 16, inner, inner), "w": (16, 1, side, side)}
    one = sample(op, shapes, ("w",), (1, 16, width, width), "")
    batch, parameters = describe(one.node, one.graph, 2, [width])

    found = list_taps(batch, count_work(batch, parameters, INFO).units, parameters, INFO)

    for name, share in zip(("looped_taps", "asked_taps"), shares, strict=True):
        assert found[name] / found["seen_taps"] == pytest.approx(share)


def test_boxes_of_few_channels_are_read_lane_by_lane() -> None:
    node, graph = NODES["depthwise"].node, NODES["depthwise"].graph
    lanes = choose(node, graph, INFO).parameters["VECTOR"]
    batch, parameters = describe(node, graph, 1, [1, lanes - 1, lanes])

    found = list_taps(batch, count_work(batch, parameters, INFO).units, parameters, INFO)

    assert found["lane_taps"] / found["seen_taps"] == pytest.approx(np.array([1, lanes - 1, 0]))


@pytest.mark.parametrize(("width", "is_short"), [(6, False), (7, True), (8, False)])
def test_rows_a_pixel_shorter_than_a_run_are_told_from_others(width: int, is_short: bool) -> None:
    """Of rows shorter than that other taps are counted, those of `narrow` ones."""
    shapes = {"x": (1, 16, width, width), "w": (16, 1, 3, 3)}
    op = Conv2d(kernel=(3, 3), pads=(1, 1, 1, 1), groups=16)
    one = sample(op, shapes, ("w",), (1, 16, width, width), "")
    chosen = choose(one.node, one.graph, INFO)
    parameters = {**chosen.parameters, "MR": 8}
    boxes = Boxes.whole((1, 16, width, width), 1)
    (batch,) = chosen.implementation.describe(one.node, one.graph, boxes, INFO, parameters)

    found = list_taps(batch, count_work(batch, parameters, INFO).units, parameters, INFO)

    assert found["short_taps"] / found["seen_taps"] == pytest.approx(float(is_short))


def test_other_kernels_have_no_such_taps() -> None:
    batch, parameters = describe(NODES["conv-large"].node, NODES["conv-large"].graph, 2, [28])

    assert list_taps(batch, count_work(batch, parameters, INFO).units, parameters, INFO) == {}


def test_vectors_at_either_side_of_the_channels_are_told_from_others() -> None:
    shape = (1, 64, 6, 5)
    one = sample(LocalResponseNorm(size=5, alpha=0.5, beta=0.75, bias=1.0), {"x": shape}, (), shape, "")
    ends = [4, 16, 40, 63, 64]
    batch, parameters = describe(one.node, one.graph, 1, ends)

    found = extract_features((batch,), parameters, INFO)

    lanes = parameters["VECTOR"]
    sides = [0 if end < lanes else 1 if end < 63 else 2 for end in ends]
    assert found.select(["side_vectors"])[:, 0] == pytest.approx(30 * np.array(sides))


@pytest.mark.parametrize("axis", [1, 2])
def test_means_fold_sums_along_the_innermost_axis(axis: int) -> None:
    x, y = (6, 50, 100), (6, 1, 100) if axis == 1 else (6, 50, 1)
    one = sample(ReduceMean(axes=(axis,)), {"x": x}, (), y, "")
    batch, parameters = describe(one.node, one.graph, 0, [6])

    found = extract_features((batch,), parameters, INFO)

    names = ["folded_sums", "folded_vectors", "folded_values", "summed_vectors", "summed_values"]
    folded = [300, 300 * 12, 300 * 4, 0, 0]
    summed = [0, 0, 0, 6 * 13 * 50, 0]
    assert found.select(names)[0].tolist() == (folded if axis == 2 else summed)

"""SliceTables of slices: what they say without asking anybody is what the rules of operators say."""

import pytest

from codl.frontend import load_model
from codl.ir.regions import Boxes, Region, input_regions
from codl.simulator.slices import SliceTables
from tests.simulator.profiles import make_predictors
from tools.networks import build

PREDICTORS = make_predictors()


@pytest.mark.parametrize(
    ("name", "size"), [("resnet50", 64), ("mobilenet_v2", 64), ("retinaface", 64), ("shufflenet", None)]
)
def test_slices_read_what_the_rules_say(name: str, size: int | None) -> None:
    graph = load_model(build(name, **({} if size is None else {"size": size})).SerializeToString()).graph
    tables, known = SliceTables(graph, PREDICTORS), 0
    for node in graph.nodes:
        whole = Region.whole(graph.shape(node.output))
        for axis, length in enumerate(whole.shape):
            for low, high in (
                (0, length // 2),
                (length // 3, length),
                (length // 4, length // 2),
                (0, length),
            ):
                region = whole.cut(axis, low, high)
                found = None if region.is_empty else tables.find_reads(node, region)
                if found is None:
                    continue
                known += region != whole
                reads = zip(node.inputs, found, input_regions(node, graph, region), strict=True)
                for tensor, one, exact in reads:
                    is_nothing = one.is_empty and exact.is_empty
                    assert tensor in graph.constants or one == exact or is_nothing

    assert known > len(graph.nodes)


@pytest.mark.parametrize("name", ["resnet50", "shufflenet", "retinaface"])
def test_slices_take_what_predictors_say(name: str) -> None:
    graph = load_model(build(name).SerializeToString()).graph
    tables, known = SliceTables(graph, PREDICTORS), 0
    for node in graph.nodes:
        whole = Region.whole(graph.shape(node.output))
        for axis, table in tables.find(node).axes.items():
            positions = table.grid.positions
            half, third = (len(positions) // part for part in (2, 3))
            for low, high, index in (
                (0, int(positions[half]), half),
                (int(positions[third]), table.grid.length, len(positions) + third),
            ):
                region = whole.cut(axis, low, high)
                if region.is_empty:
                    continue
                known += region != whole
                found = table.predicted[0, index, 0]
                exact = PREDICTORS[0].predict(node, graph, Boxes.of([region])).us[0]
                assert found == pytest.approx(exact, rel=0.02)

    assert known > len(graph.nodes)


@pytest.mark.parametrize("name", ["resnet50", "retinaface"])
def test_rows_cost_just_what_predictors_say(name: str) -> None:
    graph = load_model(build(name).SerializeToString()).graph
    tables, known = SliceTables(graph, PREDICTORS), 0
    for node in graph.nodes:
        shape = graph.shape(node.output)
        if len(shape) != 4 or 2 not in tables.find(node).axes:
            continue
        whole, height = Region.whole(shape), shape[2]
        for low, high in ((0, height // 2), (0, height // 3), (height // 3, height)):
            region = whole.cut(2, low, high)
            if region.is_empty:
                continue
            found = tables.look_up(node, 1, region)
            prediction = PREDICTORS[1].predict(node, graph, Boxes.of([region]))
            exact = prediction.us[0], prediction.us[0] * prediction.memory_share[0]
            assert found == pytest.approx(exact, rel=1e-12)
            known += region != whole

    assert known > len(graph.nodes)

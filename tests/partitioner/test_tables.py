"""Tables of slices: what they say without asking anybody is what the rules of operators say."""

import pytest

from codl.frontend import load_model
from codl.ir.regions import Boxes, Region, input_regions
from codl.partitioner.tables import Tables
from tests.partitioner.profiles import make_predictors
from tools.networks import build

PREDICTORS = make_predictors()


@pytest.mark.parametrize(
    ("name", "size"), [("resnet50", 64), ("mobilenet_v2", 64), ("retinaface", 64), ("shufflenet", None)]
)
def test_slices_read_what_the_rules_say(name: str, size: int | None) -> None:
    graph = load_model(build(name, **({} if size is None else {"size": size})).SerializeToString()).graph
    tables, known = Tables(graph, PREDICTORS), 0
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
    tables, known = Tables(graph, PREDICTORS), 0
    for node in graph.nodes:
        whole = Region.whole(graph.shape(node.output))
        for axis, length in enumerate(whole.shape):
            for low, high in ((0, length // 2), (length // 3, length)):
                region = whole.cut(axis, low, high)
                found = None if region.is_empty else tables.look_up(node, 0, region)
                if found is None:
                    continue
                known += region != whole
                exact = PREDICTORS[0].predict(node, graph, Boxes.of([region])).us[0]
                assert found[0] == pytest.approx(exact, rel=0.02)

    assert known > len(graph.nodes)

"""Features come from the launch description alone, and grow with the work."""

import numpy as np
import pytest

from codl.catalog.choose import choose
from codl.ir.boxes import Boxes
from codl.ir.ops import Activation, ActivationKind, Epilogue
from codl.latency.amounts.epilogues import Epilogues
from codl.latency.features import Counting, Features, extract_features
from tests.catalog.nodes import NODES, Sample, device_info

INFO = device_info(8)


def features_of(sample: Sample, axis: int, ends: list[int], epilogue: Epilogue | None = None) -> Features:
    node, graph = sample.node, sample.graph
    boxes = Boxes.whole(graph.shape(node.output), len(ends)).with_axis(axis, 0, np.array(ends))
    chosen = choose(node, graph, INFO)
    batches = chosen.implementation.describe(node, graph, boxes, INFO, chosen.parameters)
    return extract_features(
        batches, chosen.parameters, INFO, epilogues=Epilogues.of(epilogue or node.epilogue)
    )


@pytest.mark.parametrize("sample", NODES.values(), ids=NODES)
def test_more_work_never_has_smaller_features(sample: Sample) -> None:
    node, graph = sample.node, sample.graph
    axis = len(graph.shape(node.output)) - 1
    length = graph.shape(node.output)[axis]

    found = features_of(sample, axis, list(range(1, length + 1)))
    edges = ("cut_", "ended_", "slow_", "kept_", "part_", "gathers", "constants")

    assert (found.values >= 0).all()
    for place, name in enumerate(found.names):
        if not name.rpartition(".")[2].startswith(edges):
            assert found.values[-1, place] >= found.values[0, place], name


def test_unit_counts_of_the_catalog_are_features() -> None:
    sample = NODES["conv-large"]
    node, graph = sample.node, sample.graph
    chosen = choose(node, graph, INFO)
    boxes = Boxes.whole(graph.shape(node.output), 1)
    (batch,) = chosen.implementation.describe(node, graph, boxes, INFO, chosen.parameters)

    found = extract_features((batch,), chosen.parameters, INFO, counting=Counting.ITEMS)

    assert set(batch.units) <= set(found.names)
    for name, units in batch.units.items():
        assert found.select([name])[0, 0] == units[0]


def test_exponentials_count_where_an_activation_takes_one() -> None:
    sample = NODES["conv-large"]
    tanh = Epilogue(activation=Activation(kind=ActivationKind.TANH))

    plain = features_of(sample, 2, [28])
    costly = features_of(sample, 2, [28], tanh)

    assert "exponentials" not in plain.names
    assert costly.select(["exponentials"])[0, 0] == 64 * 28 * 28


def test_unknown_feature_is_zero() -> None:
    assert features_of(NODES["depthwise"], 2, [3, 5]).select(["nothing"]).tolist() == [[0.0], [0.0]]

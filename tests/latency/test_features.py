"""Features come from the launch description alone, and grow with the work."""

from dataclasses import replace

import numpy as np
import pytest

from codl.catalog.choose import choose
from codl.catalog.table import IMPLEMENTATIONS, PAIRS
from codl.ir.boxes import Boxes
from codl.ir.ops import Activation, ActivationKind, Epilogue, ResidualOrder
from codl.latency.epilogues import Epilogues
from codl.latency.features import (
    _UNITS,
    FEATURES,
    FLOPS,
    MEMORY_FEATURES,
    Features,
    extract_features,
)
from codl.machine import DeviceInfo, DeviceKind
from codl.profiler.workload import load_pairs, load_workload, share_out
from tests.catalog.nodes import NODES, Sample, device_info

INFO = device_info(8)
ONE_UNIT = replace(INFO, units=1)
TILING = {"steps", "tiles"}
"""Unit counts that become products and stores."""
UNUSED = {"vectors", "texels", "taps", "mapped", "gathered"}
"""Unit counts that no latency model gains from: their time goes with bytes and arithmetic."""
EDGES = {"constants", "far_constants", "woken", "items"}
"""Features that depend on where a region ends, and need not grow with it."""


def features_of(
    sample: Sample,
    axis: int,
    ends: list[int],
    epilogue: Epilogue | None = None,
    *,
    info: DeviceInfo = INFO,
    far_share: float = 0.0,
) -> Features:
    node, graph = sample.node, sample.graph
    boxes = Boxes.whole(graph.shape(node.output), len(ends)).with_axis(axis, 0, np.array(ends))
    chosen = choose(node, graph, info)
    batches = chosen.implementation.describe(node, graph, boxes, info, chosen.parameters)
    return extract_features(
        batches,
        chosen.parameters,
        info,
        epilogues=Epilogues.of(epilogue or node.epilogue),
        far_share=far_share,
    )


def column(found: Features, name: str) -> list[float]:
    return list(map(float, found.values[:, FEATURES.index(name)]))


@pytest.mark.parametrize("sample", NODES.values(), ids=NODES)
def test_more_work_never_has_smaller_features(sample: Sample) -> None:
    node, graph = sample.node, sample.graph
    axis = len(graph.shape(node.output)) - 1
    length = graph.shape(node.output)[axis]

    found = features_of(sample, axis, list(range(1, length + 1)), info=ONE_UNIT)

    assert found.values.shape == (length, len(FEATURES))
    assert (found.values >= 0).all()
    for name in set(FEATURES) - EDGES:
        assert column(found, name)[-1] >= column(found, name)[0], name


def test_bytes_and_arithmetic_are_those_of_the_launch_on_one_unit() -> None:
    sample = NODES["conv-large"]
    node, graph = sample.node, sample.graph
    chosen = choose(node, graph, ONE_UNIT)
    boxes = Boxes.whole(graph.shape(node.output), 1)
    (batch,) = chosen.implementation.describe(node, graph, boxes, ONE_UNIT, chosen.parameters)

    found = features_of(sample, 2, [28], info=ONE_UNIT)

    assert column(found, FLOPS) == [batch.flops[0]]
    assert column(found, "outputs") == [batch.written_bytes[0]]
    assert column(found, "inputs")[0] + column(found, "constants")[0] == batch.read_bytes[0]
    assert found.moved_bytes.tolist() == [batch.read_bytes[0] + batch.written_bytes[0]]
    assert found.launches.tolist() == [1.0]


def test_several_units_share_the_work_of_a_large_launch() -> None:
    one, four = (features_of(NODES["conv-large"], 2, [28], info=info) for info in (ONE_UNIT, INFO))

    for name in (FLOPS, "outputs"):
        assert 0.25 * column(one, name)[0] <= column(four, name)[0] < 0.5 * column(one, name)[0]
    assert column(one, "woken") == [0.0]
    assert column(four, "woken") == [3.0]


def test_exponentials_count_where_an_activation_takes_one() -> None:
    tanh = Epilogue(activation=Activation(kind=ActivationKind.TANH))

    plain = features_of(NODES["conv-large"], 2, [28], info=ONE_UNIT)
    costly = features_of(NODES["conv-large"], 2, [28], tanh, info=ONE_UNIT)

    assert column(plain, "exponentials") == [0.0]
    assert column(costly, "exponentials") == [64 * 28 * 28]


def test_residuals_are_told_from_inputs() -> None:
    added = Epilogue(residual=ResidualOrder.BEFORE)

    plain = features_of(NODES["conv-large"], 2, [28])
    residual = features_of(NODES["conv-large"], 2, [28], added)

    assert column(plain, "residuals") == [0.0]
    assert column(residual, "residuals") == column(residual, "outputs")


def test_constants_from_memory_are_a_share_of_all() -> None:
    found = features_of(NODES["conv-large"], 2, [28], far_share=0.25)

    assert column(found, "far_constants")[0] == 0.25 * column(found, "constants")[0] > 0


def test_chains_of_steps_count_on_gpus_only() -> None:
    gpu = replace(INFO, kind=DeviceKind.GPU, work_group_multiple=32)

    found = [features_of(NODES["conv-large"], 2, [28], info=info) for info in (INFO, gpu)]

    assert column(found[0], "chain_products") == [0.0]
    assert column(found[1], "chain_products")[0] > 0


def test_empty_launch_has_no_features() -> None:
    node, graph = NODES["conv-large"].node, NODES["conv-large"].graph
    chosen = choose(node, graph, INFO)
    boxes = Boxes.whole(graph.shape(node.output), 2)
    (batch,) = chosen.implementation.describe(node, graph, boxes, INFO, chosen.parameters)
    size = batch.global_size.copy()
    size[0, 1] = 0

    found = extract_features((replace(batch, global_size=size),), chosen.parameters, INFO)

    assert not found.values[0].any()
    assert found.values[1].any()
    assert (found.moved_bytes[0], found.launches[0]) == (0, 0)


def test_features_are_named_once_and_those_of_memory_are_features() -> None:
    assert len(set(FEATURES)) == len(FEATURES)
    assert set(MEMORY_FEATURES) < set(FEATURES)
    assert set(_UNITS.values()) < set(FEATURES)


@pytest.mark.parametrize(
    ("kind", "vector_width"), [(DeviceKind.CPU, 8), (DeviceKind.CPU, 16), (DeviceKind.GPU, 1)]
)
def test_unit_counts_of_the_catalog_are_features(kind: DeviceKind, vector_width: int) -> None:
    info = replace(device_info(vector_width), kind=kind, has_images=True)
    graphs = [sample.graph for sample in NODES.values()]
    graphs += [
        layer.make_graph()
        for work in share_out((*load_workload(), *load_pairs()), info)
        for layer in work.layers[:1]
    ]
    described = set()
    for graph in graphs:
        for row in (*IMPLEMENTATIONS, *PAIRS):
            parameters = row.accepts(graph.nodes[-1], graph, info) if row.suits(info) else None
            if parameters is None:
                continue
            boxes = Boxes.whole(graph.shape(graph.nodes[-1].output), 1)
            for batch in row.describe(graph.nodes[-1], graph, boxes, info, parameters):
                described.add(row.name)
                assert set(batch.units) <= set(_UNITS) | TILING | UNUSED, row.name
    catalog = {row.name for row in (*IMPLEMENTATIONS, *PAIRS) if row.suits(info)}
    assert kind is DeviceKind.GPU or described == catalog

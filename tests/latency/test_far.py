"""Constants that come from memory: whose they are, and what that costs."""

from dataclasses import replace

import numpy as np
import pytest

from codl.ir.boxes import Boxes
from codl.ir.graph import FLOAT_BYTES, Graph, Node
from codl.ir.regions import OutputBoxes
from codl.latency.amounts.far import count_network_constants, find_far_share
from codl.latency.features import Features, extract_features
from codl.latency.linear import LinearModel
from codl.latency.predictor import Predictor
from codl.latency.question import Question
from codl.latency.questions import answer_questions
from tests.catalog.nodes import conv, device_info
from tests.latency.profiles import make_profile

INFO = device_info(16)
SAMPLE = conv(512, 512, 7, tile=2, row="conv2d_winograd_staged__buffer")
NODE, GRAPH = SAMPLE.node, SAMPLE.graph


@pytest.mark.parametrize(
    ("constants", "cache", "share"),
    [(10, 20, 0), (20, 20, 0), (30, 20, 0.5), (40, 20, 1), (900, 20, 1), (900, 0, 0), (0, 20, 0)],
)
def test_what_a_cache_does_not_hold_is_far(constants: float, cache: int, share: float) -> None:
    assert find_far_share(constants, cache) == share


@pytest.mark.parametrize(("tile", "growth"), [(1, 1.0), (2, 16 / 9), (4, 4.0)])
def test_filters_count_as_they_are_kept(tile: int, growth: float) -> None:
    graph = conv(16, 32, 28, tile=tile).graph
    assert count_network_constants(graph) == pytest.approx(growth * 16 * 32 * 9 * FLOAT_BYTES)


def describe(far_share: float) -> Features:
    chosen = Predictor(make_profile(INFO), INFO).choose(NODE, GRAPH)
    boxes = Boxes.whole(GRAPH.shape(NODE.output), 3).with_axis(1, 0, np.array([128, 256, 512]))
    batches = chosen.implementation.describe(NODE, GRAPH, boxes, INFO, chosen.parameters)
    return extract_features(batches, chosen.parameters, INFO, far_share=far_share)


def test_far_constants_are_features_of_their_own() -> None:
    near, half, far = (describe(share) for share in (0.0, 0.5, 1.0))
    assert not [name for name in near.names if "far_constants" in name or "far_paced" in name]
    np.testing.assert_array_equal(
        far.select(["steps.far_constants"]), near.select(["steps.constants"]), strict=True
    )
    np.testing.assert_allclose(half.select(far.names)[:, :1], far.select(far.names)[:, :1])
    for name in far.names:
        if name not in near.names:
            np.testing.assert_allclose(half.select([name]), 0.5 * far.select([name]))


def make_predictor(shared_cache_bytes: int, name: str = "cpu") -> Predictor:
    """Return one that counts a microsecond for each 100 bytes of far constants."""
    info = replace(INFO, name=name)
    profile, row = make_profile(info), SAMPLE.row
    names = ("launches", "transforms.launches", "steps.far_constants", "outputs.launches")
    model = LinearModel(features=names, coefficients=(1.0, 1.0, 0.01, 1.0), low=(0.0,) * 4, high=(1e9,) * 4)
    known = profile.with_rows({row: replace(profile.rows[row], model=model)})
    return Predictor(replace(known, shared_cache_bytes=shared_cache_bytes), info)


def test_a_network_that_a_cache_holds_takes_less_time() -> None:
    total = int(count_network_constants(GRAPH))
    boxes = Boxes.whole(GRAPH.shape(NODE.output), 1)
    us = [
        make_predictor(cache).predict(NODE, GRAPH, boxes).us[0] for cache in (0, total, 2 * total // 3, 1000)
    ]
    assert us[0] == us[1] < us[2] < us[3]
    assert us[2] - us[0] == pytest.approx((us[3] - us[0]) / 2, rel=1e-3)


def test_the_rest_of_the_network_counts() -> None:
    other = conv(64, 64, 28).graph
    moved = {name: replace(tensor, name=f"o.{name}") for name, tensor in other.tensors.items()}
    inputs = tuple(f"o.{name}" for name in other.nodes[0].inputs)
    both = Graph(
        name="both",
        nodes=(*GRAPH.nodes, Node(name="other", op=other.nodes[0].op, inputs=inputs, output="o.y")),
        inputs=(*GRAPH.inputs, "o.x"),
        outputs=("y", "o.y"),
        tensors={**GRAPH.tensors, **{tensor.name: tensor for tensor in moved.values()}},
        constants={**GRAPH.constants, "o.w": other.constants["w"]},
    )
    predictor = make_predictor(int(count_network_constants(GRAPH)))
    assert predictor.find_far_share(GRAPH) == 0
    assert predictor.find_far_share(both) > 0


def test_devices_with_caches_of_their_own_are_asked_apart() -> None:
    predictors = [make_predictor(cache, name) for name, cache in (("far", 1000), ("near", 1 << 30))]
    whole = Boxes.whole(GRAPH.shape(NODE.output), 1)
    selections = tuple(one.choose(NODE, GRAPH) for one in predictors)
    question = Question(node=NODE, out=OutputBoxes.find(NODE, GRAPH, whole), selections=selections)
    found = answer_questions([question], GRAPH, predictors)
    expected = [one.predict(NODE, GRAPH, whole).us[0] for one in predictors]
    assert found.us[:, 0].tolist() == pytest.approx(expected)
    assert found.us[0, 0] > found.us[1, 0]


def test_predictors_bring_the_cache_they_were_measured_with() -> None:
    profile = replace(make_profile(INFO), shared_cache_bytes=0)
    rows = {SAMPLE.row: profile.rows[SAMPLE.row]}
    renewed = profile.with_rows(rows, shared_cache_bytes=1 << 24)
    assert renewed.shared_cache_bytes == renewed.with_rows(rows).shared_cache_bytes == 1 << 24
    assert renewed.fingerprint != profile.fingerprint

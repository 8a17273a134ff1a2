"""Predictions: many at once equal one at a time, and an empty slice takes no time."""

from dataclasses import replace

import numpy as np
import pytest

from codl.errors import ProfileError
from codl.ir.boxes import Boxes, Region
from codl.latency.predictor import Predictor
from codl.latency.profile import Origin, mix_slowdown
from tests.catalog.nodes import NODES, Sample, device_info
from tests.latency.profiles import make_profile
from tests.processes import evaluate

INFO = replace(device_info(8), units=1)
CONV = NODES["conv-large"]


@pytest.fixture
def predictor() -> Predictor:
    return Predictor(make_profile(INFO), INFO)


@pytest.mark.parametrize(
    "sample", [NODES[name] for name in ("conv-large", "depthwise", "matrix-times-matrix")]
)
def test_time_is_the_models(predictor: Predictor, sample: Sample) -> None:
    node, graph = sample.node, sample.graph
    shape = graph.shape(node.output)

    (us,) = predictor.predict(node, graph, Boxes.whole(shape, 1)).us

    assert us == pytest.approx(2.0 + 1e-3 * 4 * np.prod(shape) + 1.0)


def test_many_slices_are_predicted_as_one_by_one(predictor: Predictor) -> None:
    node, graph = CONV.node, CONV.graph
    whole = Region.whole(graph.shape(node.output))
    regions = [whole.cut(axis, begin, begin + 3) for axis in (1, 2) for begin in range(20)] * 250
    many = predictor.predict(node, graph, Boxes.of(regions))

    assert len(many.us) == 10_000
    for place in range(0, 40, 7):
        one = predictor.predict(node, graph, Boxes.of([regions[place]]))
        assert one.us[0] == many.us[place]
        assert one.memory_share[0] == many.memory_share[place]


def test_empty_slice_takes_no_time(predictor: Predictor) -> None:
    node, graph = CONV.node, CONV.graph
    whole = Region.whole(graph.shape(node.output))

    us = predictor.predict(node, graph, Boxes.of([whole.cut(2, 5, 5), whole])).us

    assert us[0] == 0
    assert us[1] > 0


@pytest.mark.parametrize(
    "change", [{"driver_version": "2"}, {"units": 7}, {"device_name": "another"}, {"vector_width": 16}]
)
def test_profile_of_another_device_is_an_error(change: dict[str, object]) -> None:
    with pytest.raises(ProfileError, match=f"{next(iter(change))}.*run `codl profile --device test-cpu`"):
        Predictor(make_profile(INFO), replace(INFO, **change))  # type: ignore[arg-type]


def test_publication_is_priced(predictor: Predictor) -> None:
    us = predictor.predict_publish("t", (1, 8, 4, 4), Boxes.of([Region((0, 0, 0, 0), (1, 8, 2, 4))]))

    assert us[0] == pytest.approx(2.0 + 4 * 8 * 8 * 1e-3 + 1.0)


def test_copies_are_priced(predictor: Predictor) -> None:
    assert predictor.find_transfer_us("read") @ (1, 1e5, 100) == pytest.approx(21.0)


def test_neighbours_slow_down_by_what_limits_both(predictor: Predictor) -> None:
    slowdown = predictor.profile.neighbours["other-cpu"].slowdown

    assert mix_slowdown(slowdown, 0.0, 0.0) == 1.0
    assert mix_slowdown(slowdown, 1.0, 1.0) == 2.0
    assert mix_slowdown(slowdown, 0.0, 1.0) == pytest.approx(1.2)


def test_synchronization_is_cheaper_where_devices_wait_for_each_other(predictor: Predictor) -> None:
    assert predictor.find_meeting("other-cpu").p95_us == 80.0
    assert predictor.find_meeting("other-cpu", is_signalled=True).p95_us == 12.0


def test_devices_whose_own_meetings_are_not_known_meet_as_by_the_host() -> None:
    profile = make_profile(INFO)
    known = replace(profile.neighbours["other-cpu"], signal=None)
    predictor = Predictor(replace(profile, neighbours={"other-cpu": known}), INFO)

    assert predictor.find_meeting("other-cpu", is_signalled=True) == known.meeting


def test_borrowed_profile_is_twice_as_uncertain() -> None:
    profile = make_profile(INFO)
    boxes = Boxes.whole((1, 64, 28, 28), 1)

    own = Predictor(profile, INFO).predict(CONV.node, CONV.graph, boxes)
    borrowed = Predictor(replace(profile, origin=Origin.BORROWED), INFO).predict(CONV.node, CONV.graph, boxes)

    assert borrowed.uncertainty == 2 * own.uncertainty


def test_prediction_imports_numpy_only() -> None:
    code = (
        "import sys, json, codl.latency.predictor, codl.latency.store;"
        "print(json.dumps([n for n in ('sklearn', 'scipy') if n in sys.modules]))"
    )

    assert evaluate(code) == []

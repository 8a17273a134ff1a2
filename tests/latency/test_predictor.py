"""Predictions: many at once equal one at a time, and nothing is predicted without a predictor."""

from dataclasses import replace
from math import log

import numpy as np
import pytest

from codl.catalog.choose import choose
from codl.errors import ProfileError
from codl.ir.boxes import Boxes, Region
from codl.latency.known import Effect, mark_node
from codl.latency.linear import LinearModel
from codl.latency.predictor import Predictor
from codl.latency.profile import Origin
from tests.catalog.nodes import NODES, Sample, device_info
from tests.latency.profiles import make_profile
from tests.processes import evaluate

INFO = device_info(8)
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


def test_slice_unlike_all_samples_is_flagged(predictor: Predictor) -> None:
    node, graph = CONV.node, CONV.graph
    whole = Region.whole(graph.shape(node.output))
    row = choose(node, graph, INFO).implementation.name
    model = predictor.profile.rows[row]
    narrow = replace(model, model=replace(model.model, high=(1.0, 10_000.0) * (len(model.model.high) // 2)))
    strict = Predictor(predictor.profile.with_rows({row: narrow}), INFO)

    flags = strict.predict(node, graph, Boxes.of([whole, whole.cut(2, 0, 2)])).is_extrapolated

    assert flags.tolist() == [True, False]


def test_slices_of_a_measured_layer_take_what_it_was_seen_to_take(predictor: Predictor) -> None:
    node, graph = CONV.node, CONV.graph
    whole = Region.whole(graph.shape(node.output))
    boxes = Boxes.of([whole, whole.cut(2, 0, 3), whole.cut(1, 0, 1)])
    chosen = predictor.choose(node, graph)
    row = predictor.profile.rows[chosen.implementation.name]
    mark = mark_node(node, graph, chosen.parameters)
    sure = replace(row, layers={mark: Effect(log(1.5), log(2.5))}, known=replace(row.quality, rmspe=0.02))
    taught = Predictor(predictor.profile.with_rows({chosen.implementation.name: sure}), INFO)

    plain, known = (one.predict(node, graph, boxes) for one in (predictor, taught))

    launch_us = predictor.profile.launch_us
    assert known.us - launch_us == pytest.approx([1.5, 1.5, 2.5] * (plain.us - launch_us))
    assert (plain.uncertainty, known.uncertainty) == (row.quality.rmspe, 0.02)


def test_uncertainty_is_what_two_of_three_stay_within_where_that_is_known() -> None:
    row = replace(make_profile(INFO).rows["conv2d_gemm__buffer"], layers={"0" * 10: Effect(0.1, 0.1)})
    told = replace(row, known=replace(row.quality, rmspe=9.0), doubt=0.05, known_doubt=0.03)

    assert [told.find_uncertainty(mark) for mark in ("", "0" * 10)] == [0.05, 0.03]
    assert row.find_uncertainty("") == row.quality.rmspe


def test_layer_of_another_program_is_another_layer() -> None:
    chosen = {"MR": 1, "NR": 1}

    marks = {mark_node(CONV.node, CONV.graph, {**chosen, "MR": rows}) for rows in (1, 2)}

    assert len(marks) == 2
    assert mark_node(CONV.node, CONV.graph, {"NR": 1, "MR": 1}) in marks


def test_kernel_without_predictor_is_an_error() -> None:
    profile = make_profile(INFO)
    poor = replace(profile, rows={n: r for n, r in profile.rows.items() if n != "conv2d_gemm__buffer"})

    with pytest.raises(ProfileError, match=r"no predictor of conv2d_gemm__buffer.*codl profile --stale"):
        Predictor(poor, INFO).predict(CONV.node, CONV.graph, Boxes.whole((1, 64, 28, 28), 1))


def test_stale_predictor_is_an_error_and_only_its_own_row() -> None:
    profile = make_profile(INFO)
    old = replace(profile.rows["conv2d_gemm__buffer"], digest="0" * 32)
    predictor = Predictor(profile.with_rows({"conv2d_gemm__buffer": old}), INFO)
    other = NODES["vector-times-constant"]

    with pytest.raises(ProfileError, match=r"older conv2d_gemm__buffer.*codl profile --stale"):
        predictor.predict(CONV.node, CONV.graph, Boxes.whole((1, 64, 28, 28), 1))
    assert predictor.predict(other.node, other.graph, Boxes.whole((1, 1000), 1)).us[0] > 0
    assert predictor.profile.find_stale() == ("conv2d_gemm__buffer",)


def test_launch_unlike_all_samples_is_an_error(predictor: Predictor) -> None:
    turned = NODES["heads-times-constant"]  # matrices that do not lie along memory
    row = predictor.profile.rows["gemm_plain__buffer"]
    plain = LinearModel(features=("launches",), coefficients=(1.0,), low=(1.0,), high=(1.0,))
    profile = predictor.profile.with_rows({"gemm_plain__buffer": replace(row, model=plain)})

    with pytest.raises(ProfileError, match="unlike all samples"):
        Predictor(profile, INFO).predict(turned.node, turned.graph, Boxes.whole((1, 4, 50, 20), 1))


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
    one = np.ones(1)

    assert predictor.predict_sharing("read", bytes_=one * 1e5, rows=one * 100, calls=one)[0] == pytest.approx(
        21.0
    )
    with pytest.raises(ProfileError, match="no cost of 'map'"):
        predictor.predict_sharing("map", bytes_=one, rows=one, calls=one)


def test_neighbours_slow_down_by_what_limits_both(predictor: Predictor) -> None:
    alone = predictor.predict(CONV.node, CONV.graph, Boxes.whole((1, 64, 28, 28), 1))
    compute = replace(alone, memory_share=np.zeros(1))
    memory = replace(alone, memory_share=np.ones(1))

    assert predictor.slow_down(compute, "other-cpu") == alone.us
    assert predictor.slow_down(memory, "other-cpu") == 2.0 * alone.us
    assert predictor.slow_down(compute, "other-cpu", np.ones(1)) == pytest.approx(1.2 * alone.us)
    assert predictor.slow_down(memory, "stranger") == alone.us


def test_meeting_of_strangers_is_an_error(predictor: Predictor) -> None:
    assert predictor.find_meeting("other-cpu").p95_us == 80.0
    assert predictor.find_meeting("other-cpu", is_signalled=True).p95_us == 12.0
    with pytest.raises(ProfileError, match="no meeting with stranger"):
        predictor.find_meeting("stranger")


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


def test_what_was_measured_with_an_earlier_kernel_is_twice_as_uncertain() -> None:
    profile = make_profile(INFO)
    row = profile.rows["conv2d_gemm__buffer"]
    carried = profile.with_rows({"conv2d_gemm__buffer": replace(row, is_carried=True)})
    boxes = Boxes.whole((1, 64, 28, 28), 1)

    own, other = (Predictor(one, INFO).predict(CONV.node, CONV.graph, boxes) for one in (profile, carried))

    assert other.uncertainty == 2 * own.uncertainty
    assert np.array_equal(other.us, own.us)


def test_prediction_imports_numpy_only() -> None:
    code = (
        "import sys, json, codl.latency.predictor, codl.latency.store;"
        "print(json.dumps([n for n in ('sklearn', 'scipy') if n in sys.modules]))"
    )

    assert evaluate(code) == []

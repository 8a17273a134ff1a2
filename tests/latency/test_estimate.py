"""Kernels that were not measured are estimated: marked, with a wide error, and never for nothing."""

from dataclasses import replace

import numpy as np
import pytest

from codl.catalog.table import IMPLEMENTATIONS
from codl.ir.boxes import Boxes
from codl.latency.estimate import ERROR, STALE_ERROR
from codl.latency.features import VERSION
from codl.latency.predictor import Prediction, Predictor
from codl.latency.profile import DeviceProfile, Origin, RowModel
from codl.latency.store import estimate
from tests.catalog.nodes import NODES, Sample, device_info
from tests.latency.profiles import make_profile

INFO = device_info(8)
CONV, ROW = NODES["conv-large"], "conv2d_gemm__buffer"
ONE = np.ones(1)


def predict(profile: DeviceProfile, sample: Sample = CONV) -> Prediction:
    """Return what a whole node takes."""
    shape = sample.graph.shape(sample.node.output)
    return Predictor(profile, INFO).predict(sample.node, sample.graph, Boxes.whole(shape, 1))


def without(*names: str) -> DeviceProfile:
    """Return a profile that lacks some kernels."""
    profile = make_profile(INFO)
    return replace(profile, rows={name: row for name, row in profile.rows.items() if name not in names})


def change(row: RowModel) -> DeviceProfile:
    """Return a profile with another model of the convolution."""
    return make_profile(INFO).with_rows({ROW: row})


def test_kernel_without_a_model_is_estimated_and_marked() -> None:
    known, unknown = predict(make_profile(INFO)), predict(without(ROW))

    assert known.is_estimated.tolist() == [False]
    assert unknown.is_estimated.tolist() == [True]
    assert unknown.us[0] > make_profile(INFO).launch_us
    assert unknown.uncertainty == ERROR > known.uncertainty


def test_other_kernels_stay_known() -> None:
    other = NODES["vector-times-constant"]

    assert predict(without(ROW), other).us == predict(make_profile(INFO), other).us
    assert not predict(without(ROW), other).is_estimated.any()


@pytest.mark.parametrize("sample", NODES.values(), ids=NODES)
@pytest.mark.parametrize("origin", [Origin.MEASURED, Origin.ESTIMATED])
def test_every_operator_is_estimated_without_any_model(sample: Sample, origin: Origin) -> None:
    references = {"compute": 1000.0, "memory": 2000.0}
    profile = replace(make_profile(INFO), rows={})
    if origin is Origin.ESTIMATED:
        profile = estimate(INFO, references, bandwidth_bytes_per_us=1e4)

    found = predict(profile, sample)

    assert found.is_estimated.all()
    assert (found.us > profile.launch_us).all()
    assert (found.us < 1e7).all()
    assert found.uncertainty == ERROR


def test_more_work_is_estimated_to_take_longer() -> None:
    predictor = Predictor(without(ROW), INFO)
    halves = Boxes.whole((1, 64, 28, 28), 2).with_axis(2, 0, [14, 28])

    small, large = predictor.predict(CONV.node, CONV.graph, halves).us

    assert 1.5 * small < large < 2.5 * small


def test_estimate_follows_the_nearest_kernels() -> None:
    profile = without(ROW)
    quick, slow = (
        replace(
            profile,
            rows={
                name: replace(row, flop_us=us if name.startswith("conv2d_") else 1.0)
                for name, row in profile.rows.items()
            },
        )
        for us in (1e-4, 4e-4)
    )

    assert 2 < predict(slow).us[0] / predict(quick).us[0] <= 4


def test_stale_model_is_used_and_marked_with_a_wide_error() -> None:
    row = make_profile(INFO).rows[ROW]
    known, stale = predict(make_profile(INFO)), predict(change(replace(row, digest="0" * 16)))

    assert stale.us == known.us
    assert stale.is_estimated.tolist() == [True]
    assert stale.uncertainty == STALE_ERROR > known.uncertainty


def test_stale_model_that_was_worse_stays_so() -> None:
    row = replace(make_profile(INFO).rows[ROW], digest="0" * 16, error=0.4)

    assert predict(change(row)).uncertainty == 0.4


def test_model_of_other_features_is_not_used() -> None:
    row = make_profile(INFO).rows[ROW]

    found = predict(change(replace(row, version=VERSION + 1)))

    assert found.us != predict(make_profile(INFO)).us
    assert found.is_estimated.tolist() == [True]
    assert found.uncertainty == ERROR


def test_slice_much_longer_than_all_samples_is_marked() -> None:
    row = make_profile(INFO).rows[ROW]
    (us,) = predict(make_profile(INFO)).us
    predictor = Predictor(change(replace(row, longest_us=us / 8)), INFO)
    boxes = Boxes.whole((1, 64, 28, 28), 3).with_axis(2, 0, [28, 4, 0])

    assert predictor.predict(CONV.node, CONV.graph, boxes).is_estimated.tolist() == [True, False, False]


def test_simulated_profiles_are_taken_at_their_word() -> None:
    profile = replace(make_profile(INFO), origin=Origin.SIMULATED)
    rows = {name: replace(row, digest="simulated", version=0) for name, row in profile.rows.items()}

    found = predict(replace(profile, rows=rows))

    assert found.us == predict(profile).us
    assert not found.is_estimated.any()


def test_costs_that_were_not_measured_are_estimated() -> None:
    profile = replace(make_profile(INFO), sharing={}, neighbours={})
    predictor = Predictor(profile, INFO)

    meeting = predictor.find_meeting("stranger")
    one, many = (predictor.find_transfer_us("map") @ (1, 1e5 * count, 1) for count in (1, 100))

    assert 0 < meeting.median_us <= meeting.p95_us
    assert meeting.samples == 0
    assert 0 < one < many


def test_sharing_that_was_not_measured_costs_as_much_as_another_way() -> None:
    predictor = Predictor(make_profile(INFO), INFO)
    costs = [predictor.find_transfer_us(kind) @ (1, 1e5, 1) for kind in ("map", "read")]

    assert costs[0] == costs[1] > 0


def test_all_kernels_of_the_catalog_are_known_to_the_profile_of_tests() -> None:
    assert {row.name for row in IMPLEMENTATIONS} == set(make_profile(INFO).rows)

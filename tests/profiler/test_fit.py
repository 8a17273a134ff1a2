"""Fits: coefficients that are found again, never negative, and not pulled by outliers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codl.errors import ProfileError
from codl.profiler.fit import Fitted, fit_row, share_within, split, split_examined
from codl.profiler.regression import fit_linear, predict, solve_non_negative
from tests.processes import run_python

RNG = np.random.default_rng(1)
NAMES = ("launches", "steps", "read")


@pytest.fixture(autouse=True)
def _same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test draw the same numbers, whichever ran before it."""
    monkeypatch.setattr("tests.profiler.test_fit.RNG", np.random.default_rng(1))


def work(count: int) -> np.ndarray:
    return np.stack([np.ones(count), RNG.uniform(1e3, 1e6, count), RNG.uniform(1e4, 1e7, count)], axis=1)


def fit(
    values: np.ndarray,
    us: np.ndarray,
    layers: list[str],
    *,
    is_cut: np.ndarray | None = None,
    is_chosen: np.ndarray | None = None,
) -> Fitted:
    """Return what is learned of whole slices, none of them chosen by default; steps are the arithmetic."""
    no = np.zeros(len(us), bool)
    return fit_row(
        NAMES,
        values,
        us,
        flops=values[:, 1],
        groups=layers,
        layers=layers,
        is_cut=no if is_cut is None else is_cut,
        is_chosen=no if is_chosen is None else is_chosen,
    )


def test_coefficients_are_found_again() -> None:
    values = work(200)

    model = fit_linear(NAMES, values, values @ [5.0, 1e-3, 1e-4])

    assert model.features == NAMES
    assert model.coefficients == pytest.approx([5.0, 1e-3, 1e-4], rel=1e-2)


def test_outliers_pull_on_nothing() -> None:
    values = work(300)
    us = values @ [5.0, 1e-3, 1e-4]
    us[::5] *= RNG.uniform(1.5, 6, 60)

    model = fit_linear(NAMES, values, us)
    predicted = values @ np.array(model.coefficients)

    assert share_within(predicted[1::5], us[1::5], 0.03) == 1.0


@pytest.mark.parametrize("seed", range(20))
def test_solution_is_the_best_without_negative_parts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix, target = rng.standard_normal((30, 6)), rng.standard_normal(30)

    found = solve_non_negative(matrix, target)

    gradient = matrix.T @ (matrix @ found - target)
    assert (found >= 0).all()
    assert (gradient >= -1e-3).all(), "some coefficient should have grown"
    assert np.abs(gradient[found > 0]).max(initial=0.0) < 1e-3, "some coefficient should have changed"


def test_features_that_always_go_together_stay_finite() -> None:
    values = work(50)
    twice = np.concatenate([values, values[:, 1:2]], axis=1)

    model = fit_linear((*NAMES, "again"), twice, values @ [5.0, 1e-3, 1e-4])

    assert all(0 <= value < 10 for value in model.coefficients)


def test_program_is_told_apart_only_where_its_samples_ask_for_it() -> None:
    values = work(60)
    program = values[:, 1:2] * (np.arange(60) < 20)[:, None]
    names, wider = (*NAMES, "steps MR=4"), np.concatenate([values, program], axis=1)
    noise = RNG.uniform(0.97, 1.03, 60)

    alike = fit_linear(names, wider, values @ [5.0, 1e-3, 1e-4] * noise)
    slower = fit_linear(names, wider, wider @ [5.0, 1e-3, 1e-4, 1e-3])

    assert dict(zip(alike.features, alike.coefficients, strict=True)).get("steps MR=4", 0.0) < 5e-5
    assert dict(zip(slower.features, slower.coefficients, strict=True))["steps MR=4"] > 5e-4


def test_zero_feature_is_left_out() -> None:
    values = work(50)
    values[:, 2] = 0

    assert "read" not in fit_linear(NAMES, values, values @ [5.0, 1e-3, 1e-4]).features


def test_stage_without_cost_stays_known() -> None:
    values = np.concatenate([work(50), np.zeros((50, 1))], axis=1)

    model = fit_linear((*NAMES, "strided.launches"), values, values[:, :3] @ [5.0, 1e-3, 1e-4])

    assert "strided.launches" in model.features


@pytest.mark.parametrize(
    ("samples", "most", "is_believed"), [(1, 100.0, False), (3, 5e5, False), (4, 5e5, True)]
)
def test_does_not_believe_traces(samples: int, most: float, is_believed: bool) -> None:
    values = work(40)
    far = np.zeros((40, 2))
    far[::2, 0] = np.linspace(1, 1e6, 20)
    far[-samples:, 1] = most
    us = values @ [5.0, 1e-3, 1e-4] + far @ [1e-4, 1.0]

    model = fit_linear((*NAMES, "far_1MiB", "far_16MiB"), np.concatenate([values, far], axis=1), us)

    assert "far_1MiB" in model.features
    assert ("far_16MiB" in model.features) == is_believed


def test_held_out_samples_are_whole_layers_and_about_a_third() -> None:
    groups = [f"layer{place // 4}" for place in range(120)]

    held = split(groups)

    assert 0.25 <= held.mean() <= 0.35
    for start in range(0, 120, 4):
        assert len(set(held[start : start + 4])) == 1


def test_few_layers_are_split_by_sample() -> None:
    held = split(["one"] * 20)

    assert held.sum() == 6


def test_baseline_of_flops_does_worse_on_memory_bound_work() -> None:
    values = work(200)
    us = values @ [5.0, 1e-6, 1e-3]

    groups = [str(place) for place in range(200)]
    fitted = fit(values, us, groups)

    assert fitted.quality.pm5 == fitted.quality.pm10 == 1.0
    assert fitted.quality.flops_pm10 < 0.5
    assert fitted.quality.samples == 60
    assert np.abs(fitted.errors).max() < 0.01


def test_chosen_samples_examine_nobody() -> None:
    values = work(200)
    us = values @ [5.0, 1e-3, 1e-4]
    chosen = np.arange(200) >= 100
    us[chosen] *= 3

    fitted = fit(values, us, [str(place) for place in range(200)], is_chosen=chosen)

    assert 20 <= fitted.quality.samples <= 40


def test_few_samples_are_examined_by_several_splits() -> None:
    values = work(60)
    us = values @ [5.0, 1e-3, 1e-4]
    us[::5] *= 3
    groups = [str(place) for place in range(60)]

    fitted = fit(values, us, groups)

    assert fitted.quality.samples == 18
    assert np.isfinite(fitted.unseen_us).sum() > 40
    assert fitted.quality.pm10 == pytest.approx(0.8, abs=0.1)


def test_samples_of_measured_layers_are_predicted_better_than_of_others() -> None:
    values = work(400)
    layers = [str(place // 4) for place in range(400)]
    us = values @ [5.0, 1e-3, 1e-4] * np.repeat(RNG.uniform(0.7, 1.4, 100), 4)

    fitted = fit(values, us, layers)

    assert fitted.quality.pm10 < 0.6
    assert fitted.known.pm10 > 0.9
    assert fitted.known.rmspe < fitted.quality.rmspe
    assert fitted.doubt is not None
    assert fitted.known_doubt is not None
    assert fitted.known_doubt < 0.02
    assert fitted.doubt > 0.1
    assert len(fitted.effects) == 100


def test_what_layers_take_beyond_does_not_blur_the_model() -> None:
    values = work(360)
    layers = [str(place // 30) for place in range(360)]
    true = values @ [5.0, 1e-3, 1e-4]
    us = true * np.repeat(RNG.uniform(0.7, 1.4, 12), 30)

    fitted = fit(values, us, layers)
    plain = fit_linear(NAMES, values, us)

    spreads = [np.std(np.log(predict(model, NAMES, values) / true)) for model in (fitted.model, plain)]
    assert spreads[0] < 0.7 * spreads[1]


def test_slices_cut_between_channels_have_effects_of_their_own() -> None:
    values, is_cut = work(800), np.arange(800) % 2 > 0
    layers = [str(place // 16) for place in range(800)]
    own = RNG.uniform(0.7, 1.4, (50, 2)).repeat(8, axis=0).reshape(800)

    fitted = fit(values, values @ [5.0, 1e-3, 1e-4] * own, layers, is_cut=is_cut)

    assert fitted.known.pm10 > 0.9


def test_sessions_do_without_scikit_learn() -> None:
    done = run_python(
        "-W", "ignore", "-c", "import sys, codl, codl.cli.main; assert 'sklearn' not in sys.modules"
    )

    assert done.returncode == 0, done.stderr


def test_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codl.profiler.regression.LinearRegression", None)

    with pytest.raises(ProfileError, match=r"scikit-learn.*pip install codl\[profile\]"):
        fit_linear(NAMES, work(20), np.ones(20))


@given(layers=st.lists(st.sampled_from("abcdefghijkl"), min_size=2, max_size=40), data=st.data())
def test_some_samples_examine_and_others_teach(layers: list[str], data: st.DataObject) -> None:
    count = len(layers)
    is_chosen = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    held, learned = split_examined(layers, is_chosen, data.draw(st.integers(0, 7)))
    assert held.any()
    assert learned.any()
    assert not (held & learned).any()
    assert is_chosen.all() or not (held & is_chosen).any()

"""Fits: coefficients that are found again, never negative, and not pulled by outliers."""

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from codl.catalog.layers import Layer
from codl.catalog.source import digest_row
from codl.catalog.table import IMPLEMENTATIONS
from codl.errors import ProfileError
from codl.ir.graph import Graph, Node
from codl.ir.ops import Unary
from codl.latency.features import FEATURES
from codl.latency.profile import RowModel
from codl.profiler.fit import (
    LEAST_SAMPLES,
    fit_linear,
    fit_model,
    fit_row,
    fit_rows,
    solve_non_negative,
    split,
)
from codl.profiler.log import Sample
from codl.profiler.samples import describe_samples
from tests.catalog.nodes import device_info
from tests.processes import run_python

NAMES = ("launches", "flops", "inputs")
TRUE = np.array([5.0, 1e-3, 1e-4])
INFO = replace(device_info(8), units=1)
REFERENCES = {"compute": 100.0, "memory": 2000.0}
ROWS = {row.name: row for row in IMPLEMENTATIONS}
ROW = ROWS["elementwise_unary__buffer"]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def work(rng: np.random.Generator, count: int) -> np.ndarray:
    """Return launches of some arithmetic and traffic, [count, names]."""
    return np.stack([np.ones(count), rng.uniform(1e3, 1e6, count), rng.uniform(1e4, 1e7, count)], axis=1)


def spread_out(values: np.ndarray) -> np.ndarray:
    """Return features of these names among all features, [count, features]."""
    found = np.zeros((len(values), len(FEATURES)))
    found[:, [FEATURES.index(name) for name in NAMES]] = values
    return found


def make_sample(layer: Layer, us: float, *, rows: int | None = None, memory_share: float = 0.0) -> Sample:
    """Return the sample of a layer, or of some of its rows, as a log keeps it."""
    end = list(layer.output)
    end[2] = rows or end[2]
    return Sample(
        key=f"{layer.key} {rows}",
        row=ROW.name,
        digest=digest_row(ROW),
        layer=json.loads(layer.key),
        parameters=dict(ROW.accepts(*find_node(layer), INFO) or {}),
        begin=(0,) * len(end),
        end=tuple(end),
        ratios={name: us / reference for name, reference in REFERENCES.items()},
        memory_share=memory_share,
        spread=0.01,
        rounds=24,
        at=1.0,
    )


def find_node(layer: Layer) -> tuple[Node, Graph]:
    graph = layer.make_graph()
    return graph.nodes[-1], graph


def make_layers(count: int) -> list[Layer]:
    """Return elementwise operators of many sizes."""
    return [
        Layer(op=Unary(), inputs=((1, channels, 8 + place % 7, 16),), output=(1, channels, 8 + place % 7, 16))
        for place in range(count)
        for channels in (8 * (1 + place),)
    ]


def fit(values: np.ndarray, us: np.ndarray, layers: Sequence[Layer]) -> RowModel:
    """Return what is learned of made-up features, by layer."""
    samples = [make_sample(layer, one) for layer, one in zip(layers, us.tolist(), strict=True)]
    return fit_row(ROW, samples, spread_out(values), us)


def test_coefficients_are_found_again(rng: np.random.Generator) -> None:
    values = work(rng, 200)

    model = fit_model(NAMES, values, values @ TRUE)

    assert tuple(model.coefficients) == NAMES
    assert list(model.coefficients.values()) == pytest.approx(TRUE, rel=2e-2)


def test_outliers_pull_on_nothing(rng: np.random.Generator) -> None:
    values = work(rng, 300)
    us = values @ TRUE
    us[::5] *= rng.uniform(1.5, 6, 60)

    predicted = values @ fit_linear(values, us)

    assert (np.abs(predicted / (values @ TRUE) - 1) < 0.03).all()


@pytest.mark.parametrize("seed", range(20))
def test_solution_is_the_best_without_negative_parts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix, target = rng.standard_normal((30, 6)), rng.standard_normal(30)

    found = solve_non_negative(matrix, target)

    gradient = matrix.T @ (matrix @ found - target)
    assert (found >= 0).all()
    assert (gradient >= -1e-3).all(), "some coefficient should have grown"
    assert np.abs(gradient[found > 0]).max(initial=0.0) < 1e-3, "some coefficient should have changed"


def test_features_that_always_go_together_share_their_time(rng: np.random.Generator) -> None:
    values = work(rng, 50)
    twice = np.concatenate([values, values[:, 1:2]], axis=1)

    found = fit_linear(twice, values @ TRUE)

    assert found[1] + found[3] == pytest.approx(TRUE[1], rel=1e-2)
    assert found[1] == pytest.approx(found[3], rel=1e-2)


def test_feature_that_never_comes_is_left_out(rng: np.random.Generator) -> None:
    values = work(rng, 50)
    values[:, 2] = 0

    assert "inputs" not in fit_model(NAMES, values, values @ TRUE).coefficients


@pytest.mark.parametrize("turn", range(6))
def test_held_out_samples_are_whole_layers_and_about_a_third(turn: int) -> None:
    groups = [f"layer{place // 4}" for place in range(120)]

    held = split(groups, turn)

    assert 0.25 <= held.mean() <= 0.35
    for start in range(0, 120, 4):
        assert len(set(held[start : start + 4])) == 1
    assert not np.array_equal(held, split(groups, turn + 1))


def test_baseline_of_flops_does_worse_on_memory_bound_work(rng: np.random.Generator) -> None:
    values = work(rng, 200)

    fitted = fit(values, values @ [5.0, 1e-6, 1e-3], make_layers(200))

    quality = fitted.quality
    assert quality.pm5 == quality.pm10 == 1.0
    assert quality.flops_pm10 < 0.5
    assert quality.samples == 60
    assert quality.rmspe < 0.01
    assert fitted.error < 0.01


def test_error_is_what_two_of_three_stay_within(rng: np.random.Generator) -> None:
    values = work(rng, 400)
    noise = np.where(rng.uniform(size=400) < 0.2, 3.0, rng.uniform(0.9, 1.1, 400))

    model = fit(values, values @ TRUE * noise, make_layers(400))

    assert 0.05 < model.error < 0.12
    assert model.quality.rmspe > 2 * model.error
    assert model.quality.pm10 == pytest.approx(0.75, abs=0.1)


def test_layers_that_were_all_alike_examine_nothing(rng: np.random.Generator) -> None:
    values = work(rng, 20)

    model = fit(values, values @ TRUE, make_layers(1) * 20)

    assert model.quality.samples == 0
    assert model.error == 1.0
    assert model.model.coefficients


def test_kernel_is_learned_from_samples_of_its_slices(rng: np.random.Generator) -> None:
    layers = make_layers(40)
    places = [(layer, rows) for layer in layers for rows in (None, 3, 5)]
    blank = [make_sample(layer, 1.0, rows=rows) for layer, rows in places]
    values = describe_samples(blank, ROW, INFO)
    true = np.zeros(len(FEATURES))
    true[[FEATURES.index(name) for name in ("launches", "inputs", "outputs")]] = [3.0, 2e-4, 3e-4]
    us = values @ true
    samples = [
        make_sample(layer, one, rows=rows, memory_share=float(rng.uniform()))
        for (layer, rows), one in zip(places, us.tolist(), strict=True)
    ]

    found = fit_rows(samples, REFERENCES, INFO)

    assert list(found) == [ROW.name]
    model = found[ROW.name]
    assert (values @ model.model.align(FEATURES)) == pytest.approx(us, rel=0.02)
    assert model.quality.pm5 == 1.0
    assert model.quality.samples == pytest.approx(36, abs=1)
    assert model.error < 0.02
    assert model.longest_us == pytest.approx(us.max())
    assert model.is_of(ROW.name)


def test_case_measured_several_times_counts_once_by_its_median() -> None:
    layers = make_layers(12)
    once = [make_sample(layer, 10.0) for layer in layers]
    again = [make_sample(layer, us) for layer in layers for us in (10.0, 90.0, 10.0)]

    one, many = (fit_rows(samples, REFERENCES, INFO)[ROW.name] for samples in (once, again))

    assert many == one


@pytest.mark.parametrize(("count", "is_known"), [(LEAST_SAMPLES - 1, False), (LEAST_SAMPLES, True)])
def test_kernel_of_too_few_samples_has_no_model(count: int, is_known: bool) -> None:
    samples = [make_sample(layer, 10.0) for layer in make_layers(count)]

    assert (ROW.name in fit_rows(samples * 2, REFERENCES, INFO)) == is_known


def test_samples_of_kernels_that_went_are_left_out() -> None:
    samples = [replace(make_sample(layer, 10.0), row="gone__buffer") for layer in make_layers(10)]

    assert fit_rows(samples, REFERENCES, INFO) == {}


def test_sessions_do_without_scikit_learn() -> None:
    done = run_python(
        "-W", "ignore", "-c", "import sys, codl, codl.cli.main; assert 'sklearn' not in sys.modules"
    )

    assert done.returncode == 0, done.stderr


def test_missing_package_is_told(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    monkeypatch.setattr("codl.profiler.fit.LinearRegression", None)

    with pytest.raises(ProfileError, match=r"scikit-learn.*pip install codl\[profile\]"):
        fit_linear(work(rng, 20), np.ones(20))

"""Effects of layers: believed by as much as layers differ more than samples of one."""

import numpy as np
import pytest

from codl.profiler.effects import find_effects, find_spread

RNG = np.random.default_rng(0)


def _draw(
    layers: int, each: int, *, between: float, within: float
) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Return residuals, the layer of each, and what is true of each layer."""
    true = RNG.normal(0, between, layers)
    names = [f"{place:04}" for place in range(layers) for _ in range(each)]
    return np.repeat(true, each) + RNG.normal(0, within, layers * each), names, true


def test_effects_are_found_again() -> None:
    residuals, names, true = _draw(50, 20, between=0.3, within=0.05)

    found = find_effects(residuals, names)

    assert np.array(list(found.values())) == pytest.approx(true, abs=0.1)


@pytest.mark.parametrize("each", [2, 5])
def test_shrunk_effects_are_nearer_than_means_and_than_none(each: int) -> None:
    residuals, names, true = _draw(400, each, between=0.06, within=0.1)

    found = np.array(list(find_effects(residuals, names).values()))

    means = residuals.reshape(400, each).mean(axis=1)
    error = np.square(found - true).mean()
    assert error < np.square(means - true).mean()
    assert error < np.square(true).mean()


def test_layers_that_are_alike_have_no_effects() -> None:
    residuals, names, _ = _draw(100, 4, between=0.0, within=0.1)

    found = np.array(list(find_effects(residuals, names).values()))

    means = residuals.reshape(100, 4).mean(axis=1)
    assert np.square(found).mean() < 0.5 * np.square(means).mean()


def test_outliers_stay_their_layers_own() -> None:
    residuals, names, true = _draw(60, 5, between=0.1, within=0.03)
    residuals[7] = 30.0

    found = np.array(list(find_effects(residuals, names).values()))

    assert found == pytest.approx(true, abs=0.1)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_samples_have_small_effects(count: int) -> None:
    found = find_effects(np.full(count, 0.2), [f"{place}" for place in range(count)])

    assert len(found) == count
    assert all(0 <= effect <= 0.2 for effect in found.values())


def test_spread_is_that_of_samples_around_their_groups_others_whatever_outliers_do() -> None:
    names = [str(place // 4) for place in range(4000)]
    residuals = np.repeat(RNG.normal(0, 0.3, 1000), 4) + RNG.normal(0, 0.05, 4000)
    residuals[::50] = 5.0

    found = find_spread(residuals, names)

    assert found is not None
    assert 0.05 < found < 0.07


def test_samples_without_others_of_their_group_have_no_spread() -> None:
    assert find_spread(np.zeros(20), [str(place) for place in range(20)]) is None

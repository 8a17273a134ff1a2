"""What layers take beyond their kernel's model, from few and noisy samples of each: best linear prediction.

A layer's own samples say more of it than the model of all layers does, but each is disturbed by noise, and by
what slices of one layer do not have in common. So a layer is believed by as much as layers differ more than
samples of one do: its mean residual shrinks towards the model.

Source:
    Robinson, That BLUP is a good thing, Statistical Science 6 (1991): random effects of a linear mixed model.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from codl.latency.known import Effect

Series = npt.NDArray[np.float64]
_LEAST_WITHIN, _LEAST_BETWEEN = 0.04, 0.02
"""Standard deviations: measurements are no better, and no model of ours is."""
_FEW = 8
"""Pairs of samples, or layers, from fewer of which no deviation is known."""
_CLIPPED = 0.7
"""Logarithm beyond which a residual says no more: what is twice as slow was measured wrongly."""
TO_DEVIATION = 1.4826
"""From the median of absolute deviations to the standard deviation of a normal distribution."""
TWO_OF_THREE = 100 * 0.6827
"""Percentile of what lies within a standard deviation where errors are normal."""


def find_effects(residuals: Series, groups: Sequence[str]) -> dict[str, float]:
    """Return by group the logarithm of its time over the model's.

    Args:
        residuals: [samples] Logarithms of measured over predicted times.
        groups: [samples] Which layer each is of.
    """
    names, inverse, found = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    counts = found.astype(np.float64)
    clipped = np.clip(residuals, -_CLIPPED, _CLIPPED)
    middles = _find_medians(clipped, inverse, found)
    within = _find_within(clipped - middles[inverse], counts[inverse])
    between = max(
        _find_deviation(middles) ** 2 - within**2 / max(counts.sum() / max(len(counts), 1), 1.0),
        _LEAST_BETWEEN**2,
    )
    shrunk = middles * counts / (counts + within**2 / between)
    return dict(zip(names.tolist(), shrunk.tolist(), strict=True))


def find_layer_effects(
    residuals: Series, groups: Sequence[str], is_cut: npt.NDArray[np.bool_]
) -> dict[str, Effect]:
    """Return by layer what its slices take over the model's time, those with all channels and others.

    What both have in common is found from all samples, and from those of either sort what it takes beyond.

    Args:
        residuals: As in `find_effects`.
        groups: As in `find_effects`.
        is_cut: [samples] Which are of slices with some of the channels only.

    Source:
        Logs of a Zen 3, Intel's driver and PoCL by one core each, then by both cores. By one effect a layer
        91.7, 90.4, 88.1 and 87.8 % of slices of known layers are predicted within 10 %, by two 92.0, 90.9,
        88.1 and 88.1; of concatenations 76, 79, 71 and 68 %, by two 80, 80, 73 and 70.
    """
    layers = np.asarray(groups)
    shared = find_effects(residuals, groups)
    rest = residuals - np.array([shared[layer] for layer in layers.tolist()])
    whole, cut = (find_effects(rest[some], layers[some].tolist()) for some in (~is_cut, is_cut))
    return {
        layer: Effect(both + whole.get(layer, 0.0), both + cut.get(layer, 0.0))
        for layer, both in shared.items()
    }


def find_spread(residuals: Series, groups: Sequence[str]) -> float | None:
    """Return how far two of three samples lie from the mean of their group's others; None from few.

    Args:
        residuals: As in `find_effects`.
        groups: As in `find_effects`.
    """
    _, inverse, counts = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    clipped = np.clip(residuals, -_CLIPPED, _CLIPPED)
    others = counts[inverse] - 1
    sums = np.bincount(inverse, weights=clipped)[inverse]
    is_one_of_some = others > 0
    if is_one_of_some.sum() < _FEW:
        return None
    away = clipped - (sums - clipped) / np.maximum(others, 1)
    return float(np.percentile(np.abs(away[is_one_of_some]), TWO_OF_THREE))


def _find_medians(values: Series, inverse: npt.NDArray[np.intp], counts: npt.NDArray[np.intp]) -> Series:
    """Return the median of each group's values, [groups].

    Args:
        values: [samples]
        inverse: [samples] The number of the group that each is of.
        counts: [groups] Its values, one at least.
    """
    ordered = values[np.lexsort((values, inverse))]
    first = np.cumsum(counts) - counts
    return np.asarray((ordered[first + (counts - 1) // 2] + ordered[first + counts // 2]) / 2)


def _find_within(differences: Series, counts: Series) -> float:
    """Return the standard deviation of samples of one layer."""
    some = counts > 1
    if some.sum() < _FEW:
        return 2 * _LEAST_WITHIN
    grown = differences[some] * np.sqrt(counts[some] / (counts[some] - 1))
    return max(_find_deviation(grown), _LEAST_WITHIN)


def _find_deviation(values: Series) -> float:
    """Return the standard deviation about 0, whatever a few outliers do; 0 of nothing."""
    if not len(values):
        return 0.0
    return TO_DEVIATION * float(np.median(np.abs(values)))

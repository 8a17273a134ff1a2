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
    middles = np.array([np.median(clipped[inverse == place]) for place in range(len(names))])
    within = _find_within(clipped - middles[inverse], counts[inverse])
    between = max(
        _find_deviation(middles) ** 2 - within**2 / max(counts.sum() / max(len(counts), 1), 1.0),
        _LEAST_BETWEEN**2,
    )
    shrunk = middles * counts / (counts + within**2 / between)
    return dict(zip(names.tolist(), shrunk.tolist(), strict=True))


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

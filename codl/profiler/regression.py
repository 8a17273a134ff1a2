"""Least squares with coefficients that are never negative, by relative error.

The only module that needs scikit-learn. It is for the offline stage; sessions do not import it.

Squared relative errors, re-weighted until the sum of absolute ones is least: half of the samples then lie
above the prediction and half below, and the few that a neighbour spoiled pull on nothing.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from codl.errors import ProfileError
from codl.latency.features import FloatMatrix, is_special, stage_of
from codl.latency.linear import LinearModel

try:
    from sklearn import config_context
    from sklearn.linear_model import LinearRegression
except ImportError:
    LinearRegression = None

Times = npt.NDArray[np.float64]
_ROUNDS, _MORE_ROUNDS = 5, 3
"""Of weighting anew: from equal weights, and from those of a model that is nearly right."""
_LEAST_ERROR = 0.05
"""Relative error below which a sample weighs no more: measurements are no better."""
_RIDGE, _SPECIAL_RIDGE = 1e-5, 0.1
"""What a feature's squared share of the time costs, in squared errors of the samples that have it.

Few samples can tell few features apart: those that always come together share their time. What is of one
program alone is believed only where its samples ask for it.
"""
_LEAST_SHARE = 0.02
"""Of the time of any sample; features that never take as much are left out."""
_TRACE = 0.05
"""Of a feature that counts what lies beyond a size: less of what lies beyond a smaller one tells nothing."""
_LEAST_SEEN = 4
"""Samples with more than a trace, without which what lies beyond a size is not told from other things."""
_SIZE = re.compile(r"_\d+[KM]iB\b")


def predict(model: LinearModel, names: Sequence[str], values: FloatMatrix) -> Times:
    """Return what a model says to features of these names."""
    places = [list(names).index(name) for name in model.features]
    return model.predict_us(values[:, places])


def fit_linear(
    names: Sequence[str], values: FloatMatrix, us: Times, *, start: LinearModel | None = None
) -> LinearModel:
    """Return the model of least absolute relative error; features that it does not need are left out.

    Args:
        names: Features.
        values: [samples, features].
        us: Measured times.
        start: A model of such samples that is nearly right; it has all features that are needed.
    """
    relative = values * _find_seen(names, values) / us[:, None]
    ridge = np.array([_SPECIAL_RIDGE if is_special(name) else _RIDGE for name in names])
    coefficients = np.zeros(len(names))
    if start is None:
        coefficients = _fit_relative(relative, ridge, np.ones(len(us)), _ROUNDS)
        kept = np.flatnonzero((relative * coefficients).max(axis=0, initial=0.0) >= _LEAST_SHARE)
    else:
        kept = np.array([names.index(name) for name in start.features], np.int64)
        coefficients[kept] = start.coefficients
    weights = _weigh(relative @ coefficients)
    coefficients = np.zeros(len(names))
    coefficients[kept] = _fit_relative(relative[:, kept], ridge[kept], weights, _MORE_ROUNDS)
    used = [
        place for place in range(len(names)) if coefficients[place] * values[:, place].max(initial=0.0) > 0
    ]
    known = {stage_of(names[place]) for place in used}
    for place, name in enumerate(names):  # a stage that costs nothing is known all the same
        if stage_of(name) not in known:
            known.add(stage_of(name))
            used.append(place)
    return LinearModel(
        features=tuple(names[place] for place in used),
        coefficients=tuple(max(float(coefficients[place]), 1e-12) for place in used),
        low=tuple(float(values[:, place].min(initial=np.inf)) for place in used),
        high=tuple(float(values[:, place].max(initial=0.0)) for place in used),
    )


def _find_seen(names: Sequence[str], values: FloatMatrix) -> npt.NDArray[np.bool_]:
    """Return which features were seen often enough, among those that count beyond some size each.

    Source:
        A kernel of which two samples had 2304 of 2 million outputs beyond 16 MiB seemed to need 60 ns for
        each, and an image of 16 MiB seven times what it takes. Of another one two of 150 samples had as
        many as a million, and rare things besides; 26 million then seemed to take 67 ms, of 12 in all.
    """
    sorts = [_SIZE.sub("", name) for name in names]
    greatest: dict[str, float] = {}
    for sort, value in zip(sorts, values.max(axis=0, initial=0.0).tolist(), strict=True):
        greatest[sort] = max(greatest.get(sort, 0.0), value)
    seen = values >= np.maximum(_TRACE * np.array([greatest[sort] for sort in sorts]), 1e-300)
    is_sized = np.array([sort != name for sort, name in zip(sorts, names, strict=True)], bool)
    return np.asarray(~is_sized | (seen.sum(axis=0) >= _LEAST_SEEN))


def _fit_relative(relative: FloatMatrix, ridge: Times, weights: Times, rounds: int) -> Times:
    """Return coefficients [features] by which rows sum to 1, or nearly.

    Args:
        relative: Features over measured times, [samples, features].
        ridge: Of each feature, as `_RIDGE` says.
        weights: [samples] To begin with.
        rounds: How often to weight anew.
    """
    scales = np.maximum(np.sqrt(np.square(relative).sum(axis=0)), 1e-300)
    scaled = relative / scales
    coefficients = np.zeros(len(ridge))
    for _ in range(rounds if len(ridge) else 0):
        matrix = np.concatenate([scaled * weights[:, None], np.diag(np.sqrt(ridge))])
        coefficients = solve_non_negative(matrix, np.concatenate([weights, np.zeros(len(ridge))]))
        weights = _weigh(scaled @ coefficients)
    return np.asarray(coefficients / scales)


def _weigh(sums: Times) -> Times:
    """Return weights [samples], 1 on average, that make squares of what sums miss 1 by absolute values."""
    weights = 1 / np.sqrt(np.maximum(np.abs(sums - 1), _LEAST_ERROR))
    return np.asarray(weights / max(float(np.sqrt(np.mean(np.square(weights)))), 1e-300))


def check_installed() -> None:
    """Raise an error when scikit-learn is missing, or return silently; a session never needs it.

    Raises:
        ProfileError: It is.
    """
    if LinearRegression is None:
        raise ProfileError(
            "scikit-learn: got no such package, expected what fits latency models; "
            "run `pip install codl[profile]`"
        )


def solve_non_negative(matrix: Any, target: Any) -> Times:
    """Return x >= 0 that makes |matrix x - target| least.

    Args:
        matrix: [rows, columns].
        target: [rows].

    Raises:
        ProfileError: scikit-learn is not installed.
    """
    check_installed()
    solution = np.zeros(matrix.shape[1])
    used = np.flatnonzero(np.abs(matrix).max(axis=0, initial=0.0) > 0)
    if len(used):
        fit = LinearRegression(positive=True, fit_intercept=False)
        with config_context(assume_finite=True, skip_parameter_validation=True):  # a third of its time
            solution[used] = fit.fit(matrix[:, used], target).coef_
    return solution

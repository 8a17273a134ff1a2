"""Latency models fitted to samples: least squares of relative errors, no coefficient negative.

Squared relative errors are re-weighted until the sum of absolute ones is least: half of the samples then lie
above the prediction and half below, and a few disturbed samples have little influence. No other module needs
scikit-learn.
"""

import json
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from codl.catalog.source import digest_row
from codl.catalog.spec import Implementation
from codl.errors import ProfileError
from codl.latency.features import FEATURES, FLOPS, FloatMatrix
from codl.latency.linear import LinearModel
from codl.latency.profile import ROWS, Quality, RowModel
from codl.machine import DeviceInfo
from codl.profiler.log import Sample
from codl.profiler.samples import describe_samples, find_time_us

try:
    from sklearn import config_context
    from sklearn.linear_model import LinearRegression
except ImportError:
    LinearRegression = None

Times = npt.NDArray[np.float64]
LEAST_SAMPLES = 6
"""A kernel with fewer gets no latency model."""
_ROUNDS = 5
"""Fits, each with the weights of the one before."""
_LEAST_ERROR = 0.05
"""Relative error below which the weight of a sample stays the same: measurements are no better."""
_RIDGE = 1e-4
"""Penalty of a feature's squared share of the time: features that always come together share their time."""
_HELD_OUT, _SPLITS = 0.3, 6
_BASELINE = ("launches", FLOPS)


def fit_rows(
    samples: Sequence[Sample], references: Mapping[str, float], info: DeviceInfo
) -> dict[str, RowModel]:
    """Return the latency model of each kernel that has enough samples.

    Args:
        samples: Of all kernels.
        references: Times of the reference kernels in us.
        info: The device.
    """
    by_row: dict[str, dict[str, list[Sample]]] = {}
    for sample in samples:
        by_row.setdefault(sample.row, {}).setdefault(sample.key, []).append(sample)
    found = {}
    for name, cases in by_row.items():
        if name in ROWS and len(cases) >= LEAST_SAMPLES:
            us = [np.median([find_time_us(one, references) for one in taken]) for taken in cases.values()]
            firsts = [taken[0] for taken in cases.values()]
            values = describe_samples(firsts, ROWS[name], info)
            found[name] = fit_row(ROWS[name], firsts, values, np.array(us))
    return found


def fit_row(row: Implementation, samples: Sequence[Sample], values: FloatMatrix, us: Times) -> RowModel:
    """Return the latency model of a kernel with its quality on held-out layers.

    Args:
        row: The kernel.
        samples: Each case once.
        values: [samples, features]
        us: [samples]
    """
    layers = [json.dumps(sample.layer) for sample in samples]
    quality, error = _examine(values, us, layers)
    flops = values[:, FEATURES.index(FLOPS)]
    return RowModel(
        model=fit_model(FEATURES, values, us),
        digest=digest_row(row),
        quality=quality,
        error=error,
        flop_us=float(np.median(us / np.maximum(flops, 1.0))) if np.any(flops) else 0.0,
        longest_us=float(us.max()),
    )


def _examine(values: FloatMatrix, us: Times, layers: Sequence[str]) -> tuple[Quality, float]:
    """Return how well layers are predicted by the others, and the relative error that 2 of 3 stay within."""
    ratios, naive = [np.zeros(0)], [np.zeros(0)]
    baseline = [FEATURES.index(name) for name in _BASELINE]
    for turn in range(_SPLITS):
        held = split(layers, turn)
        if held.all() or not held.any():
            continue
        ratios.append(values[held] @ fit_linear(values[~held], us[~held]) / us[held])
        known = values[:, baseline]
        naive.append(known[held] @ fit_linear(known[~held], us[~held]) / us[held])
    errors, flops = np.abs(np.concatenate(ratios) - 1), np.abs(np.concatenate(naive) - 1)
    if not len(errors):
        return Quality(samples=0, pm5=0.0, pm10=0.0, rmspe=1.0, flops_pm10=0.0), 1.0
    quality = Quality(
        samples=round(len(errors) / (len(ratios) - 1)),
        pm5=float(np.mean(errors <= 0.05)),
        pm10=float(np.mean(errors <= 0.10)),
        rmspe=float(np.sqrt(np.mean(np.square(errors)))),
        flops_pm10=float(np.mean(flops <= 0.10)),
    )
    return quality, float(np.quantile(errors, 2 / 3))


def split(layers: Sequence[str], turn: int) -> npt.NDArray[np.bool_]:
    """Return which samples are held out: all of about 30 % of the layers.

    Args:
        layers: [samples] Equal names for samples of one layer.
        turn: Number of the split.
    """
    distinct = sorted(set(layers))
    count = max(1, round(_HELD_OUT * len(distinct)))
    chosen = np.random.default_rng(turn).permutation(len(distinct))[:count]
    names = {distinct[place] for place in chosen}
    return np.array([layer in names for layer in layers])


def fit_model(names: Sequence[str], values: FloatMatrix, us: Times) -> LinearModel:
    """Return the model over features of these names, with the coefficients of `fit_linear`."""
    coefficients = fit_linear(values, us).tolist()
    return LinearModel({name: us for name, us in zip(names, coefficients, strict=True) if us})


def fit_linear(values: FloatMatrix, us: Times) -> Times:
    """Return the coefficients [features] of least absolute relative error, none of them negative.

    Args:
        values: [samples, features]
        us: [samples] Measured times.

    Raises:
        ProfileError: scikit-learn is not installed.
    """
    relative = values / us[:, None]
    scales = np.maximum(np.sqrt(np.square(relative).sum(axis=0)), 1e-300)
    scaled, weights = relative / scales, np.ones(len(us))
    ridge = np.sqrt(_RIDGE) * np.eye(values.shape[1])
    solution = np.zeros(values.shape[1])
    for _ in range(_ROUNDS):
        matrix = np.concatenate([scaled * weights[:, None], ridge])
        solution = solve_non_negative(matrix, np.concatenate([weights, np.zeros(len(ridge))]))
        weights = 1 / np.sqrt(np.maximum(np.abs(scaled @ solution - 1), _LEAST_ERROR))
        weights /= np.sqrt(np.mean(np.square(weights)))
    return np.asarray(solution / scales)


def check_installed() -> None:
    """Raise `ProfileError` when scikit-learn is missing, or return silently."""
    if LinearRegression is None:
        raise ProfileError(
            "scikit-learn: got no such package, expected it to fit latency models; "
            "run `pip install codl[profile]`"
        )


def solve_non_negative(matrix: FloatMatrix, target: Times) -> Times:
    """Return x >= 0 that makes |matrix x - target| least.

    Raises:
        ProfileError: scikit-learn is not installed.
    """
    check_installed()
    fit = LinearRegression(positive=True, fit_intercept=False)
    with config_context(assume_finite=True, skip_parameter_validation=True):  # a third of its time
        return np.asarray(fit.fit(matrix, target).coef_)

"""A linear model of time: named features, coefficients that are never negative, and where it was fitted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from codl.errors import ProfileError
from codl.latency.features import Features, FloatMatrix

_SLACK = 1.5
"""By how much a feature may leave the range of the samples before a prediction is called extrapolated."""
LARGEST_US = 1e9
"""A coefficient or range above this is no time of a kernel."""
MOST_FEATURES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearModel:
    """Time in us as a sum of features times coefficients."""

    features: tuple[str, ...]
    coefficients: tuple[float, ...]
    """Microseconds for one of each feature."""
    low: tuple[float, ...]
    """Least value of each feature among the samples."""
    high: tuple[float, ...]
    """Greatest value of each feature among the samples."""

    def predict_us(self, values: FloatMatrix) -> npt.NDArray[np.float64]:
        """Return times [count] for feature values [count, features]."""
        # not `@`, whose last bits depend on a row's place among the others
        return np.asarray(np.einsum("...f,f->...", values, np.asarray(self.coefficients, np.float64)))

    def predict_launches_us(self, features: Features) -> npt.NDArray[np.float64]:
        """Return times [count] of launches: no feature that costs nothing is looked at."""
        us = np.zeros(len(features.flops))
        for name, coefficient in zip(self.features, self.coefficients, strict=True):
            column = features.find(name)
            if coefficient and column is not None:
                us += column * coefficient
        return us

    def is_outside(self, values: FloatMatrix) -> npt.NDArray[np.bool_]:
        """Return for each candidate whether some feature lies outside what was sampled."""
        low, high = np.asarray(self.low) / _SLACK, np.asarray(self.high) * _SLACK
        return np.asarray(((values < low) | (values > high)).any(axis=1))

    def scaled(self, factors: Mapping[str, float], default: float) -> "LinearModel":
        """Return the model with each coefficient multiplied by the factor of its feature."""
        pairs = zip(self.features, self.coefficients, strict=True)
        return LinearModel(
            features=self.features,
            coefficients=tuple(value * factors.get(name, default) for name, value in pairs),
            low=self.low,
            high=self.high,
        )


def format_model(model: LinearModel) -> dict[str, Any]:
    """Return a model as JSON values: coefficients of six digits, ranges, which have some slack, of four."""
    return {
        "features": list(model.features),
        "us": [float(f"{value:.6g}") for value in model.coefficients],
        "low": [float(f"{value:.4g}") for value in model.low],
        "high": [float(f"{value:.4g}") for value in model.high],
    }


def parse_model(told: Any, where: str) -> LinearModel:
    """Return the model in JSON values.

    Raises:
        ProfileError: It is none: not an object, features without coefficients, a number that is no time.
    """
    if not isinstance(told, dict):
        raise ProfileError(f"{where}: got {type(told).__name__}, expected an object")
    names = told.get("features")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ProfileError(f"{where}.features: got {_show(names)}, expected a list of names")
    if not 0 < len(names) <= MOST_FEATURES or len(set(names)) < len(names):
        raise ProfileError(
            f"{where}.features: got {len(names)} names, expected 1 to {MOST_FEATURES}, each once"
        )
    return LinearModel(
        features=tuple(names),
        coefficients=_read_numbers(told, where, "us", len(names), LARGEST_US),
        low=_read_numbers(told, where, "low", len(names), 1e18),
        high=_read_numbers(told, where, "high", len(names), 1e18),
    )


def _read_numbers(
    told: Mapping[str, Any], where: str, name: str, count: int, largest: float
) -> tuple[float, ...]:
    values = told.get(name)
    if not isinstance(values, list) or len(values) != count:
        raise ProfileError(f"{where}.{name}: got {_show(values)}, expected {count} numbers, one a feature")
    return tuple(read_number(value, f"{where}.{name}", largest=largest) for value in values)


def read_number(value: Any, where: str, *, largest: float = LARGEST_US, least: float = 0.0) -> float:
    """Return a finite number in a range.

    Raises:
        ProfileError: It is no such number.
    """
    if type(value) not in (int, float) or not least <= value <= largest:
        raise ProfileError(f"{where}: got {_show(value)}, expected a number from {least:g} to {largest:g}")
    return float(value)


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def join_ranges(values: Sequence[FloatMatrix]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the least and the greatest value of each column."""
    stacked = np.concatenate(values)
    return tuple(stacked.min(axis=0).tolist()), tuple(stacked.max(axis=0).tolist())

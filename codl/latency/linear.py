"""A linear model of time: named features with coefficients that are never negative."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from codl.errors import ProfileError

LARGEST_US = 1e9
"""A coefficient above this is no time of a kernel."""
_MOST_FEATURES = 64


@dataclass(frozen=True, slots=True)
class LinearModel:
    """Time in us as a sum of features times coefficients."""

    coefficients: Mapping[str, float]
    """Feature -> microseconds for one of it; features that take no time are left out."""

    def align(self, names: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return the coefficients in the order of some names, [names]."""
        return np.array([self.coefficients.get(name, 0.0) for name in names])

    def predict_us(self, names: Sequence[str], values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return times [count] for values [count, names]."""
        # not `@`, whose last bits depend on a row's place among the others
        return np.asarray(np.einsum("...f,f->...", values, self.align(names)))

    def scaled(self, factors: Mapping[str, float], default: float) -> "LinearModel":
        """Return the model with each coefficient multiplied by the factor of its feature."""
        return LinearModel({name: us * factors.get(name, default) for name, us in self.coefficients.items()})


def format_model(model: LinearModel) -> dict[str, float]:
    """Return a model as JSON values, of five digits."""
    return {name: float(f"{us:.5g}") for name, us in model.coefficients.items() if us}


def parse_model(told: Any, where: str) -> LinearModel:
    """Return the model in JSON values.

    Raises:
        ProfileError: It is none: not an object of names and times, or one that takes no time at all.
    """
    if not isinstance(told, dict) or not 0 < len(told) <= _MOST_FEATURES:
        raise ProfileError(f"{where}: got {_show(told)}, expected 1 to {_MOST_FEATURES} features")
    found = {name: read_number(us, f"{where}.{name}") for name, us in told.items()}
    if not any(found.values()):
        raise ProfileError(f"{where}: got zeros only, expected something that takes time")
    return LinearModel(found)


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

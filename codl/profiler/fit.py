"""From samples to predictors: least squares with coefficients that are never negative, by relative error.

The only module that needs scikit-learn. It is for the offline stage; sessions do not import it.

Squared relative errors, re-weighted until the sum of absolute ones is least: half of the samples then lie
above the prediction and half below, and the few that a neighbour spoiled pull on nothing.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from codl.errors import ProfileError
from codl.latency.features import FloatMatrix, is_special, stage_of
from codl.latency.linear import LinearModel
from codl.latency.profile import Quality
from codl.profiler.effects import TWO_OF_THREE, find_effects, find_spread

try:
    from sklearn import config_context
    from sklearn.linear_model import LinearRegression
except ImportError:
    LinearRegression = None

Times = npt.NDArray[np.float64]
HELD_OUT = 0.3
_EXAMINED, _MOST_SPLITS, _FEW_SPLITS = 400, 8, 3
"""Samples that examine a row, of several splits together, and splits at most; and where time is short.

Source:
    Rows of 350 samples, half of which examine, Zen 4: by twelve splits of one log 72 to 94 % of 45 samples
    are predicted within 10 %, 85 +- 6 %; what one split says of such a row is luck.
"""
_ROUNDS = 5
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
_LEAST_US = 1e-9
_UNKNOWN = Quality(samples=0, pm5=0.0, pm10=0.0, rmspe=1.0, flops_pm10=0.0)


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A model and how it did on samples that it did not see, then fitted to all."""

    model: LinearModel
    effects: Mapping[str, float]
    """Layer -> logarithm of its time over the model's."""
    quality: Quality
    """For layers that taught nothing."""
    known: Quality
    """For samples that taught nothing, of layers others of which did."""
    doubt: float | None = None
    """Relative error that two of three samples of `quality` stay within; None of none."""
    known_doubt: float | None = None
    """How far two of three samples lie from what others of their layers say; None from few."""
    errors: Times
    """Relative error of each sample under the final model, predicted / measured - 1."""
    unseen_us: Times
    """What the examined model says to samples it has not seen; NaN for those that taught it."""


def fit_row(
    names: Sequence[str],
    values: FloatMatrix,
    us: Times,
    *,
    flops: Times,
    groups: Sequence[str],
    layers: Sequence[str],
    is_chosen: npt.NDArray[np.bool_],
    is_examined: bool = True,
) -> Fitted:
    """Return the predictor of one implementation.

    Args:
        names: Features.
        values: [samples, features].
        us: Measured times.
        flops: Arithmetic of each sample, for the baseline.
        groups: What must not stand on both sides of the split: samples of one layer have equal names.
        layers: What has an effect of its own: samples of one layer by one program.
        is_chosen: Which samples were taken because their like were predicted badly. They teach, but examine
            nobody as long as there are others: the examination is on the workload as it is.
        is_examined: Whether to find out well how samples are predicted that taught nothing; without, what is
            known of layers is examined roughly and of new ones not at all, in a third of the time.
    """
    lesson = _Lesson(names=names, values=values, us=us, flops=flops, layers=np.asarray(layers))
    model = fit_linear(names, values, us)
    effects = lesson.find_effects(model, np.ones(len(us), bool))
    errors, unseen = predict(model, names, values) / us - 1, np.full(len(us), np.nan)
    each = [f"{place:06}" for place in range(len(us))]
    known = lesson.examine(each, is_chosen, splits=_MOST_SPLITS if is_examined else _FEW_SPLITS)
    fitted = Fitted(
        model=model,
        effects=effects,
        quality=_UNKNOWN,
        known=known.quality,
        errors=errors,
        unseen_us=unseen,
    )
    if not is_examined:
        return fitted
    new = lesson.examine(groups, is_chosen)
    unseen[new.places] = new.predicted
    doubts = np.abs(new.predicted / us[new.places] - 1)
    return replace(
        fitted,
        quality=new.quality,
        doubt=float(np.percentile(doubts, TWO_OF_THREE)) if len(doubts) else None,
        known_doubt=find_spread(lesson.find_residuals(model), lesson.layers.tolist()),
    )


@dataclass(frozen=True, kw_only=True)
class _Examination:
    """What was predicted for samples that taught nothing, in all splits."""

    quality: Quality
    places: npt.NDArray[np.int64]
    """Of the samples, split after split."""
    predicted: Times
    """For each of them, by what its split was taught."""


@dataclass(frozen=True, kw_only=True)
class _Lesson:
    """Samples of one implementation, [samples] each."""

    names: Sequence[str]
    values: FloatMatrix
    """[samples, features]"""
    us: Times
    flops: Times
    layers: npt.NDArray[np.str_]

    def find_effects(self, model: LinearModel, learned: npt.NDArray[np.bool_]) -> dict[str, float]:
        """Return what layers take beyond a model, from some of the samples."""
        return find_effects(self.find_residuals(model)[learned], self.layers[learned].tolist())

    def find_residuals(self, model: LinearModel) -> Times:
        """Return the logarithms of what samples take over what a model says."""
        plain = np.maximum(predict(model, self.names, self.values), _LEAST_US)
        return np.asarray(np.log(self.us / plain))

    def predict(self, model: LinearModel, effects: Mapping[str, float]) -> Times:
        """Return what a model says with what is known of layers."""
        logs = np.array([effects.get(layer, 0.0) for layer in self.layers.tolist()])
        return np.asarray(predict(model, self.names, self.values) * np.exp(logs))

    def examine(
        self, groups: Sequence[str], is_chosen: npt.NDArray[np.bool_], *, splits: int = _MOST_SPLITS
    ) -> _Examination:
        """Return how well samples are predicted by others, over as many splits as tell it.

        Args:
            groups: As in `fit_row`.
            is_chosen: As in `fit_row`.
            splits: No more than these.
        """
        baseline, work = ("launches", "flops"), np.stack([np.ones(len(self.us)), self.flops], axis=1)
        places: list[npt.NDArray[np.int64]] = []
        predicted: list[Times] = []
        naive: list[Times] = []
        while len(places) < splits and sum(len(some) for some in places) < _EXAMINED:
            held, learned = split_examined(groups, is_chosen, len(places))
            model = fit_linear(self.names, self.values[learned], self.us[learned])
            places.append(np.flatnonzero(held))
            predicted.append(self.predict(model, self.find_effects(model, learned))[held])
            naive.append(predict(fit_linear(baseline, work[learned], self.us[learned]), baseline, work[held]))
        all_places, all_predicted = np.concatenate(places), np.concatenate(predicted)
        us = self.us[all_places]
        quality = Quality(
            samples=round(len(us) / len(places)),
            pm5=share_within(all_predicted, us, 0.05),
            pm10=share_within(all_predicted, us, 0.10),
            rmspe=float(np.sqrt(np.mean((all_predicted / us - 1) ** 2))) if len(us) else 1.0,
            flops_pm10=share_within(np.concatenate(naive), us, 0.10),
        )
        return _Examination(quality=quality, places=all_places, predicted=all_predicted)


def split_examined(
    groups: Sequence[str], is_chosen: npt.NDArray[np.bool_], turn: int = 0
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which samples examine a model, at least one of two or more, and which teach it.

    Args:
        groups: As in `fit_row`.
        is_chosen: As in `fit_row`.
        turn: Number of the split.
    """
    away = split(groups, turn)
    held = away & ~is_chosen
    if held.any():
        return held, ~away
    others = np.flatnonzero(~is_chosen) if not is_chosen.all() else np.arange(len(groups))
    held[others[split([groups[int(place)] for place in others], turn)]] = True
    if not held.any() and len(groups) > 1:  # of one or two, a share rounds to none
        held[others[0]] = True
    return held, ~held


def split(groups: Sequence[str], turn: int = 0) -> npt.NDArray[np.bool_]:
    """Return which samples are held out: about 30 %, whole layers where there are enough of them.

    Args:
        groups: As in `fit_row`.
        turn: Number of the split, others of which hold others out.
    """
    distinct = sorted(set(groups))
    rng = np.random.default_rng(turn)
    if len(distinct) >= 8:
        chosen = rng.permutation(len(distinct))[: round(HELD_OUT * len(distinct))]
        names = {distinct[place] for place in chosen}
        held = np.array([group in names for group in groups])
        if 0.15 <= held.mean() <= 0.45:
            return held
    held = np.zeros(len(groups), bool)
    held[rng.permutation(len(groups))[: round(HELD_OUT * len(groups))]] = True
    return held


def share_within(predicted: Times, measured: Times, error: float) -> float:
    """Return the share of predictions whose relative error is at most ``error``; 0 of nothing."""
    return float(np.mean(np.abs(predicted / measured - 1) <= error)) if len(measured) else 0.0


def predict(model: LinearModel, names: Sequence[str], values: FloatMatrix) -> Times:
    """Return what a model says to features of these names."""
    places = [list(names).index(name) for name in model.features]
    return model.predict_us(values[:, places])


def fit_linear(names: Sequence[str], values: FloatMatrix, us: Times) -> LinearModel:
    """Return the model of least absolute relative error; features that it does not need are left out."""
    relative = values * _find_seen(names, values) / us[:, None]
    ridge = np.array([_SPECIAL_RIDGE if is_special(name) else _RIDGE for name in names])
    coefficients = _fit_relative(relative, ridge)
    shares = (relative * coefficients).max(axis=0, initial=0.0)
    kept = np.flatnonzero(shares >= _LEAST_SHARE)
    coefficients = np.zeros(len(names))
    coefficients[kept] = _fit_relative(relative[:, kept], ridge[kept])
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


def _fit_relative(relative: FloatMatrix, ridge: Times) -> Times:
    """Return coefficients [features] by which rows sum to 1, or nearly.

    Args:
        relative: Features over measured times, [samples, features].
        ridge: Of each feature, as `_RIDGE` says.
    """
    scales = np.maximum(np.sqrt(np.square(relative).sum(axis=0)), 1e-300)
    scaled = relative / scales
    weights = np.ones(len(relative))
    coefficients = np.zeros(len(ridge))
    for _ in range(_ROUNDS if len(ridge) else 0):
        matrix = np.concatenate([scaled * weights[:, None], np.diag(np.sqrt(ridge))])
        coefficients = solve_non_negative(matrix, np.concatenate([weights, np.zeros(len(ridge))]))
        errors = np.abs(scaled @ coefficients - 1)
        weights = 1 / np.sqrt(np.maximum(errors, _LEAST_ERROR))
        weights /= max(float(np.sqrt(np.mean(np.square(weights)))), 1e-300)
    return np.asarray(coefficients / scales)


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

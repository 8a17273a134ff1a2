"""From samples to predictors: a model of all layers, what layers take beyond it, how well that predicts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from codl.latency.features import FloatMatrix
from codl.latency.known import Effect, find_factors
from codl.latency.linear import LinearModel
from codl.latency.profile import Quality
from codl.profiler.effects import TWO_OF_THREE, find_layer_effects, find_spread
from codl.profiler.regression import Times, fit_linear, predict

HELD_OUT = 0.3
_EXAMINED, _MOST_SPLITS, _FEW_SPLITS = 400, 8, 3
"""Samples that examine a row, of several splits together, and splits at most; and where time is short.

Source:
    Rows of 350 samples, half of which examine, Zen 4: by twelve splits of one log 72 to 94 % of 45 samples
    are predicted within 10 %, 85 +- 6 %; what one split says of such a row is luck.
"""
_LEAST_US = 1e-9
_UNKNOWN = Quality(samples=0, pm5=0.0, pm10=0.0, rmspe=1.0, flops_pm10=0.0)


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A model and how it did on samples that it did not see, then fitted to all."""

    model: LinearModel
    effects: Mapping[str, Effect]
    """Layer -> what it takes over the model's time."""
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
    is_cut: npt.NDArray[np.bool_],
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
        is_cut: [samples] Which are of slices with some of the channels only.
        is_chosen: Which samples were taken because their like were predicted badly. They teach, but examine
            nobody as long as there are others: the examination is on the workload as it is.
        is_examined: Whether to find out well how samples are predicted that taught nothing; without, what is
            known of layers is examined roughly and of new ones not at all, in a third of the time.
    """
    lesson = _Lesson(names=names, values=values, us=us, flops=flops, layers=np.asarray(layers), is_cut=is_cut)
    model, effects = lesson.learn(np.ones(len(us), bool))
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
    is_cut: npt.NDArray[np.bool_]

    def learn(self, learned: npt.NDArray[np.bool_]) -> tuple[LinearModel, dict[str, Effect]]:
        """Return a model and what layers take beyond it, from some of the samples.

        What layers take beyond a first model is taken off their times, and the model is fitted again: what
        is left tells features apart by what slices of one layer differ in.

        Source:
            Logs of a Zen 3, Intel's driver and PoCL by one core each, then by both cores: 92.0, 90.8, 88.0
            and 88.1 % of slices of known layers are predicted within 10 % where each layer has two effects,
            by one and the first model 91.4, 90.2, 87.9 and 87.4; of layers never seen 89.0, 87.2, 85.0 and
            84.5, by the first 88.9, 87.4, 85.0 and 84.4. A third model changes nothing.
        """
        values, us = self.values[learned], self.us[learned]
        first = fit_linear(self.names, values, us)
        own = self._find_factors(self.find_effects(first, learned))[learned]
        model = fit_linear(self.names, values, us / own, start=first)
        return model, self.find_effects(model, learned)

    def find_effects(self, model: LinearModel, learned: npt.NDArray[np.bool_]) -> dict[str, Effect]:
        """Return what layers take beyond a model, from some of the samples."""
        residuals = self.find_residuals(model)[learned]
        return find_layer_effects(residuals, self.layers[learned].tolist(), self.is_cut[learned])

    def find_residuals(self, model: LinearModel) -> Times:
        """Return the logarithms of what samples take over what a model says."""
        plain = np.maximum(predict(model, self.names, self.values), _LEAST_US)
        return np.asarray(np.log(self.us / plain))

    def predict(self, model: LinearModel, effects: Mapping[str, Effect]) -> Times:
        """Return what a model says with what is known of layers."""
        return np.asarray(predict(model, self.names, self.values) * self._find_factors(effects))

    def _find_factors(self, effects: Mapping[str, Effect]) -> Times:
        layers = self.layers.tolist()
        return find_factors(effects, layers, [1] * len(layers), self.is_cut)

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
            places.append(np.flatnonzero(held))
            predicted.append(self.predict(*self.learn(learned))[held])
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

"""What a lesson leaves in a profile."""

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from codl.catalog.layers import Layer
from codl.catalog.table import IMPLEMENTATIONS
from codl.latency.known import Effect
from codl.latency.linear import LinearModel
from codl.latency.profile import Quality
from codl.profiler.fit import Fitted
from codl.profiler.survey import SETTLED
from codl.profiler.training import UNSETTLED, Lesson, keep_settled, mark_sample
from tests.profiler.layers import small_layers
from tests.profiler.test_log import sample


def learn(layers: Sequence[Layer], spreads: Sequence[float], effects: Sequence[float]) -> Lesson:
    """Return a lesson of samples of some layers, of which later ones are predicted worse."""
    count, own = len(layers), [Effect(effect, effect) for effect in effects]
    samples = tuple(replace(sample(layer.key), layer=json.loads(layer.key)) for layer in layers)
    quality = Quality(samples=1, pm5=1.0, pm10=1.0, rmspe=0.0, flops_pm10=0.0)
    fitted = Fitted(
        model=LinearModel(features=("launches",), coefficients=(1.0,), low=(1.0,), high=(1.0,)),
        effects=dict(zip(map(mark_sample, samples), own, strict=True)),
        quality=quality,
        known=quality,
        errors=np.arange(count) / count,
        unseen_us=np.zeros(count),
    )
    return Lesson(
        row=IMPLEMENTATIONS[0],
        fitted=fitted,
        samples=samples,
        us=np.ones(count),
        spreads=np.asarray(spreads),
    )


def test_layers_of_networks_leave_marks_and_their_relatives_none() -> None:
    real = small_layers()[0]
    relative = replace(real, output=(*real.output[:-1], real.output[-1] + 977))
    lesson = learn((real, relative), spreads=(0.0, 0.0), effects=(0.1, 0.2))

    assert lesson.model.layers == {mark_sample(lesson.samples[0]): Effect(0.1, 0.1)}


def test_worst_is_what_settled_where_anything_did() -> None:
    layers = small_layers()[:3]
    effects = np.zeros(len(layers)).tolist()

    assert learn(layers, [0.0, UNSETTLED, 0.1], effects).find_worst(2) == (layers[1], layers[0])
    assert learn(layers, [0.1, 0.1, 0.1], effects).find_worst(2) == (layers[2], layers[1])


def test_worst_is_no_relative_of_what_was_bad_before_and_stands_once() -> None:
    own, relative = small_layers()[:2]
    lesson = learn([own, own, relative], [0.0] * 3, [0.0] * 3)
    chosen = (*lesson.samples[:2], replace(lesson.samples[2], is_chosen=True))

    assert replace(lesson, samples=chosen).find_worst(3) == (own,)
    assert lesson.find_worst(3) == (relative, own)


def test_of_a_case_the_samples_that_settled_count() -> None:
    bad, good, other = (
        replace(sample(key), spread=spread, rounds=rounds)
        for key, spread, rounds in (("a", 0.1, 1), ("a", SETTLED, 2), ("a", 0.01, 3))
    )

    assert keep_settled([bad, good, other]) == [good, other]


def test_of_a_case_that_never_settled_the_best_sample_counts() -> None:
    worse, best, alone = (
        replace(sample(key), spread=spread) for key, spread in (("a", 0.2), ("a", 0.1), ("b", 0.3))
    )

    assert keep_settled([worse, best, alone]) == [best, alone]

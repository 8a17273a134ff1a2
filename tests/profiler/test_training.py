"""What a lesson leaves in a profile."""

import json
from dataclasses import replace

import numpy as np

from codl.catalog.table import IMPLEMENTATIONS
from codl.latency.linear import LinearModel
from codl.latency.profile import Quality
from codl.profiler.fit import Fitted
from codl.profiler.survey import SETTLED
from codl.profiler.training import Lesson, keep_settled, mark_sample
from tests.profiler.layers import small_layers
from tests.profiler.test_log import sample


def test_layers_of_networks_leave_marks_and_their_relatives_none() -> None:
    real = small_layers()[0]
    relative = replace(real, output=(*real.output[:-1], real.output[-1] + 977))
    samples = tuple(replace(sample(layer.key), layer=json.loads(layer.key)) for layer in (real, relative))
    marks = list(map(mark_sample, samples))
    quality = Quality(samples=1, pm5=1.0, pm10=1.0, rmspe=0.0, flops_pm10=0.0)
    fitted = Fitted(
        model=LinearModel(features=("launches",), coefficients=(1.0,), low=(1.0,), high=(1.0,)),
        effects=dict(zip(marks, (0.1, 0.2), strict=True)),
        quality=quality,
        known=quality,
        errors=np.zeros(2),
        unseen_us=np.zeros(2),
    )

    lesson = Lesson(row=IMPLEMENTATIONS[0], fitted=fitted, samples=samples, us=np.ones(2))

    assert lesson.model.layers == {marks[0]: 0.1}


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

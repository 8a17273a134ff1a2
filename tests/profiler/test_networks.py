"""Sums over networks: whole layers that were held out, each as often as its network uses it."""

import json
from dataclasses import replace

import numpy as np
import pytest

from codl.catalog.table import IMPLEMENTATIONS
from codl.latency.linear import LinearModel
from codl.latency.profile import Quality
from codl.profiler.fit import Fitted
from codl.profiler.networks import sum_networks
from codl.profiler.training import Lesson
from tests.profiler.layers import small_layers
from tests.profiler.test_log import sample

LAYERS = small_layers()[:3]


def lesson(unseen: list[float], *, cut: bool = False) -> Lesson:
    samples = tuple(
        replace(
            sample(str(place)),
            layer=json.loads(layer.key),
            begin=(0,) * len(layer.output),
            end=(*layer.output[:-1], layer.output[-1] - cut),
        )
        for place, layer in enumerate(LAYERS)
    )
    model = LinearModel(features=("launches",), coefficients=(1.0,), low=(1.0,), high=(1.0,))
    quality = Quality(samples=1, pm5=1.0, pm10=1.0, rmspe=0.0, flops_pm10=0.0)
    fitted = Fitted(
        model=model,
        effects={},
        quality=quality,
        known=quality,
        errors=np.zeros(3),
        unseen_us=np.array(unseen),
    )
    return Lesson(
        row=IMPLEMENTATIONS[0],
        fitted=fitted,
        samples=samples,
        us=np.array([10.0, 20.0, 40.0]),
        spreads=np.zeros(3),
    )


def test_sums_count_layers_as_often_as_networks_use_them() -> None:
    layers = [replace(layer, uses={"a": place + 1}) for place, layer in enumerate(LAYERS)]

    (found,) = sum_networks({"row": lesson([11.0, np.nan, 38.0])}, layers)

    assert (found.name, found.layers) == ("a", 2)
    assert found.predicted_us == pytest.approx(11 + 3 * 38)
    assert found.measured_us == pytest.approx(10 + 3 * 40)
    assert found.error == pytest.approx(125 / 130 - 1)


def test_slices_and_strangers_are_left_out() -> None:
    layers = [replace(layer, uses={"a": 1}) for layer in LAYERS]

    assert sum_networks({"row": lesson([1.0, 2.0, 3.0], cut=True)}, layers) == ()
    assert sum_networks({"row": lesson([1.0, 2.0, 3.0])}, []) == ()

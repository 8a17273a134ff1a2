"""What implementations matter to networks, by what was learned of them so far."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from codl.catalog.layers import Layer
from codl.ir.boxes import Boxes
from codl.latency.features import Features
from codl.latency.known import NO_EFFECT, mark_layer
from codl.machine import DeviceInfo
from codl.profiler.regression import predict
from codl.profiler.samples import describe_boxes
from codl.profiler.training import Lesson
from codl.profiler.workload import RowWork, select

_LEAST_US = 1e-9


@dataclass(frozen=True, slots=True)
class _Whole:
    """A layer of networks, computed by one implementation."""

    layer: Layer
    row: str
    mark: str
    features: Features


class Importance:
    """Knows which layers of which networks each implementation computes.

    Before anything is measured only work tells what a kernel takes, and small kernels take longer than their
    work: so it is asked again when there are first predictors.

    Args:
        works: All implementations, with the layers that they are chosen for.
        info: The device.
    """

    def __init__(self, works: Sequence[RowWork], info: DeviceInfo) -> None:
        self._wholes = [
            whole
            for work in works
            if work.is_needed
            for layer in work.layers
            if (whole := _describe(layer, work, info))
        ]

    def find_shares(self, lessons: Mapping[str, Lesson]) -> dict[str, float]:
        """Return by implementation its largest share of any network's time, as far as predictors know it."""
        times: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for whole in self._wholes:
            if lesson := lessons.get(whole.row):
                us = _predict(whole, lesson)
                for network, count in whole.layer.uses.items():
                    times[network][whole.row] += count * us
        shares: dict[str, float] = {}
        for of_network in times.values():
            total = max(sum(of_network.values()), _LEAST_US)
            for row, us in of_network.items():
                shares[row] = max(shares.get(row, 0.0), us / total)
        return shares


def _describe(layer: Layer, work: RowWork, info: DeviceInfo) -> _Whole | None:
    if not layer.uses:
        return None
    if (selection := select(work.row, layer.make_graph(), info)) is None:
        return None
    features = describe_boxes(layer, selection, Boxes.whole(layer.output, 1), info)
    mark = mark_layer(layer, tuple(sorted(selection.parameters.items())))
    return _Whole(layer, work.row.name, mark, features)


def _predict(whole: _Whole, lesson: Lesson) -> float:
    """Return what a layer takes, in us, its own effect included."""
    model = lesson.fitted.model
    plain = predict(model, model.features, whole.features.select(model.features))[0]
    return float(plain * np.exp(lesson.fitted.effects.get(whole.mark, NO_EFFECT).whole))

"""What predictions of layers add up to: sums over whole networks, of layers that taught no model."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from codl.catalog.layers import Layer
from codl.profiler.training import Lesson


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSum:
    """A network's layers that were measured whole and held out, each as often as it stands there."""

    name: str
    layers: int
    """Distinct ones that were held out."""
    predicted_us: float
    measured_us: float

    @property
    def error(self) -> float:
        """Relative error of the sum, predicted / measured - 1."""
        return self.predicted_us / self.measured_us - 1


def sum_networks(lessons: Mapping[str, Lesson], layers: Sequence[Layer]) -> tuple[NetworkSum, ...]:
    """Return the sums of all networks of a workload that have layers among the held-out samples.

    Args:
        lessons: What was learned, by implementation.
        layers: The workload, which knows who uses a layer.
    """
    uses = {layer.key: layer.uses for layer in layers}
    found: dict[str, list[tuple[float, float]]] = {}
    for lesson in lessons.values():
        for sample, us, predicted in zip(lesson.samples, lesson.us, lesson.fitted.unseen_us, strict=True):
            is_whole = not any(sample.begin) and list(sample.end) == list(sample.layer["output"])
            if np.isnan(predicted) or not is_whole:
                continue
            key = json.dumps(sample.layer, separators=(",", ":"), sort_keys=True)
            for network, count in uses.get(key, {}).items():
                found.setdefault(network, []).append((count * float(predicted), count * float(us)))
    return tuple(
        NetworkSum(
            name=name,
            layers=len(pairs),
            predicted_us=sum(predicted for predicted, _ in pairs),
            measured_us=sum(measured for _, measured in pairs),
        )
        for name, pairs in sorted(found.items())
    )

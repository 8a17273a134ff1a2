"""What latency models need of samples: their time, their features, the case that was measured."""

import json
from collections.abc import Mapping, Sequence

import numpy as np

from codl.catalog.layers import parse_layer
from codl.catalog.source import digest_row
from codl.catalog.spec import Implementation, Selection
from codl.ir.boxes import Boxes, Region
from codl.latency.epilogues import Epilogues
from codl.latency.features import FEATURES, FloatMatrix, extract_features
from codl.latency.profile import COMPUTE, MEMORY, ROWS
from codl.machine import DeviceInfo
from codl.profiler.case import Case
from codl.profiler.log import Sample


def find_time_us(sample: Sample, references: Mapping[str, float]) -> float:
    """Return a sample's time, corrected for background load by the reference kernels.

    The ratios to both references are averaged, their logarithms weighted by the sample's memory share.
    """
    times = {name: sample.ratios[name] * references[name] for name in (COMPUTE, MEMORY)}
    return float(times[COMPUTE] ** (1 - sample.memory_share) * times[MEMORY] ** sample.memory_share)


def describe_samples(samples: Sequence[Sample], row: Implementation, info: DeviceInfo) -> FloatMatrix:
    """Return the features of samples of one kernel, [samples, features]."""
    groups: dict[str, list[int]] = {}
    for place, sample in enumerate(samples):
        key = json.dumps((sample.layer, sorted(sample.parameters.items()), sample.are_constants_far))
        groups.setdefault(key, []).append(place)
    values = np.zeros((len(samples), len(FEATURES)))
    for places in groups.values():
        first = samples[places[0]]
        layer = parse_layer(first.layer)
        graph = layer.make_graph()
        boxes = Boxes.of([Region(samples[place].begin, samples[place].end) for place in places])
        batches = row.describe(graph.nodes[-1], graph, boxes, info, first.parameters)
        values[places] = extract_features(
            batches,
            first.parameters,
            info,
            epilogues=Epilogues.of(layer.epilogue),
            far_share=float(first.are_constants_far),
        ).values
    return values


def restore_case(sample: Sample) -> Case:
    """Return the case of a sample, to measure it again."""
    return Case(
        layer=parse_layer(sample.layer),
        selection=Selection(implementation=ROWS[sample.row], parameters=sample.parameters),
        region=Region(sample.begin, sample.end),
        are_constants_far=sample.are_constants_far,
        repeat_of=sample.at,
    )


def keep_valid(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples of kernels whose source has not changed since."""
    known = {name: digest_row(row) for name, row in ROWS.items()}
    return [sample for sample in samples if known.get(sample.row) == sample.digest]


def find_repeatability(samples: Sequence[Sample], references: Mapping[str, float]) -> float | None:
    """Return the share of repeated measurements within 10 % of the first; None without any."""
    first = {sample.key: sample for sample in reversed(samples) if sample.repeat_of is None}
    pairs = [
        (find_time_us(first[sample.key], references), find_time_us(sample, references))
        for sample in samples
        if sample.repeat_of is not None and sample.key in first
    ]
    if not pairs:
        return None
    return sum(abs(again / before - 1) <= 0.10 for before, again in pairs) / len(pairs)

"""From samples to predictors, row by row, with figures on what was held out."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from codl.catalog.layers import Layer, parse_layer
from codl.catalog.spec import Implementation, Selection
from codl.catalog.table import IMPLEMENTATIONS, PAIRS
from codl.ir.boxes import Boxes, Region
from codl.latency.amounts.crossing import find_cut
from codl.latency.features import Counting, Features
from codl.latency.known import mark_layer
from codl.latency.profile import RowModel, digest_implementation, digest_launches
from codl.machine import DeviceInfo
from codl.profiler.fit import Fitted, fit_row
from codl.profiler.log import Sample
from codl.profiler.samples import describe_boxes
from codl.profiler.survey import SETTLED, find_time_us
from codl.profiler.workload import load_pairs, load_workload

LEAST_SAMPLES = 6
"""A row with fewer gets no predictor."""
UNSETTLED = 0.025
"""Standard error, relative, of a time beyond which it is taken once more, and tells nothing of its layer."""
_ROWS = {row.name: row for row in (*IMPLEMENTATIONS, *PAIRS)}


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What one row was taught, and how well it learned."""

    row: Implementation
    fitted: Fitted
    samples: tuple[Sample, ...]
    """Of each case the first."""
    us: npt.NDArray[np.float64]
    spreads: npt.NDArray[np.float64]
    """[samples] Standard error of each case where its readings agreed best, relative."""

    @property
    def model(self) -> RowModel:
        """The predictor as it stands in a profile."""
        real = self._list_real_marks()
        return RowModel(
            digest=digest_implementation(self.row),
            model=self.fitted.model,
            quality=self.fitted.quality,
            layers={mark: effect for mark, effect in self.fitted.effects.items() if mark in real},
            known=self.fitted.known,
            doubt=self.fitted.doubt,
            known_doubt=self.fitted.known_doubt,
            counting=Counting.WORK,
        )

    def _list_real_marks(self) -> set[str]:
        """Return marks of layers that stand in networks: nobody asks for a relative of one by its name."""
        real = _list_real()
        return {mark_sample(sample) for sample in self.samples if parse_layer(sample.layer).key in real}

    def find_worst(self, count: int) -> tuple[Layer, ...]:
        """Return the layers of the samples predicted worst, each once.

        Of samples whose readings agreed, if any did, and that were not chosen for being like others.

        Source:
            Both cores of a Zen 3, PoCL: of a tenth of the samples, the worst of each implementation, 57 % had
            not settled, 44 % of all. Of depthwise slices 29 of 33. Relatives of these are as hard to measure.
            By relatives of any of the worst a seventh of all that was chosen lay on layers that no network
            has, up to 44 slices of one that was a relative's relative (half of the machine, seven sessions).
        """
        is_settled, is_own = self.spreads <= UNSETTLED, [not sample.is_chosen for sample in self.samples]
        for is_meant in (is_settled & is_own, is_settled, np.ones(len(self.samples), bool)):
            if len(places := np.flatnonzero(is_meant)):
                order = places[np.argsort(-np.abs(self.fitted.errors[places]))][:count]
                layers = [parse_layer(self.samples[place].layer) for place in order]
                return tuple({layer.key: layer for layer in layers}.values())
        return ()


def keep_valid(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples of kernels that are still what they were."""
    known = {name: digest_launches(row) for name, row in _ROWS.items()}
    return [sample for sample in samples if known.get(sample.row) == sample.digest]


def keep_settled(samples: Sequence[Sample]) -> list[Sample]:
    """Return of each case the samples whose readings agreed, or the one whose did best where there is none.

    Source:
        One core of a Zen 3 for each driver, 1755 cases measured twice in two sessions each. Where the first
        time's standard error was 2 % at most 90 % agree within 10 %, beyond 3 and 5 % 59 and 17 %; of these
        second times more than half settled, 5 and 18 % shorter in the middle.
    """
    least = find_spreads(samples)
    return [sample for sample in samples if sample.spread <= max(SETTLED, least[sample.key])]


def find_spreads(samples: Sequence[Sample]) -> dict[str, float]:
    """Return by case the least standard error of its samples, relative."""
    least: dict[str, float] = {}
    for sample in samples:
        least[sample.key] = min(least.get(sample.key, sample.spread), sample.spread)
    return least


def teach(
    samples: Sequence[Sample],
    references: Mapping[str, float],
    info: DeviceInfo,
    *,
    is_examined: bool = True,
) -> dict[str, Lesson]:
    """Return what each row learns from valid samples of it; rows with too few learn nothing.

    Args:
        samples: Of all rows.
        references: What the reference kernels take on a quiet machine, in us.
        info: The device.
        is_examined: Whether to find out how well samples are predicted that taught nothing.
    """
    by_row: dict[str, list[Sample]] = {}
    for sample in samples:
        by_row.setdefault(sample.row, []).append(sample)
    return {
        name: _teach_row(_ROWS[name], taken, references, info, is_examined)
        for name, taken in by_row.items()
        if len({sample.key for sample in taken}) >= LEAST_SAMPLES
    }


def _teach_row(
    row: Implementation,
    samples: Sequence[Sample],
    references: Mapping[str, float],
    info: DeviceInfo,
    is_examined: bool,
) -> Lesson:
    ordered, us = _merge_repeats(samples, references)
    groups, spreads = _group(ordered), find_spreads(samples)
    features = [_describe(group, row, info) for group in groups]
    names = tuple(dict.fromkeys(name for one in features for name in one.names))
    fitted = fit_row(
        names,
        np.concatenate([one.select(names) for one in features]),
        us,
        flops=np.concatenate([one.flops for one in features]),
        groups=[json.dumps(sample.layer) for sample in ordered],
        layers=[mark for group in groups for mark in [mark_sample(group[0])] * len(group)],
        is_cut=np.concatenate([_find_cut(group) for group in groups]),
        is_chosen=np.array([sample.is_chosen for sample in ordered]),
        is_examined=is_examined,
    )
    return Lesson(
        row=row,
        fitted=fitted,
        samples=tuple(ordered),
        us=us,
        spreads=np.array([spreads[sample.key] for sample in ordered]),
    )


def _merge_repeats(
    samples: Sequence[Sample], references: Mapping[str, float]
) -> tuple[list[Sample], npt.NDArray[np.float64]]:
    """Return each case once, ordered by layer and parameters, with the median of its settled times."""
    times: dict[str, list[float]] = {}
    for sample in keep_settled(samples):
        times.setdefault(sample.key, []).append(find_time_us(sample, references))
    first = {sample.key: sample for sample in reversed(samples)}
    ordered = sorted(first.values(), key=_group_key)
    return ordered, np.array([float(np.median(times[sample.key])) for sample in ordered])


def _group_key(sample: Sample) -> tuple[str, str]:
    told = [sorted(sample.parameters.items()), sample.are_constants_far]
    return json.dumps(sample.layer), json.dumps(told)


def _group(ordered: Sequence[Sample]) -> list[list[Sample]]:
    """Return runs of samples that one launch description covers, with constants as far as each other's."""
    groups: list[list[Sample]] = []
    for sample in ordered:
        if groups and _group_key(groups[-1][0]) == _group_key(sample):
            groups[-1].append(sample)
        else:
            groups.append([sample])
    return groups


def _describe(samples: Sequence[Sample], row: Implementation, info: DeviceInfo) -> Features:
    layer = parse_layer(samples[0].layer)
    selection = Selection(implementation=row, parameters=samples[0].parameters)
    return describe_boxes(
        layer, selection, _list_boxes(samples), info, are_constants_far=samples[0].are_constants_far
    )


def _find_cut(samples: Sequence[Sample]) -> npt.NDArray[np.bool_]:
    return find_cut(_list_boxes(samples), parse_layer(samples[0].layer).output)


def _list_boxes(samples: Sequence[Sample]) -> Boxes:
    return Boxes.of([Region(sample.begin, sample.end) for sample in samples])


@cache
def _list_real() -> frozenset[str]:
    return frozenset(layer.key for layer in (*load_workload(), *load_pairs()))


def mark_sample(sample: Sample) -> str:
    """Return the mark of a sample's layer, computed by its program."""
    return mark_layer(parse_layer(sample.layer), tuple(sorted(sample.parameters.items())))


def find_repeatability(samples: Sequence[Sample], references: Mapping[str, float]) -> float | None:
    """Return the share of cases measured twice that came out within 10 %; None when there were none."""
    first = {sample.key: sample for sample in reversed(samples) if sample.repeat_of is None}
    pairs = [
        (find_time_us(first[sample.key], references), find_time_us(sample, references))
        for sample in samples
        if sample.repeat_of is not None and sample.key in first
    ]
    if not pairs:
        return None
    return sum(abs(again / before - 1) <= 0.10 for before, again in pairs) / len(pairs)

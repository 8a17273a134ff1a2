"""By how much a relative's predictors are off on a device: a few kernels of every sort are measured."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from math import exp, log
from statistics import median

import numpy as np

from codl.errors import ProfileError
from codl.ir.boxes import Boxes
from codl.latency.predictor import Predictor
from codl.profiler.case import Case
from codl.profiler.placing import place_usually
from codl.profiler.samples import describe_boxes, restore_case
from codl.profiler.survey import Survey, Task, find_time_us
from codl.profiler.workload import RowWork, iterate_leading, load_pairs, load_workload, merge, share_out

BUDGET_SECONDS = 20.0
"""To build kernels in; those that are built are measured to the end."""
_MOST = 96
"""Cases in all."""


def measure_factors(predictor: Predictor, survey: Survey) -> dict[str, float]:
    """Return by implementation how many times as long as predicted its kernels take, in a few seconds.

    Those that cost networks most are measured first, and oftenest. Those that the time does not suffice for
    are off by as much as the others are on average.

    Args:
        predictor: Of a relative's profile, scaled by the reference kernels.
        survey: Of the device.

    Raises:
        DeviceError: The device failed.
    """
    layers = (*load_workload(), *load_pairs())
    works = [work for work in share_out(layers, predictor.info) if predictor.is_known(work.row.name)]
    rows = {work.row.name: work.row for work in works}
    errors: dict[str, list[float]] = {}
    tasks = _iterate_tasks(works, predictor, time.monotonic() + BUDGET_SECONDS)
    for sample in survey.measure(tasks):
        with suppress(ProfileError):  # unlike all that the relative was measured on
            predicted_us = _predict_us(predictor, restore_case(sample, rows[sample.row]))
            errors.setdefault(sample.row, []).append(
                log(find_time_us(sample, predictor.profile.reference_us) / predicted_us)
            )
    middles = {name: median(values) for name, values in errors.items()}
    return _fill(works, middles)


def _iterate_tasks(works: Sequence[RowWork], predictor: Predictor, end: float) -> Iterator[Task]:
    """Yield what to measure: a case of every row, then each in proportion to its weight."""
    ordered = sorted(works, key=lambda work: -work.weight)
    streams = {work.row.name: iterate_leading(work, predictor.info) for work in ordered}
    for case in islice(merge(ordered, streams, first=1), _MOST):
        if time.monotonic() >= end:
            return
        yield Task(case=place_usually(case, predictor.info))


def _predict_us(predictor: Predictor, case: Case) -> float:
    """Return what the kernels of a case should take, whoever launches them."""
    selection = case.selection
    box, is_far = Boxes.of([case.region]), case.are_constants_far
    features = describe_boxes(case.layer, selection, box, predictor.info, are_constants_far=is_far)
    found = predictor.predict_times(selection.implementation.name, features, np.zeros(1))
    return max(float(found.us[0]), 1e-3)


def _fill(works: Sequence[RowWork], errors: Mapping[str, float]) -> dict[str, float]:
    """Return the factors of all rows, from the logarithms of those that are known; none from none."""
    weights = {work.row.name: work.weight for work in works}
    if not errors:
        return {}
    total = sum(weights[name] for name in errors)
    usual = sum(weights[name] * error for name, error in errors.items()) / total
    return {name: exp(errors.get(name, usual)) for name in weights}

"""By how much predictors are off that are a relative's or of earlier kernels: a few kernels are measured."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from math import exp, log
from statistics import median

import numpy as np
import numpy.typing as npt

from codl.errors import ProfileError
from codl.ir.boxes import Boxes
from codl.latency.amounts.crossing import find_cut
from codl.latency.known import mark_layer
from codl.latency.predictor import Predictor
from codl.profiler.case import Case
from codl.profiler.placing import place_usually
from codl.profiler.samples import describe_boxes, restore_case
from codl.profiler.survey import Survey, Task, find_time_us
from codl.profiler.workload import RowWork, iterate_leading, load_pairs, load_workload, merge, share_out

BUDGET_SECONDS = 20.0
"""To build kernels in; those that are built are measured to the end."""
_MOST, _MOST_CARRIED = 96, 16
"""Cases in all; of each kernel that was edited."""


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
    works = _find_works(predictor)
    errors = _measure_errors(works, predictor, survey, most=_MOST)
    return _fill(works, {name: median(values) for name, values in errors.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What an edit did to the times of a kernel."""

    factor: float
    """How many times as long as before it takes."""
    doubt: float
    """Relative error that two of three cases stay within beside that."""


def measure_edits(predictor: Predictor, survey: Survey) -> dict[str, Edit]:
    """Return by implementation what was done to kernels that were edited since they were profiled.

    Those that the time does not suffice for are left out.

    Args:
        predictor: Of the device's own profile.
        survey: Of the device.

    Raises:
        DeviceError: The device failed.
    """
    carried = predictor.profile.find_carried()
    works = [work for work in _find_works(predictor) if work.row.name in carried]
    errors = _measure_errors(works, predictor, survey, most=_MOST_CARRIED * len(works))
    return {name: _find_edit(np.array(values)) for name, values in errors.items()}


def _find_edit(errors: npt.NDArray[np.float64]) -> Edit:
    middle = float(np.median(errors))
    return Edit(factor=exp(middle), doubt=float(np.quantile(np.abs(errors - middle), 2 / 3)))


def _find_works(predictor: Predictor) -> list[RowWork]:
    layers = (*load_workload(), *load_pairs())
    return [work for work in share_out(layers, predictor.info) if predictor.is_known(work.row.name)]


def _measure_errors(
    works: Sequence[RowWork], predictor: Predictor, survey: Survey, *, most: int
) -> dict[str, list[float]]:
    """Return by implementation the logarithms of measured over predicted times, one for each case."""
    rows = {work.row.name: work.row for work in works}
    errors: dict[str, list[float]] = {}
    tasks = _iterate_tasks(works, predictor, time.monotonic() + BUDGET_SECONDS, most=most)
    for sample in survey.measure(tasks):
        with suppress(ProfileError):  # unlike all that was measured before
            predicted_us = _predict_us(predictor, restore_case(sample, rows[sample.row]))
            errors.setdefault(sample.row, []).append(
                log(find_time_us(sample, predictor.profile.reference_us) / predicted_us)
            )
    return errors


def _iterate_tasks(
    works: Sequence[RowWork], predictor: Predictor, end: float, *, most: int
) -> Iterator[Task]:
    """Yield what to measure: a case of every row, then each in proportion to its weight."""
    ordered = sorted(works, key=lambda work: -work.weight)
    streams = {work.row.name: iterate_leading(work, predictor.info) for work in ordered}
    for case in islice(merge(ordered, streams, first=1), most):
        if time.monotonic() >= end:
            return
        yield Task(case=place_usually(case, predictor.info))


def _predict_us(predictor: Predictor, case: Case) -> float:
    """Return what the kernels of a case should take, whoever launches them."""
    selection = case.selection
    box, is_far = Boxes.of([case.region]), case.are_constants_far
    features = describe_boxes(case.layer, selection, box, predictor.info, are_constants_far=is_far)
    mark = mark_layer(case.layer, tuple(sorted(selection.parameters.items())))
    name = selection.implementation.name
    is_cut = find_cut(box, case.layer.output)
    found = predictor.predict_times(name, features, np.zeros(1), marks=(mark,), counts=(1,), is_cut=is_cut)
    return max(float(found.us[0]), 1e-3)


def _fill(works: Sequence[RowWork], errors: Mapping[str, float]) -> dict[str, float]:
    """Return the factors of all rows, from the logarithms of those that are known; none from none."""
    weights = {work.row.name: work.weight for work in works}
    if not errors:
        return {}
    total = sum(weights[name] for name in errors)
    usual = sum(weights[name] * error for name, error in errors.items()) / total
    return {name: exp(errors.get(name, usual)) for name in weights}

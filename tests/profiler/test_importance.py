"""Implementations matter by what predictors say they take of some network's time."""

from collections.abc import Mapping

import numpy as np
import pytest

from codl.latency.linear import LinearModel
from codl.latency.profile import Quality
from codl.profiler.fit import Fitted
from codl.profiler.importance import Importance
from codl.profiler.training import Lesson
from codl.profiler.workload import RowWork, load_workload, share_out
from tests.catalog.nodes import device_info

INFO = device_info(8)
WORKS = {work.row.name: work for work in share_out(load_workload(), INFO)}
IMPORTANCE = Importance(tuple(WORKS.values()), INFO)
SLOW = "depthwise_conv2d_rows__buffer"


def teach(work: RowWork, us: float) -> Lesson:
    """Return a lesson by which each launch takes as long."""
    quality = Quality(samples=1, pm5=1.0, pm10=1.0, rmspe=0.0, flops_pm10=0.0)
    fitted = Fitted(
        model=LinearModel(features=("launches",), coefficients=(us,), low=(1.0,), high=(1.0,)),
        effects={},
        quality=quality,
        known=quality,
        errors=np.zeros(0),
        unseen_us=np.zeros(0),
    )
    return Lesson(row=work.row, fitted=fitted, samples=(), us=np.zeros(0), spreads=np.zeros(0))


def find_shares(times: Mapping[str, float]) -> dict[str, float]:
    return IMPORTANCE.find_shares({name: teach(WORKS[name], us) for name, us in times.items()})


def test_kernel_matters_as_much_as_it_takes() -> None:
    alike = dict.fromkeys(WORKS, 1.0)

    assert find_shares(alike | {SLOW: 1000.0})[SLOW] > 0.9
    assert find_shares(alike | {SLOW: 0.001})[SLOW] < 0.01


def test_what_networks_do_not_compute_with_has_no_share() -> None:
    shares = find_shares(dict.fromkeys(WORKS, 1.0))

    assert all(0 <= share <= 1 for share in shares.values())
    assert shares.keys() <= {name for name, work in WORKS.items() if work.is_needed}


def test_unknown_kernels_take_nothing() -> None:
    assert find_shares({SLOW: 1.0}) == pytest.approx({SLOW: 1.0})

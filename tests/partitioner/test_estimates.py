"""Kernels that no profile knows: plans are made all the same, and still split the work."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from codl.frontend import load_model
from codl.latency.features import VERSION
from codl.latency.predictor import Predictor
from codl.latency.profile import RowModel
from codl.partitioner.planner import Planner
from codl.partitioner.search import Method
from codl.plan.sharing import Sharing
from codl.plan.steps import Chain
from tests.arrangements import arrange_alike
from tests.simulator.profiles import make_predictors
from tools.networks import build

Rows = Mapping[str, RowModel]
GRAPH = load_model(build("mobilenet_v2", size=64).SerializeToString()).graph


def change(predictor: Predictor, edit: Callable[[Rows], Rows]) -> Predictor:
    """Return a predictor with other latency models."""
    return Predictor(replace(predictor.profile, rows=edit(predictor.profile.rows)), predictor.info)


def forget_all(rows: Rows) -> Rows:
    return {}


def forget_convolutions(rows: Rows) -> Rows:
    return {name: row for name, row in rows.items() if "conv2d" not in name}


def edit_kernels(rows: Rows) -> Rows:
    return {name: replace(row, digest="0" * 16) for name, row in rows.items()}


def change_features(rows: Rows) -> Rows:
    return {name: replace(row, version=VERSION + 1) for name, row in rows.items()}


@pytest.mark.parametrize("method", [Method.DYNAMIC, Method.GREEDY])
@pytest.mark.parametrize("edit", [forget_all, forget_convolutions, edit_kernels, change_features])
def test_plan_splits_work_of_kernels_that_no_profile_knows(
    edit: Callable[[Rows], Rows], method: Method
) -> None:
    predictors = tuple(change(one, edit) for one in make_predictors(meeting_us=2.0))
    planner = Planner(
        graph=GRAPH, predictors=predictors, arrangement=arrange_alike(Sharing.COHERENT, len(predictors))
    )

    plan = planner.plan(method)

    assert any(isinstance(step, Chain) for step in plan.steps)
    assert plan.predicted_us is not None
    assert plan.best_single_us is not None
    assert 0 < plan.predicted_us < plan.best_single_us


def test_devices_that_never_met_are_planned_for() -> None:
    predictors = tuple(
        Predictor(replace(one.profile, neighbours={}, sharing={}), one.info) for one in make_predictors()
    )
    planner = Planner(
        graph=GRAPH, predictors=predictors, arrangement=arrange_alike(Sharing.COPIED, len(predictors))
    )

    plan = planner.plan(Method.DYNAMIC)

    assert plan.predicted_us is not None
    assert plan.predicted_us > 0

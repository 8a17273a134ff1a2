"""The lower bound: below every plan, and what lies between adds up."""

from dataclasses import replace

import pytest

from codl.analysis.bound import assess, list_layers
from codl.errors import ProfileError
from codl.ir.graph import Graph
from codl.latency.predictor import Predictor
from codl.partitioner.even import plan_even
from codl.plan.single import plan_single
from codl.plan.steps import Plan
from codl.report.assessment import Assessment, list_lines
from codl.report.assessment_page import render_assessment
from tests.catalog.nodes import NODES
from tests.graphs import residual_block
from tests.report.samples import HOSTILE, NAMES, PREDICTORS, hostile_graph, inspect, long_graph, measure

GRAPH = residual_block(height=64)
EVEN = plan_even(GRAPH, devices=NAMES, max_chain_length=3)


def find(graph: Graph = GRAPH, plan: Plan | None = None) -> Assessment:
    return assess(inspect(graph, plan), graph, PREDICTORS)


@pytest.mark.parametrize(
    "plan", [EVEN, plan_single(GRAPH, device="left", devices=NAMES)], ids=["even", "single"]
)
def test_gaps_add_up_from_the_bound_to_the_time_taken(plan: Plan) -> None:
    found = find(plan=plan)

    assert found.bound_us + sum(gap.us for gap in found.gaps) == pytest.approx(found.taken_us)
    assert 0 < found.bound_us <= found.taken_us
    assert 0 < found.ratio <= 1


def test_measured_time_is_what_counts_where_there_is_one() -> None:
    found = assess(measure(inspect(GRAPH), factor=2.0), GRAPH, PREDICTORS)

    assert found.is_measured
    assert found.taken_us == pytest.approx(2 * find().taken_us)
    assert found.bound_us + sum(gap.us for gap in found.gaps) == pytest.approx(found.taken_us)
    assert any("nothing predicts" in line for line in found.advice)


def test_operators_that_are_alike_are_one_layer() -> None:
    layers = list_layers(long_graph(30), PREDICTORS)

    assert sorted(len(layer.operators) for layer in layers) == [10, 20]


def test_longest_path_is_shorter_where_branches_are() -> None:
    for bound in find().bounds:
        assert 0 < bound.longest_path_us <= bound.sequential_us


def test_faster_kernel_is_found_and_advised() -> None:
    graph = NODES["conv-in-tiles"].graph
    slow = tuple(slow_down(p, list_layers(graph, [p])[0].kernels[0].kernel) for p in PREDICTORS)

    (layer,) = list_layers(graph, slow)

    assert layer.loss_us > 0
    assert all(kernel.best_kernel != kernel.kernel for kernel in layer.kernels)
    assert any("codl tune" in line for line in assess(inspect(graph), graph, slow).advice)


def test_kernels_that_were_not_measured_bound_nothing() -> None:
    graph = NODES["conv-in-tiles"].graph
    chosen = list_layers(graph, PREDICTORS)[0].kernels[0].kernel
    for one in PREDICTORS:
        rows = {chosen: one.profile.rows[chosen]}
        known = slow_down(Predictor(replace(one.profile, rows=rows), one.info), chosen)

        (layer,) = list_layers(graph, [known])

        assert [kernel.best_kernel for kernel in layer.kernels] == [chosen]


def slow_down(predictor: Predictor, kernel: str) -> Predictor:
    """Return a device on which a kernel takes ten times as long."""
    rows = {
        name: replace(row, model=row.model.scaled({}, 10.0 if name == kernel else 1.0))
        for name, row in predictor.profile.rows.items()
    }
    return Predictor(replace(predictor.profile, rows=rows), predictor.info)


def test_plan_without_a_price_cannot_be_assessed() -> None:
    bare = inspect(GRAPH)
    bare = replace(bare, totals=replace(bare.totals, predicted_us=None, parts=None))

    with pytest.raises(ProfileError, match="codl profile"):
        assess(bare, GRAPH, PREDICTORS)


def test_plan_that_one_device_beats_is_told_so() -> None:
    found = assess(inspect(GRAPH, EVEN), GRAPH, PREDICTORS)
    single = inspect(GRAPH, plan_single(GRAPH, device="left", devices=NAMES))

    assert found.taken_us > (single.totals.predicted_us or 0.0)
    assert any("single:left" in line for line in found.advice)


def test_lines_tell_bound_ratio_and_advice() -> None:
    text = "\n".join(list_lines(find()))

    for word in ("lower bound", "ratio", "all on left", "longest path"):
        assert word in text


def test_page_escapes_every_name() -> None:
    page = render_assessment(find(hostile_graph()))

    assert "<script" not in page
    assert "<img" not in page
    assert all(name not in page for name in HOSTILE)
    assert "default-src 'none'" in page

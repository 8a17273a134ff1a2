"""Explanations: what is told of operators, steps and the whole adds up to the plan's own price."""

from dataclasses import replace

import pytest

from codl.analysis.explain import explain_plan
from codl.frontend import load_model
from codl.ir.boxes import Boxes
from codl.latency.predictor import Predictor
from codl.partitioner.even import plan_even
from codl.plan.sharing import Sharing
from codl.plan.single import plan_single
from codl.report.folding import fold_parts
from codl.report.inspection import Operator
from codl.report.table import list_columns, list_rows
from codl.session.inspection import inspect_plan
from tests.arrangements import arrange_alike
from tests.graphs import host_between, residual_block
from tests.report.samples import NAMES, PREDICTORS, inspect, measure
from tests.simulator.profiles import teach_pairs
from tools.networks import build

GRAPH = residual_block(height=64)


@pytest.mark.parametrize("sharing", [Sharing.COHERENT, Sharing.COPIED])
def test_where_time_goes_adds_up_to_the_price(sharing: Sharing) -> None:
    found = inspect(GRAPH, sharing=sharing)

    assert found.totals.parts is not None
    assert found.totals.predicted_us is not None
    assert sum(found.totals.parts.values()) == pytest.approx(found.totals.predicted_us)
    assert abs(found.totals.parts["other"]) < found.totals.predicted_us * 0.1
    assert found.timeline[-1].start_us + found.timeline[-1].duration_us <= found.totals.predicted_us * 1.0001


def test_operators_of_a_step_add_up_to_its_longest_device() -> None:
    found = inspect(GRAPH)

    for step in found.steps:
        own = [o.predicted_us or 0.0 for o in found.operators if o.step == step.index]
        assert sum(own) == pytest.approx(max(us or 0.0 for us in step.compute_us))


def test_ideal_adds_the_speeds_of_all_devices() -> None:
    times = [
        [float(p.predict(node, GRAPH, Boxes.whole(GRAPH.shape(node.output), 1)).us[0]) for p in PREDICTORS]
        for node in GRAPH.nodes
    ]

    totals = inspect(GRAPH, sharing=Sharing.COHERENT).totals

    assert totals.ideal_us == pytest.approx(sum(a * b / (a + b) for a, b in times))
    waits = [predictor.profile.wait_us for predictor in PREDICTORS]
    alone = [sum(column) + wait for column, wait in zip(zip(*times, strict=True), waits, strict=True)]
    assert totals.single_us == pytest.approx(alone)
    assert totals.best_single == "left"


def test_halo_is_told_as_computed_twice() -> None:
    found = inspect(GRAPH, plan_even(GRAPH, devices=NAMES, max_chain_length=4, axes=(2,)))

    first = found.operators[0]
    assert first.axis_name == "H"
    assert sum(part.share for part in first.parts) > 1
    assert found.totals.parts is not None
    assert found.totals.parts["repeated"] > 0


def test_alternatives_hold_every_device_alone_and_the_chosen_way() -> None:
    found = inspect(GRAPH)

    for operator in found.operators:
        labels = [way.label for way in operator.alternatives]
        costs = [way.total_us or 0.0 for way in operator.alternatives]
        assert {"all on left", "all on right"} <= set(labels)
        assert {label.split()[0] for label in labels} >= {"H", "OC"}
        assert costs == sorted(costs)
        (chosen,) = (way for way in operator.alternatives if way.is_chosen)
        assert chosen.axis == operator.axis


def test_alternative_costs_its_longest_part_its_sharing_and_a_meeting() -> None:
    operator = inspect(GRAPH, sharing=Sharing.COHERENT).operators[0]

    for way in operator.alternatives:
        is_split = min(us or 0.0 for us in way.compute_us) > 0
        meeting = 50.0 if is_split else 0.0
        assert way.sync_us == meeting
        assert way.total_us == pytest.approx(max(us or 0.0 for us in way.compute_us) + meeting)


def test_estimates_are_marked_and_counted() -> None:
    poor = tuple(
        Predictor(replace(one.profile, rows={}), one.info) if one.info.name == "left" else one
        for one in PREDICTORS
    )
    plan = plan_even(GRAPH, devices=NAMES)

    found = explain_plan(plan, GRAPH, poor, arrange_alike(Sharing.COHERENT, 2))

    parts = [part for operator in found.operators for part in operator.parts]
    assert {part.device for part in parts if part.is_estimated} == {"left"}
    assert {part.device for part in parts if not part.is_estimated} == {"right"}
    assert all((part.predicted_us or 0.0) > 0 for part in parts)
    known, guessed = (
        {part.uncertainty for part in parts if part.is_estimated == is_estimated}
        for is_estimated in (False, True)
    )
    assert max(one or 0.0 for one in known) < min(one or 0.0 for one in guessed)
    count = sum(part.is_estimated for part in parts)
    assert any(note.startswith(f"{count} of {len(parts)} predictions are estimates") for note in found.notes)


def test_everything_is_told_without_profiles_but_times() -> None:
    plan = plan_even(GRAPH, devices=NAMES)

    found = explain_plan(plan, GRAPH, (None, None), arrange_alike(Sharing.COHERENT, 2))

    assert [operator.name for operator in found.operators] == [node.name for node in GRAPH.nodes]
    assert all(part.predicted_us is None for operator in found.operators for part in operator.parts)
    assert found.totals.predicted_us is None
    assert found.totals.ideal_us is None
    assert found.timeline == ()
    assert all(operator.alternatives == () for operator in found.operators)


def test_host_step_says_why() -> None:
    graph = host_between()

    found = inspect(graph, plan_single(graph, device="left", devices=NAMES))

    (host,) = (operator for operator in found.operators if operator.name == "top")
    assert host.note == "no kernel for TopK"
    assert host.parts == ()
    assert host.predicted_us is None
    assert any("2 operators that the host runs" in note for note in found.notes)


def test_measured_times_stand_beside_predicted_ones() -> None:
    found = measure(inspect(GRAPH), factor=1.25)

    for operator in found.operators:
        assert operator.predicted_us is not None
        assert operator.measured_us == pytest.approx(operator.predicted_us * 1.25)
    assert found.totals.predicted_us is not None
    assert found.totals.measured_us == pytest.approx(found.totals.predicted_us * 1.25)
    assert found.measured


def test_operators_in_the_kernel_of_another_are_named_so_and_have_no_times_of_their_own() -> None:
    graph = load_model(build("yolov2", size=64).SerializeToString()).graph
    plan = plan_single(graph, device="left", devices=NAMES)
    predictors = [teach_pairs(one) for one in PREDICTORS]

    _, bare = inspect_plan(plan, graph, predictors, arrangement=arrange_alike(Sharing.COHERENT, 2))
    found = replace(measure(bare), operators=tuple(map(take_5_us, bare.operators)))
    rows = [dict(zip(list_columns(found), row, strict=True)) for row in list_rows(fold_parts(found))]

    riders = [operator for operator in found.operators if operator.in_kernel_of]
    assert {operator.kind for operator in riders} >= {"Pool2d"}
    for operator in riders:
        (row,) = (row for row in rows if row["operator"].split()[1] == operator.name)
        assert row["operator"].endswith(f" (in {operator.in_kernel_of}'s kernel)")
        assert (row["left"], row["of total"], row["left measured"]) == ("", "", "")
        (main,) = (one for one in found.operators if one.name == operator.in_kernel_of)
        assert main.in_kernel_of is None
        (row,) = (row for row in rows if row["operator"].split()[1:] == [main.name])
        assert row["left"]
        assert row["left measured"] == "10 us"


def take_5_us(operator: Operator) -> Operator:
    parts = tuple(replace(part, measured_us=5.0) for part in operator.parts)
    return replace(operator, measured_us=5.0, parts=parts)

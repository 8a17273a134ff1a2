"""Prices: of what the executor does, no more and no less."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod

import pytest

from codl.errors import ProfileError
from codl.ir.regions import Boxes
from codl.latency.profile import Coherence, HostCoherence
from codl.partitioner.even import plan_even
from codl.plan.residency import HOST
from codl.plan.schedule import Copy, Launch, Meet, make_schedule
from codl.plan.sharing import Sharing
from codl.plan.single import plan_single
from codl.plan.steps import Chain, Plan
from codl.plan.timeline import Span
from codl.simulator.simulate import Simulator, price_plan
from tests.arrangements import arrange_alike
from tests.graphs import host_between, residual_block
from tests.simulator.profiles import MEETING_US, arrange_coherently, make_predictors

GRAPH = residual_block(height=64)
LEFT, RIGHT = make_predictors(slower=2.0)
COHERENT = arrange_coherently((LEFT, RIGHT))
EVEN = plan_even(GRAPH, devices=("left", "right"), max_chain_length=2)


def test_single_plan_is_the_sum_of_its_kernels_and_a_wait() -> None:
    plan = plan_single(GRAPH, device="left", devices=("left", "right"))
    kernels = [
        LEFT.predict(node, GRAPH, Boxes.whole(GRAPH.shape(node.output), 1)).us[0] for node in GRAPH.nodes
    ]

    priced = price_plan(plan, GRAPH, (LEFT, RIGHT), COHERENT)

    assert priced.predicted_us == pytest.approx(sum(kernels) + LEFT.profile.wait_us)
    assert priced.best_single_us == pytest.approx(priced.predicted_us)
    assert [step.compute_us for step in priced.steps] == pytest.approx(kernels)
    assert [step.device_us[0] for step in priced.steps] == pytest.approx(kernels)
    assert [step.device_us[1] for step in priced.steps] == [0.0] * len(kernels)


def test_chain_takes_as_long_as_the_larger_sum_of_slices_and_a_meeting() -> None:
    (left, right) = (
        sum(
            float(predictor.predict(GRAPH.nodes_by_name[a.node], GRAPH, Boxes.of([a.region])).us[0])
            for a in make_schedule(GRAPH, EVEN, COHERENT).actions
            if isinstance(a, Launch) and a.step == 0 and a.device == index
        )
        for index, predictor in enumerate((LEFT, RIGHT))
    )

    step = price_plan(EVEN, GRAPH, (RIGHT, LEFT), COHERENT).steps[0]

    assert step.device_us == pytest.approx((left, right))
    assert step.compute_us == max(left, right)
    assert step.sync_us == 0
    assert step.total_us == pytest.approx(right + step.share_us)  # type: ignore[operator]


def test_steps_add_up_to_the_run() -> None:
    priced = price_plan(EVEN, GRAPH, (LEFT, RIGHT), COHERENT)

    assert sum(step.total_us or 0 for step in priced.steps) == pytest.approx(priced.predicted_us)


def test_every_meeting_of_the_schedule_is_paid_once() -> None:
    meetings = [a for a in make_schedule(GRAPH, EVEN, COHERENT).actions if isinstance(a, Meet)]

    priced = price_plan(EVEN, GRAPH, (LEFT, RIGHT), COHERENT)

    assert len(meetings) > 1
    assert sum(step.sync_us or 0 for step in priced.steps) == MEETING_US * len(meetings)


def test_devices_that_meet_by_themselves_pay_less_but_at_the_end() -> None:
    arrangement = replace(COHERENT, signals=True)
    meetings = [a for a in make_schedule(GRAPH, EVEN, arrangement).actions if isinstance(a, Meet)]
    predictors = make_predictors(signal_us=6.0)

    priced = price_plan(EVEN, GRAPH, predictors, arrangement)

    assert sum(step.sync_us or 0 for step in priced.steps) == MEETING_US + 6.0 * (len(meetings) - 1)


def test_device_begins_when_the_host_has_handed_over_what_others_do() -> None:
    arrangement = replace(COHERENT, signals=True)
    actions = make_schedule(GRAPH, EVEN, arrangement).actions
    handed = sum(
        a.device == 1 if isinstance(a, Launch) else isinstance(a, Meet) and a.is_signalled for a in actions
    )
    (held, _), (_, other) = make_predictors(signal_us=6.0, handing_us=3.0), make_predictors(signal_us=6.0)
    predictors = {"left": held, "right": other}
    simulator = Simulator(graph=GRAPH, predictors=predictors)

    waits = [
        span for span in simulator.trace(EVEN, arrangement) if span.kind == "wait" and span.track != "host"
    ]

    assert [(span.track, span.start_us, span.duration_us) for span in waits] == [("left", 0.0, 3.0 * handed)]
    assert not [
        span for span in simulator.trace(EVEN, COHERENT) if span.kind == "wait" and span.track != "host"
    ]  # the host, that waits itself, hands over little at once
    alone = plan_single(GRAPH, device="left", devices=("left", "right"))
    assert price_plan(alone, GRAPH, (held, other), arrangement).predicted_us == pytest.approx(
        price_plan(alone, GRAPH, (held, other), COHERENT).predicted_us
    )


def test_what_caches_hand_over_is_paid_by_who_reads_it_and_by_who_writes_it_again() -> None:
    coherence = Coherence(fetch_us=0.5, reclaim_us=2.0)
    fetched = [one for step in make_schedule(GRAPH, EVEN, COHERENT).fetches for one in step]
    kib = [4 * sum(one.region.size for one in fetched if one.source == device) / 1024 for device in (0, 1)]

    before, priced = (
        price_plan(EVEN, GRAPH, make_predictors(coherence=one), COHERENT) for one in (None, coherence)
    )
    spans = Simulator(
        graph=GRAPH, predictors={one.info.name: one for one in make_predictors(coherence=coherence)}
    ).trace(EVEN, COHERENT)

    for device, (read, kept) in {"left": kib[::-1], "right": kib}.items():
        us = {kind: _sum(spans, device, kind) for kind in ("fetch", "reclaim")}
        assert us == pytest.approx({"fetch": 0.5 * read, "reclaim": 2.0 * kept})
    assert priced.predicted_us == pytest.approx((before.predicted_us or 0.0) + 0.5 * kib[0] + 2.0 * kib[1])


def test_what_the_host_uses_too_is_paid_by_the_device_that_reads_or_writes_it() -> None:
    host = HostCoherence(input_us=0.5, output_us=2.0)
    predictors = make_predictors(host=host)
    named = {one.info.name: one for one in predictors}
    read = [
        one.region.size
        for step in make_schedule(GRAPH, EVEN, COHERENT).fetches
        for one in step
        if (one.source, one.destination) == (HOST, 1)
    ]
    written = 4 * 0.5 * prod(GRAPH.shape("y")) / 1024

    spans = Simulator(graph=GRAPH, predictors=named).trace(EVEN, COHERENT)
    copied = Simulator(graph=GRAPH, predictors=named).trace(EVEN, arrange_alike(Sharing.COPIED, 2))

    assert _sum(spans, "right", "fetch") == pytest.approx(0.5 * 4 * sum(read) / 1024)
    assert _sum(spans, "right", "reclaim") == pytest.approx(2.0 * written)
    assert {span.kind for span in (*spans, *copied) if span.track == "left"}.isdisjoint({"fetch", "reclaim"})
    assert not _sum(copied, "right", "fetch")
    assert not _sum(copied, "right", "reclaim")


def _sum(spans: Sequence[Span], track: str, kind: str) -> float:
    return sum(span.duration_us for span in spans if (span.track, span.kind) == (track, kind))


def test_copies_of_the_schedule_are_paid() -> None:
    copied = arrange_alike(Sharing.COPIED, 2)
    plan = plan_single(GRAPH, device="left", devices=("left", "right"))
    copies = [a.transfer for a in make_schedule(GRAPH, plan, copied).actions if isinstance(a, Copy)]
    bytes_ = [4 * transfer.region.size for transfer in copies]

    priced = price_plan(plan, GRAPH, (LEFT, RIGHT), copied)

    assert len(copies) == 2  # the input to the device, the output from it; whole tensors lie in one run
    assert sum(step.share_us or 0 for step in priced.steps) == pytest.approx(
        sum(10 + 1e-4 * count + 0.01 for count in bytes_)
    )


def test_neighbour_slows_down_only_while_both_work() -> None:
    slowed = make_predictors(slower=2.0, slowdown=1.5)
    free = price_plan(EVEN, GRAPH, (LEFT, RIGHT), COHERENT).steps[0]
    beside = price_plan(EVEN, GRAPH, slowed, COHERENT).steps[0]

    assert beside.device_us == free.device_us
    assert free.total_us is not None
    assert beside.total_us is not None
    assert free.total_us < beside.total_us < 1.5 * free.total_us


def test_host_steps_have_no_prediction_of_their_own() -> None:
    graph = host_between()
    priced = price_plan(plan_single(graph, device="left"), graph, (LEFT,), arrange_coherently((LEFT,)))

    assert [step.compute_us is None for step in priced.steps] == [False, True, False]
    assert priced.predicted_us is not None


def test_plan_with_prices_survives_json_unchanged() -> None:
    priced = price_plan(EVEN, GRAPH, (LEFT, RIGHT), COHERENT)

    assert Plan.from_json(priced.to_json()) == priced


def test_device_without_profile_is_an_error() -> None:
    with pytest.raises(ProfileError, match="codl profile --device right"):
        price_plan(EVEN, GRAPH, (LEFT,), COHERENT)


def test_empty_cut_is_priced_as_nothing() -> None:
    (first, *rest) = EVEN.steps
    assert isinstance(first, Chain)
    cuts = tuple(replace(cut, bounds=(0, cut.bounds[-1], cut.bounds[-1])) for cut in first.cuts)
    plan = replace(EVEN, steps=(replace(first, cuts=cuts), *rest))

    assert price_plan(plan, GRAPH, (LEFT, RIGHT), COHERENT).steps[0].device_us[1] == 0


@pytest.mark.parametrize("sharing", [Sharing.COHERENT, Sharing.COPIED])
def test_what_takes_place_when_adds_up_to_the_price(sharing: Sharing) -> None:
    arrangement = arrange_alike(sharing, 2)
    simulator = Simulator(graph=GRAPH, predictors={"left": LEFT, "right": RIGHT})

    spans = simulator.trace(EVEN, arrangement)

    priced = simulator.price(EVEN, arrangement)
    actions = make_schedule(GRAPH, EVEN, arrangement).actions
    launches = sorted((a.node, EVEN.devices[a.device]) for a in actions if isinstance(a, Launch))
    assert max(span.start_us + span.duration_us for span in spans) == pytest.approx(priced.predicted_us)
    assert sorted((span.name, span.track) for span in spans if span.kind == "launch") == launches
    for name in EVEN.devices:
        own = [span for span in spans if span.track == name]
        assert all(a.start_us + a.duration_us <= b.start_us + 1e-6 for a, b in pairwise(own))

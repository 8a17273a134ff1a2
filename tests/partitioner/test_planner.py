"""Planners with profiles: sound plans, none dearer than what a lesser planner finds."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codl.assets import profiles_dir
from codl.devices.memory import arrange
from codl.errors import PlanError
from codl.frontend import load_model
from codl.ir.graph import Graph
from codl.latency.files import load_profile
from codl.latency.predictor import Predictor
from codl.latency.profile import Coherence, HostCoherence
from codl.latency.store import SIMULATED
from codl.partitioner import candidates
from codl.partitioner.planner import Planner
from codl.partitioner.search import Method
from codl.partitioner.search_state import Choice
from codl.plan.check import check_plan, find_problems
from codl.plan.sharing import Sharing
from codl.plan.steps import Chain, Host, Plan, Run
from codl.simulator.simulate import price_plan
from tests.arrangements import arrange_alike
from tests.graphs import host_between, residual_block, two_branches
from tests.partitioner.searching import estimate_us, list_cuts, price_us
from tests.simulator.profiles import make_predictors
from tools.networks import build

LEFT_RIGHT = make_predictors(slower=1.5)


LIGHT = ("squeezenet", "inception_v1")


@cache
def load(name: str) -> Graph:
    """Return a small network."""
    if name == "residual":
        return residual_block(height=64, channels=16)
    if name == "host":
        return host_between()
    return load_model(build(name, **({} if name in LIGHT else {"size": 64})).SerializeToString()).graph


NETWORKS = ("residual", "host", "mobilenet_v2", "resnet50", "yolov2", "retinaface")


def plan(
    graph: Graph,
    method: Method,
    predictors: Sequence[Predictor] = LEFT_RIGHT,
    *,
    sharing: Sharing = Sharing.COHERENT,
    length: int = 8,
) -> Plan:
    arrangement = arrange_alike(sharing, len(predictors))
    planner = Planner(graph=graph, predictors=predictors, arrangement=arrangement, max_chain_length=length)
    return planner.plan(method)


@pytest.mark.parametrize("method", Method)
@pytest.mark.parametrize("name", NETWORKS)
def test_plan_is_sound_and_priced(name: str, method: Method) -> None:
    graph = load(name)

    found = plan(graph, method)

    check_plan(found, graph)
    again = price_plan(found, graph, LEFT_RIGHT, arrange_alike(Sharing.COHERENT, 2))
    assert found.predicted_us == pytest.approx(again.predicted_us)
    assert found.best_single_us == pytest.approx(again.best_single_us)
    assert all(len(step.nodes) <= 8 for step in found.steps if isinstance(step, Chain))


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(["residual", "host", "mobilenet_v2"]),
    slower=st.sampled_from([1.0, 1.3, 2.0, 8.0]),
    meeting_us=st.sampled_from([0.0, 10.0, 50.0, 400.0]),
    slowdown=st.sampled_from([1.0, 1.4]),
    sharing=st.sampled_from([Sharing.COHERENT, Sharing.COPIED]),
)
def test_dynamic_is_at_most_greedy_is_at_most_single(
    name: str, slower: float, meeting_us: float, slowdown: float, sharing: Sharing
) -> None:
    graph = load(name)
    predictors = make_predictors(slower=slower, meeting_us=meeting_us, slowdown=slowdown)

    greedy, dynamic = (plan(graph, method, predictors, sharing=sharing) for method in Method)

    for found in (greedy, dynamic):
        assert not list(find_problems(found, graph))
    assert dynamic.predicted_us is not None
    assert greedy.predicted_us is not None
    assert greedy.best_single_us is not None
    assert dynamic.predicted_us <= greedy.predicted_us * (1 + 1e-9)
    assert greedy.predicted_us <= greedy.best_single_us * (1 + 1e-9)


@pytest.mark.parametrize("method", Method)
def test_nothing_is_split_where_meetings_cost_more_than_they_gain(method: Method) -> None:
    found = plan(load("residual"), method, make_predictors(meeting_us=1e6))

    assert {step.device for step in found.steps if isinstance(step, Run)} == {"left"}
    assert not [step for step in found.steps if isinstance(step, Chain)]
    assert found.predicted_us == found.best_single_us


@pytest.mark.parametrize("method", Method)
def test_equal_devices_without_costs_halve_the_time(method: Method) -> None:
    graph = residual_block(height=512, channels=16)
    found = plan(graph, method, make_predictors(meeting_us=0.0))

    assert found.predicted_us is not None
    assert found.best_single_us is not None
    assert found.predicted_us < 0.55 * found.best_single_us


def test_slow_partner_gets_little_or_nothing() -> None:
    graph = residual_block(height=512, channels=16)
    found = plan(graph, Method.DYNAMIC, make_predictors(slower=8.0))

    for step in found.steps:
        if isinstance(step, Chain):
            for cut in step.cuts:
                assert cut.bounds[1] >= 0.8 * cut.bounds[2]


def test_gain_below_the_profiles_certainty_does_not_justify_a_split() -> None:
    graph = residual_block(height=512, channels=16)
    sure = make_predictors(slower=8.0)
    planner = Planner(graph=graph, predictors=sure, arrangement=arrange_alike(Sharing.COHERENT, 2))
    gain = 1 - (planner.plan(Method.DYNAMIC).predicted_us or 0) / (
        planner.plan(Method.DYNAMIC).best_single_us or 1
    )
    unsure = make_predictors(slower=8.0, error=4 * gain)

    assert any(isinstance(step, Chain) for step in planner.plan(Method.DYNAMIC).steps)
    assert not any(isinstance(step, Chain) for step in plan(graph, Method.DYNAMIC, unsure).steps)


@pytest.mark.parametrize("witness", [0, 1])
def test_gain_within_one_deviation_of_a_meeting_does_not_justify_a_split(witness: int) -> None:
    graph = residual_block(height=512, channels=16)
    predictors = [*make_predictors(meeting_us=5.0, meeting_p95_us=5.0)]
    steady = plan(graph, Method.DYNAMIC, predictors)
    assert steady.predicted_us is not None
    assert steady.best_single_us is not None
    gain_us = steady.best_single_us - steady.predicted_us
    doubtful = make_predictors(meeting_us=5.0, meeting_p95_us=5.0 + 1.645 * gain_us)
    predictors[witness] = doubtful[witness]  # to this device alone meetings lasted longer

    found = plan(graph, Method.DYNAMIC, predictors)

    assert any(isinstance(step, Chain) for step in steady.steps)
    assert not any(isinstance(step, Chain) for step in found.steps)


def test_device_that_begins_later_does_less_until_the_first_meeting() -> None:
    graph = residual_block(height=512, channels=16)
    arrangement = replace(arrange_alike(Sharing.COHERENT, 2), signals=True)
    held = [make_predictors(meeting_us=5.0, handing_us=400.0)[0], make_predictors(meeting_us=5.0)[1]]
    ignorant = Planner(graph=graph, predictors=make_predictors(meeting_us=5.0), arrangement=arrangement)

    found = Planner(graph=graph, predictors=held, arrangement=arrangement).plan(Method.DYNAMIC)

    plain = price_plan(ignorant.plan(Method.DYNAMIC), graph, held, arrangement)
    assert found.predicted_us is not None
    assert plain.predicted_us is not None
    assert found.predicted_us < plain.predicted_us


def test_plans_know_what_cache_to_cache_transfers_cost() -> None:
    graph, arrangement = load("squeezenet"), arrange_alike(Sharing.COHERENT, 2)
    free = make_predictors(meeting_us=5.0)
    dear = make_predictors(meeting_us=5.0, coherence=Coherence(fetch_us=0.03, reclaim_us=0.4))
    ignorant = Planner(graph=graph, predictors=free, arrangement=arrangement).plan(Method.DYNAMIC)

    found = Planner(graph=graph, predictors=dear, arrangement=arrangement).plan(Method.DYNAMIC)

    priced = price_plan(ignorant, graph, dear, arrangement)
    assert any(isinstance(step, Chain) for step in found.steps)
    assert (found.predicted_us or 0.0) < 0.98 * (priced.predicted_us or 0.0)


def test_nothing_is_cut_for_a_device_that_is_far_from_the_host() -> None:
    graph = residual_block(height=512, channels=16)
    host = HostCoherence(input_us=20.0, output_us=20.0)

    near = plan(graph, Method.DYNAMIC, make_predictors(meeting_us=5.0))
    far = plan(graph, Method.DYNAMIC, make_predictors(meeting_us=5.0, host=host))

    assert any(isinstance(step, Chain) for step in near.steps)
    assert {step.device for step in far.steps if isinstance(step, Run)} == {"left"}
    assert all(isinstance(step, Run) for step in far.steps)


@pytest.mark.parametrize("method", Method)
def test_three_devices_share_the_work(method: Method) -> None:
    graph = residual_block(height=512, channels=16)
    predictors = make_predictors(meeting_us=5.0, names=("left", "middle", "right"))

    found = plan(graph, method, predictors)

    check_plan(found, graph)
    assert any(
        len(set(cut.bounds)) == 4 for step in found.steps if isinstance(step, Chain) for cut in step.cuts
    )


def test_independent_branches_run_whole_on_different_devices() -> None:
    found = plan(two_branches(), Method.DYNAMIC, make_predictors(meeting_us=5.0))

    devices = {step.node: step.device for step in found.steps if isinstance(step, Run)}
    assert len({devices[name] for name in ("a0", "a1", "a2")}) == 1
    assert {devices["a0"], devices["b0"]} == {"left", "right"}
    assert found.predicted_us is not None
    assert found.best_single_us is not None
    assert found.predicted_us < 0.55 * found.best_single_us


@pytest.mark.parametrize("sharing", [Sharing.COHERENT, Sharing.COPIED])
@pytest.mark.parametrize("name", ["residual", "resnet50", "squeezenet", "inception_v1"])
def test_estimates_are_close_to_prices(name: str, sharing: Sharing) -> None:
    graph, predictors = load(name), make_predictors(slower=1.3, meeting_us=5.0)
    planner = Planner(graph=graph, predictors=predictors, arrangement=arrange_alike(sharing, 2))

    for choices in planner.search.find_choices(Method.DYNAMIC, 3):
        estimate = estimate_us(planner.search, choices)
        price = price_us(planner, choices)
        assert estimate == pytest.approx(price, rel=0.02 if sharing is Sharing.COHERENT else 0.1)


@pytest.mark.parametrize("length", [1, 3])
def test_chains_are_no_longer_than_asked_for(length: int) -> None:
    found = plan(load("resnet50"), Method.DYNAMIC, make_predictors(meeting_us=5.0), length=length)

    assert max(len(step.nodes) for step in found.steps if isinstance(step, Chain)) == length


def test_host_step_stays_whole() -> None:
    found = plan(load("host"), Method.DYNAMIC, make_predictors(meeting_us=0.0))

    assert [step.nodes for step in found.steps if isinstance(step, Host)] == [("top", "top/i")]


def test_single_device_needs_no_neighbours() -> None:
    found = plan(load("residual"), Method.DYNAMIC, LEFT_RIGHT[:1])

    assert found.devices == ("left",)
    assert found.predicted_us == found.best_single_us


@pytest.mark.parametrize("length", [0, -1])
def test_chain_length_below_one_is_an_error(length: int) -> None:
    with pytest.raises(PlanError, match="max_chain_length"):
        plan(load("residual"), Method.GREEDY, length=length)


@pytest.mark.parametrize("sharing", [Sharing.COHERENT, Sharing.COPIED])
@pytest.mark.parametrize("slower", [1.0, 1.7])
def test_dynamic_finds_what_brute_force_finds(
    slower: float, sharing: Sharing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "_MOST_CUTS", 2)
    graph = residual_block(height=32, channels=16)
    planner = Planner(
        graph=graph,
        predictors=make_predictors(slower=slower, meeting_us=5.0),
        arrangement=arrange_alike(sharing, 2),
        max_chain_length=3,
        beam=64,
    )

    (found, *_) = planner.search.find_choices(Method.DYNAMIC, 1)
    every = [estimate_us(planner.search, choices) for choices in _list_all(planner, 0)]

    assert len(every) > 100
    assert estimate_us(planner.search, found) == pytest.approx(min(every))


def _list_all(planner: Planner, position: int) -> Iterator[list[Choice]]:
    """Yield all ways through a network from a position."""
    if position == len(planner.graph.nodes):
        yield []
        return
    for batch in list_cuts(planner.search, position):
        for index in range(len(batch.busy_us)):
            choice = Choice(first=batch.first, last=batch.last, batch=batch, index=index)
            for rest in _list_all(planner, batch.last + 1):
                yield [choice, *rest]


def test_estimates_are_close_to_prices_where_waiting_itself_takes_nothing() -> None:
    profiles = [
        load_profile(profiles_dir() / SIMULATED / f"snapdragon-855-{kind}.json") for kind in ("cpu", "gpu")
    ]
    predictors = [Predictor(replace(profile, wait_us=0.0), profile.info) for profile in profiles]
    arrangement = arrange([profile.info for profile in profiles])
    planner = Planner(graph=load("squeezenet"), predictors=predictors, arrangement=arrangement)

    for choices in planner.search.find_choices(Method.DYNAMIC, 2):
        assert estimate_us(planner.search, choices) == pytest.approx(price_us(planner, choices), rel=0.1)
